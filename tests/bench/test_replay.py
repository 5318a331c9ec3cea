"""Replay from the command line: what logs are understood, what is told, which settings are best."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.command_replay import main
from bench.drafts import Match
from bench.logs import END_ID, Logged, Logs, encoder, read
from bench.replay import Place, Replay, Setting, replay
from engine.findings import Problems
from engine.fit import GPUS
from engine.models import MODELS

WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu"
PLAIN = {"prompt": "P", "completion": "A"}
PREFIX = "(APIServer pid=1) INFO 01-02 03:04:05 [logger.py:40] "


# What one line becomes.
@pytest.mark.parametrize(
    ("entry", "logged"),
    [
        (PLAIN | {"family": "copy"}, Logged("P", "A", "copy")),
        (PLAIN | {"metadata": {"family": "copy"}, "finish_reason": "length"}, Logged("P", "A", "copy", "length")),
        (
            {"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "U"},
                          {"role": "assistant", "content": "A"}]},
            Logged("S\nU", "A"),
        ),
        (
            {"request": {"messages": [{"role": "user", "content": [{"type": "text", "text": "U"}]}], "max_tokens": 9},
             "response": {"choices": [{"message": {"content": "A"}, "finish_reason": "stop"}]}},
            Logged("U", "A", finish="stop", max_tokens=9),
        ),
        (
            {"request": {"body": {"prompt": "P"}}, "response": {"body": {"choices": [{"text": "A"}]}}},
            Logged("P", "A"),
        ),
        (
            {"prompt_token_ids": [1, 2], "token_ids": [3]},
            Logged("", "", prompt_ids=(1, 2), answer_ids=(3,)),
        ),
    ],
)  # fmt: skip
def test_json_lines_of_several_kinds(entry: dict[str, Any], logged: Logged) -> None:
    assert read(json.dumps(entry)) == Logs((logged,), 0)


def test_lines_without_prompt_or_answer_are_counted() -> None:
    lines = [PLAIN, {"prompt": "P"}, {"messages": [{"role": "user", "content": "U"}]}, [], 3]
    assert read("\n".join([*map(json.dumps, lines), "{torn"])) == Logs((Logged("P", "A"),), 5)


def test_a_log_of_vllm_gives_prompts_answers_and_ids() -> None:
    text = "\n".join([
        PREFIX + r"Received request chatcmpl-1: prompt: '<|im_start|>user\nIt\'s \"so\"', params: SamplingParams(n=1, "
        "max_tokens=16), prompt_token_ids: [5, 6, 7], prompt_embeds shape: None, lora_request: None.",
        PREFIX + "Received request chatcmpl-2: prompt: 'unanswered', params: SamplingParams(max_tokens=16), "
        "prompt_token_ids: None, prompt_embeds shape: None, lora_request: None.",
        PREFIX + "Generated response chatcmpl-1 (streaming delta): output: 'Yes', output_token_ids: [8], "
        "finish_reason: None",
        PREFIX + "Generated response chatcmpl-1 (streaming complete): output: 'Yes, it is', output_token_ids: "
        "[8, 9], finish_reason: length",
    ])  # fmt: skip
    logged = Logged(
        "<|im_start|>user\nIt's \"so\"", "Yes, it is", finish="length", max_tokens=16,
        prompt_ids=(5, 6, 7), answer_ids=(8, 9),
    )  # fmt: skip
    assert read(text) == Logs((logged,), 1)


def test_newer_logs_tell_the_prompt_in_a_line_of_details() -> None:
    text = "\n".join([
        PREFIX + "Request cmpl-3 details: prompt: \"P\", prompt_token_ids: None, prompt_embeds shape: None.",
        PREFIX + "Received request cmpl-3: params: SamplingParams(max_tokens=16), lora_request: None.",
        PREFIX + "Generated response cmpl-3: output: 'A', output_token_ids: None, finish_reason: stop",
    ])  # fmt: skip
    assert read(text).requests == (Logged("P", "A", finish="stop"),)


@pytest.mark.parametrize("text", ["", "{}", "INFO 01-02 03:04:05 nothing of interest"])
def test_nothing_to_replay_is_said(text: str) -> None:
    with pytest.raises(Problems, match="none has a prompt and its answer"):
        read(text)


def test_an_answer_that_just_ended_has_an_end_token() -> None:
    assert Logged("a", "b").tokens(encoder("bytes")) == (b"a", [98, END_ID])
    assert Logged("a", "b", finish="length").tokens(encoder("bytes")) == (b"a", [98])


def test_a_tokenizer_file_is_used(tmp_path: Path) -> None:
    vocabulary = {"[UNK]": 0, "alpha": 1, "beta": 2}
    model = {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"}
    (tmp_path / "tokenizer.json").write_text(
        json.dumps({"version": "1.0", "model": model, "pre_tokenizer": {"type": "Whitespace"}})
    )
    for name in (tmp_path, tmp_path / "tokenizer.json"):
        assert encoder(str(name))("alpha beta gamma") == [1, 2, 0]
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(Problems, match="not a tokenizer"):
        encoder(str(tmp_path / "other.json"))
    with pytest.raises(Problems, match="no such file"):
        encoder("nothing")


COPY = Logged(f"Copy: {WORDS}", WORDS, "copy", "length")
PROSE = Logged("Why?", "Nobody knows that any more than you do", "prose", "length")


def told(*requests: Logged, match: Match = "leftmost", **options: Any) -> Replay:
    return replay(Logs(requests, 0), "words", encoder("words"), Setting(1, 3, 5), match=match, **options)


def test_each_family_has_its_own_gain() -> None:
    copy, prose, both = told(COPY, PROSE).families
    # "alpha" has no space before it here and so no copy; from " beta" on five words are drafted at a time.
    assert (copy.steps, copy.drafts, copy.draft_tokens, copy.accepted) == (3, 2, 10, 9)
    assert (copy.tokens_per_step, copy.acceptance_length, copy.acceptance_rate) == (11 / 3, 5.5, 0.9)
    assert (prose.tokens_per_step, prose.coverage, prose.acceptance_length) == (1.0, 0.0, None)
    assert (both.family, both.steps) == ("all families", copy.steps + prose.steps)


def test_the_rightmost_runner_counts_every_step() -> None:
    prose = told(PROSE, match="rightmost").families[0]
    assert (prose.coverage, prose.drafts, prose.draft_tokens) == (1.0, prose.steps, 5 * prose.steps)


def test_a_busy_gpu_gains_less_than_an_idle_one() -> None:
    gains = [
        told(COPY, place=Place(MODELS["Qwen/Qwen3-8B"], GPUS["L4"], sequences)).families[0].speedup or 0.0
        for sequences in (1, 256)
    ]
    assert gains[0] == pytest.approx(11 / 3)
    assert gains[1] < 2


def test_tuning_takes_fewest_drafts_of_the_best_and_judges_on_other_texts() -> None:
    # Three words in a row are the same as before, then comes a new one: more than three drafts gain nothing.
    groups = [f"a{n} b{n} c{n}".split() for n in range(8)]
    texts = [
        Logged(" ".join(f"{a} {b} {c} old{n}" for n, (a, b, c) in enumerate(groups)),
               " ".join(f"{a} {b} {c} new{n}" for n, (a, b, c) in enumerate(groups)), finish="length")
        for _ in range(8)
    ]  # fmt: skip
    tuned = told(*texts, tune=True).tuned
    assert tuned is not None
    assert tuned.held_out
    assert tuned.gain.requests == 4
    plain = told(*texts).families[0]
    assert (tuned.gain.tokens_per_step or 0) >= 0.99 * (plain.tokens_per_step or 0)
    assert (plain.tokens_per_step or 0) > 2
    assert tuned.setting.k <= 5
    few = told(COPY, tune=True).tuned
    assert few is not None
    assert not few.held_out


def test_the_command_prints_markdown_or_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps({"prompt": r.prompt, "completion": r.answer, "family": r.family}) + "\n"
                           for r in (COPY, PROSE)))  # fmt: skip
    words = [str(log), "--tokenizer", "words", "--gpu", "l4", "--tune"]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert "| copy | 1 |" in text
    assert "no model's tokenizer" in text
    assert "Best of " in text
    assert main([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["place"]["gpu"], document["requests"]) == (1, "L4", 2)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--min", "4", "--max", "2"], "prompt_lookup_min: 4: it must be <= prompt_lookup_max=2"),
        (["--k", "0"], "num_speculative_tokens: 0: it must be at least 1"),
        (["--gpu", "GTX"], "--gpu: GTX: it is not known; give one of T4, L4"),
        (["--gpu", "L4", "--model", "m"], "--model: m: it is not known"),
        (["--gpu", "L4", "--concurrency", "0"], "--concurrency: 0: it must be at least 1"),
        (["--tokenizer", "nothing"], "there is no such file"),
    ],
)
def test_wrong_usage_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps(PLAIN))
    assert main([str(log), "--tokenizer", "words", *words]) == 2
    err = capsys.readouterr().err
    assert says in err
    assert err.count("\n") == 1
