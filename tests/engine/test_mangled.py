"""Real logs, metrics and streams, mangled as networks, rotation and terminals do it: never an exception, and never a
yes that the text as it was printed does not justify.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.arguments import read_args
from engine.causes import explain_log, find_cause, last_error
from engine.inspect import Outcome, inspect
from engine.log import parse_log
from engine.metrics import SpeculationDelta, parse_metrics, speculation_delta
from engine.redact import redact
from engine.sse import CompletionStream, read_body
from tests.engine.samples import FEW, SEED, own, sample

ANSI = ["\x1b[0;36m", "\x1b[0m", "\x1b[1;31m", "\x1b[K", "\x1b["]
PREFIXES = ["2026-03-02T09:15:01.123456789Z ", "[pod/p/engine] ", "2026-03-02T09:15:01Z stdout F ", "> "]
# A line of a megabyte, and one whose reader, if its work grew with the square of the length, would run for minutes.
MEGABYTE, LONG = 1_000_000, 50_000

# On: own logs of three versions; off: the same with the config that a baseline prints.
ON = [own("0.11.2-ngram.log"), own("0.23.0-two-engines.log"), own("dies-kv-cache.log")]
OFF = [re.sub(r"speculative_config=SpeculativeConfig\([^)]*\)", "speculative_config=None", text) for text in ON]
OFF = [re.sub(r"(?m)^.*(?:SpecDecoding metrics|non-default args).*\n", "", text) for text in OFF]


@st.composite
def cut(draw: st.DrawFn, texts: list[str]) -> str:
    """Some of a text: lines lost by rotation, lines cut short, pieces missing, another's lines in between."""
    lines = draw(st.sampled_from(texts)).split("\n")
    start = draw(st.integers(0, len(lines)))
    lines = lines[draw(st.sampled_from([0, start])) :]
    for _ in range(draw(st.integers(0, 3))):
        if lines:
            place = draw(st.integers(0, len(lines) - 1))
            line = lines[place]
            first = draw(st.integers(0, len(line)))
            last = draw(st.sampled_from([len(line), draw(st.integers(first, len(line)))]))
            lines[place] = line[:first] + line[last:]
    other = draw(st.sampled_from(texts)).split("\n")
    if draw(st.booleans()):
        for line in other[: draw(st.integers(0, 5))]:
            lines.insert(draw(st.integers(0, len(lines))), line)
    text = "\n".join(lines)
    return text[: draw(st.sampled_from([len(text), draw(st.integers(0, len(text)))]))]


@st.composite
def dressed(draw: st.DrawFn, texts: list[str]) -> str:
    """A cut text as a terminal, a proxy or a broken encoding shows it."""
    text = draw(cut(texts))
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(text)))
        text = text[:place] + draw(st.sampled_from([*ANSI, "\r", "\x00", "\n"])) + text[place:]
    prefix = draw(st.sampled_from(["", "", *PREFIXES]))
    text = draw(st.sampled_from(["\n", "\r\n"])).join(prefix + line for line in text.split("\n"))
    data = bytearray(text.encode())
    for place in draw(st.lists(st.integers(0, max(0, len(data) - 1)), max_size=3)):
        if data:
            data[place] = 0xFF
    return data.decode(errors="replace")


def starts(text: str) -> list[str]:
    """The complete configs of start-up lines, whatever stands around them."""
    plain = re.sub(r"\x1b\[[0-9;?]*[ -/]*[@-~]", "", text)
    return [
        config
        for line in re.split(r"\r\n|\n|\r", plain)
        for config in re.findall(
            r"Initializing a .* with config: .*(speculative_config=SpeculativeConfig\(.*?\))", line
        )
    ]


@FEW
@given(dressed(ON))
def test_no_mangled_log_says_on_without_a_complete_start_up_line(text: str) -> None:
    log = parse_log(text)
    assert log.speculation.state != "off"
    if log.speculation.state == "on":
        assert starts(text)
        assert log.speculation.method == "ngram" or "method='ngram'" not in "".join(starts(text))
        assert log.speculation.num_speculative_tokens is not None
    for window in log.spec_windows:
        assert window.acceptance_rate is None or window.acceptance_rate >= 0
    found = inspect(text)
    json.dumps(found.to_json())
    assert found.text()
    assert found.outcome is not Outcome.OFF
    error, _ = explain_log(text)
    assert error is None or "\n" not in error


@FEW
@given(dressed(OFF))
def test_no_mangled_log_of_a_baseline_says_on(text: str) -> None:
    assert parse_log(text).speculation.state != "on"
    assert inspect(text).outcome not in (Outcome.ON, Outcome.INERT)


@FEW
@given(st.data())
def test_a_log_that_is_cut_off_measures_nothing_new(data: st.DataObject) -> None:
    whole = data.draw(st.sampled_from(ON))
    text = whole[: data.draw(st.integers(0, len(whole)))]
    before, after = parse_log(whole), parse_log(text)
    for found, true in zip(after.spec_windows, before.spec_windows, strict=False):
        for name, value in vars(found).items():
            assert value is None or value == vars(true)[name], name
    for engine, real in zip(after.engine_windows, before.engine_windows, strict=False):
        for name, value in vars(engine).items():
            assert value is None or value == vars(real)[name], name
    assert after.kv_cache is None or before.kv_cache is None or after.kv_cache.tokens == before.kv_cache.tokens


K = 5
PAGE = "\n".join(
    [
        "# TYPE process_start_time_seconds gauge",
        "process_start_time_seconds 1.7e+09",
        *(
            line
            for name, value in (
                ("spec_decode_num_drafts_total", "{0}"),
                ("spec_decode_num_draft_tokens_total", "{1}"),
                ("spec_decode_num_accepted_tokens_total", "{2}"),
            )
            for line in (
                f"# TYPE vllm:{name} counter",
                *(f'vllm:{name}{{{{engine="{e}",model_name="a"}}}} {value}' for e in (0, 1)),
            )
        ),
        *(
            "vllm:spec_decode_num_accepted_tokens_per_pos_total"
            f'{{{{engine="{e}",model_name="a",position="{p}"}}}} {{3}}'
            for e in (0, 1)
            for p in range(K)
        ),
        "# TYPE vllm:generation_tokens_total counter",
        *(f'vllm:generation_tokens_total{{{{engine="{e}",model_name="a"}}}} {{4}}' for e in (0, 1)),
        "",
    ]
)
BEFORE, AFTER = (
    PAGE.format("10.0", "50.0", "25.0", "5.0", "70.0"),
    PAGE.format("110.0", "550.0", "375.0", "75.0", "900.0"),
)
TRUE = speculation_delta(parse_metrics(BEFORE), parse_metrics(AFTER), "a", k=K)


def without_speculation(page: str) -> str:
    return "\n".join(line for line in page.split("\n") if "spec_decode" not in line)


@st.composite
def spoilt(draw: st.DrawFn, page: str) -> str:
    """A page with lines missing, repeated, cut, merged with the next, or with another value."""
    lines = page.split("\n")
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(lines) - 1))
        how = draw(st.sampled_from(["missing", "repeated", "moved", "cut", "merged", "value"]))
        line = lines[place]
        if how == "missing":
            lines[place] = ""
        elif how == "repeated":
            lines.insert(draw(st.integers(0, len(lines) - 1)), line)
        elif how == "moved":
            lines[place] = ""
            lines.insert(draw(st.integers(0, len(lines) - 1)), line)
        elif how == "cut" and line:
            # At the end, where the value is: what is left is no whole line.
            lines[place] = line[: draw(st.integers(0, line.rfind(" ") + 1))]
        elif how == "merged" and place + 1 < len(lines):
            lines[place : place + 2] = [line + lines[place + 1]]
        elif how == "value" and not line.startswith("#") and line:
            bad = draw(st.sampled_from(["NaN", "+Inf", "-3", "1e300", "1_0", "٣", "", "0x10"]))
            lines[place] = f"{line.rpartition(' ')[0]} {bad}"
    text = "\n".join(lines)
    return text[: draw(st.sampled_from([len(text), draw(st.integers(0, len(text)))]))]


def numbers(delta: SpeculationDelta) -> tuple[object, ...]:
    return delta.drafts, delta.draft_tokens, delta.accepted


@FEW
@given(spoilt(BEFORE), spoilt(AFTER))
def test_no_spoilt_page_gives_other_numbers_or_an_absence(before: str, after: str) -> None:
    found = speculation_delta(parse_metrics(before), parse_metrics(after), "a", k=K)
    assert found.state != "off" or "spec_decode" not in after
    if found.state == "measured" and not found.problems:
        assert numbers(found) == numbers(TRUE)
        assert found.generated in (None, TRUE.generated)
    assert inspect("", (before, after)).outcome in (Outcome.ON, Outcome.UNKNOWN, Outcome.CONTRADICTION, Outcome.OFF)


@FEW
@given(spoilt(without_speculation(BEFORE)), spoilt(without_speculation(AFTER)))
def test_no_spoilt_page_of_a_baseline_measures_speculation(before: str, after: str) -> None:
    found = speculation_delta(parse_metrics(before), parse_metrics(after), "a", k=K)
    assert found.state != "measured"
    assert numbers(found) == (None, None, None)


CONTRADICTIONS = [
    pytest.param(BEFORE, AFTER + AFTER.split("\n")[3] + "\n", "unknown", id="a series twice"),
    pytest.param(BEFORE, AFTER.replace(" 375.0", " NaN"), "unknown", id="no number"),
    pytest.param(BEFORE, AFTER.replace(" 375.0", " 1e308"), "unknown", id="a number whose sums are infinite"),
    pytest.param(BEFORE.replace(" 25.0", " -25.0"), AFTER, "unknown", id="a count below zero"),
    pytest.param(BEFORE, re.sub(r"vllm:spec_decode_num_acc\S+l\{.*\n", "", AFTER), "unknown", id="no accepted tokens"),
    pytest.param(
        "\n".join(BEFORE.split("\n")[:3] + BEFORE.split("\n")[4:]), AFTER, "unknown", id="an engine on one page only"
    ),
    pytest.param(BEFORE, re.sub(r"(?m)^vllm:spec_\S+ .*\n", "", AFTER), "reset", id="counters that went"),
    pytest.param(
        re.sub(r"(?m)^vllm:spec_.*\n", "", BEFORE),
        re.sub(r"(?m)^vllm:spec_.*\n", "", AFTER),
        "unknown",
        id="counters that are declared and not there are no absence",
    ),
    pytest.param(without_speculation(BEFORE), without_speculation(AFTER)[:-1], "unknown", id="a page that is cut off"),
    pytest.param(without_speculation(BEFORE), without_speculation(AFTER), "off", id="no counters at all"),
    pytest.param(BEFORE, AFTER, "measured", id="sound pages"),
]


@pytest.mark.parametrize(("before", "after", "state"), CONTRADICTIONS)
def test_pages_that_contradict_themselves_are_not_counted(before: str, after: str, state: str) -> None:
    found = speculation_delta(parse_metrics(before), parse_metrics(after), "a", k=K)
    assert (found.state, bool(found.problems)) == (state, False)
    assert (found.drafts is None) == (state != "measured")


USAGE = '{"choices":[],"usage":{"prompt_tokens":26,"completion_tokens":5,"total_tokens":31}}'
STREAM = (
    "".join(
        f'data: {{"choices":[{{"index":0,"delta":{{"content":"{word} é"}}}}]}}\n\n' for word in ("one", 'two\\"', "3")
    )
    + f"data: {USAGE}\n\ndata: [DONE]\n\n"
).encode()


@FEW
@given(st.data())
def test_no_cut_stream_is_complete(data: st.DataObject) -> None:
    end = data.draw(st.integers(0, len(STREAM)))
    stream = CompletionStream()
    place = 0
    while place < end:
        step = data.draw(st.integers(1, 200))
        stream.feed(STREAM[place : min(end, place + step)], 0.0)
        place += step
    found = stream.finish(1.0)
    assert 'one étwo" é3 é'.startswith(found.text)
    assert found.done == (b"data: [DONE]" in STREAM[:end])
    assert (found.usage is not None) == (USAGE.encode() in STREAM[:end])


@FEW
@given(st.binary(max_size=30), st.integers(0, len(STREAM)))
def test_bytes_that_are_no_text_do_not_end_a_stream(noise: bytes, place: int) -> None:
    stream = CompletionStream()
    stream.feed(STREAM[:place] + noise + STREAM[place:], 0.0)
    found = stream.finish(1.0)
    found.text.encode()
    assert found.usage is None or found.usage.completion_tokens == 5 or noise


def test_half_a_surrogate_pair_is_text_that_can_be_written() -> None:
    found = read_body(b'{"choices":[{"message":{"content":"a\\ud83d b\\ud83d\\ude00"}}]}')
    assert found.text == "a\ufffd b\U0001f600"


CONFIG = next(arg for arg in SEED if arg.startswith("--speculative-config"))


@FEW
@given(st.integers(0, len(CONFIG) - 1), st.sampled_from(["", "'", "\ufffd", ","]))
def test_no_cut_config_is_taken(end: int, tail: str) -> None:
    read = read_args([*SEED[:2], CONFIG[:end] + tail])
    assert read.speculative is None


UNITS = ["a", "a-", "--a ", "'a", "{", "<a: ", "\x1b[0;", "█ ", "token=", "pull ", "A.", "gated repo ", '"\\', "€"]
READERS: dict[str, Callable[[str], object]] = {
    "log": parse_log,
    "args line": lambda text: parse_log("non-default args: {" + text + "}"),
    "start-up line": lambda text: parse_log(
        "Initializing a V1 LLM engine (v0.23.0) with config: speculative_config=SpeculativeConfig(" + text
    ),
    "statistics": lambda text: parse_log("SpecDecoding metrics: Accepted: 1 tokens, Drafted: 1 tokens, " + text),
    "last error": lambda text: last_error("ValueError: " + text),
    "secrets": redact,
    "metrics": lambda text: parse_metrics('a{b="' + text + "\n" + "a{" + text + "} 1\n"),
    "stream": lambda text: read_body(('{"choices": "' + text).encode()),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", READERS)
def test_long_lines_are_read_in_one_go(name: str) -> None:
    """A reader whose work grew with the square of a line's length would run into the limit."""
    READERS[name]("a" * MEGABYTE)
    for unit in UNITS:
        READERS[name](unit * (LONG // len(unit)))


@pytest.mark.timeout(60)
def test_causes_are_looked_for_in_long_lines_too() -> None:
    for unit in UNITS:
        text = unit * (LONG // len(unit))
        find_cause(text)
        explain_log("ValueError: " + text)


@pytest.mark.parametrize("name", ["0.32.0-ngram.log", "0.32.0-baseline.log"])
def test_a_real_log_loses_its_answer_with_its_start_up_line_only(name: str) -> None:
    lines = sample(name).split("\n")
    whole = parse_log("\n".join(lines)).speculation
    for start in range(0, len(lines), 7):
        found = parse_log("\n".join(lines[start:])).speculation
        assert found == whole or found.state == "unknown"
