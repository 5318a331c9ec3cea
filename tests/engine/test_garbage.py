"""Any input: readers answer with a value, never with an exception."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from engine.arguments import read_args, write_speculative
from engine.causes import explain_log, find_cause
from engine.findings import Finding, errors
from engine.inspect import inspect
from engine.log import parse_log
from engine.metrics import parse_metrics, speculation_delta
from engine.names import NGRAM_METHODS
from engine.rules import check_engine
from engine.speculative import check_speculative, effective_method, resolve
from engine.sse import CompletionStream, read_body
from engine.versions import EngineVersion
from tests.engine.samples import FEW, SEED, own

# Pieces of the real formats, so that the readers are led deep before the input turns bad.
LOG_PIECES = [
    *own("0.23.0-two-engines.log").split("\n"),
    *own("0.11.2-ngram.log").split("\n"),
    *own("dies-kv-cache.log").split("\n"),
    "non-default args: {",
    "SpecDecoding metrics: Accepted: 9 tokens, Drafted: 9 tokens, Per-position acceptance rate: 0.5, nan",
    "GPU KV cache size: ,, tokens",
    "Maximum concurrency for 1 tokens per request: .x",
    "1 validation error for SpeculativeConfig",
]
METRIC_PIECES = [
    'vllm:spec_decode_num_drafts_total{engine="0",model_name="a"} 3',
    'vllm:spec_decode_num_drafts_total{engine="0",model_name="a"} NaN',
    'vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="a"} +Inf',
    'vllm:spec_decode_num_accepted_tokens_per_pos_total{model_name="a",position="²"} 1',
    'vllm:spec_decode_num_accepted_tokens_per_pos_total{model_name="a",position="3"} 1',
    'vllm:generation_tokens_total{model_name="a"} -1',
    'a{b="',
]
SSE_PIECES = [
    b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n',
    b'data: {"choices":[{"delta":null,"index":0,"message":3}],"usage":[]}\n\n',
    b'data: {"choices":{"a":1},"metrics":3,"error":null}\n\n',
    b'data: {"choices":[{"delta":{"tool_calls":[{"index":"x","function":1},2]}}]}\n\n',
    b"data: [[[[\n\n",
    b"\r",
    b"\n",
    b"data",
    b"data: [DONE]\n\n",
]
ARG_PIECES = [
    *SEED,
    "-sc",
    "-sc.a.b",
    "--speculative-config.a+=1",
    "--spec-tokens",
    "{",
    "-",
    "--",
    "=",
    "-1",
    "--=x",
    "$(A)",
]

TEXT = st.text(max_size=60)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def mutated(draw: st.DrawFn, pieces: list[str]) -> str:
    """Real lines, some cut or doubled, with any text between them."""
    parts = draw(st.lists(st.sampled_from(pieces) | TEXT, max_size=6))
    text = "\n".join(parts)
    if text and draw(st.booleans()):
        place = draw(st.integers(0, len(text)))
        text = text[:place] + draw(TEXT) + text[place + draw(st.integers(0, 5)) :]
    return text


@FEW
@given(mutated(LOG_PIECES))
def test_any_text_is_a_log(text: str) -> None:
    log = parse_log(text)
    assert log.speculation.state in ("on", "off", "unknown")
    error, _ = explain_log(text)
    assert error is None or "\n" not in error
    find_cause(text)
    json.dumps(inspect(text).to_json())
    assert inspect(text).text()


@FEW
@given(mutated(METRIC_PIECES), mutated(METRIC_PIECES), st.none() | st.just("a"))
def test_any_text_is_a_scrape(before: str, after: str, model: str | None) -> None:
    found = speculation_delta(parse_metrics(before), parse_metrics(after), model)
    assert (found.drafts is not None) <= (found.state == "measured")
    assert found.acceptance_rate is None or found.state == "measured"
    assert found.tokens_per_step is None or found.tokens_per_step > 0
    assert isinstance(inspect("", (before, after)).text(), str)


@FEW
@given(st.lists(st.sampled_from(SSE_PIECES) | st.binary(max_size=20), max_size=8), st.binary(max_size=40))
def test_any_bytes_are_an_answer(chunks: list[bytes], body: bytes) -> None:
    stream = CompletionStream()
    for at, chunk in enumerate(chunks):
        stream.feed(chunk, float(at))
    whole = CompletionStream()
    whole.feed(b"".join(chunks), 0.0)
    found, same = stream.finish(9.0), whole.finish(9.0)
    assert (found.text, found.usage, found.errors, found.done) == (same.text, same.usage, same.errors, same.done)
    assert read_body(body).finish_reason is None


@FEW
@given(st.lists(st.sampled_from(ARG_PIECES) | TEXT, max_size=8), TEXT, st.lists(TEXT, max_size=3))
def test_any_words_are_args(args: list[str], image: str, command: list[str]) -> None:
    read = read_args(args)
    assert read.declares_speculation or read.speculative is None
    assert read_args(write_speculative(args, None)).speculative is None
    found = check_engine(image, args, {"A": "x", "VLLM_PORT": None}, command=command)
    assert all(isinstance(finding, Finding) and "\n" not in finding.line() for finding in found)


@FEW
@given(st.dictionaries(st.sampled_from([*json.loads(SEED[4].split("=", 1)[1]), "model", "x"]) | TEXT, JSON_VALUES))
def test_any_object_is_a_speculative_config(raw: dict[str, object]) -> None:
    for text in ("0.11.2", "0.23.0", "0.32.0", "x"):
        wrong = errors(check_speculative(raw, EngineVersion.of_text(text)))
        # What passes the rules of n-gram has an effective config.
        assert wrong or resolve(raw) or effective_method(raw) not in NGRAM_METHODS
