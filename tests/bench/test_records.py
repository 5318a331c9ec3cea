from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.records import (
    Arm,
    Block,
    ClientPlace,
    Engine,
    PromptSetId,
    Request,
    Run,
    Service,
    Tokens,
    read_requests,
    read_run,
)
from engine.findings import Problems

BLOCK = Block(0, Arm.BASELINE, 0, "2026-01-01T00:00:00+00:00", None, {"page": "x"}, {}, Engine("image"), ("spoilt",))
RUN = Run(
    arm=Arm.BASELINE,
    engine=Engine("image@sha256:1", "0.23.0", ("--model=m",), {"runner": "V1"}, {"gpu": "L4"}),
    service=Service("http://a/x", "m", 1),
    service_run="uuid",
    client=ClientPlace("host", "here", "direct"),
    prompt_set=PromptSetId("teaching", "sha256:2"),
    concurrency=4,
    repeats=10,
    seed=42,
    max_tokens=128,
    started="2026-01-01T00:00:00+00:00",
    blocks=(BLOCK,),
    design="abba x2",
)
REQUEST = Request(
    block=0,
    arm=Arm.BASELINE,
    family="copy",
    case="a",
    repeat=3,
    warmup=False,
    concurrency=4,
    sent=1.5,
    ttft_s=0.25,
    end_s=1.25,
    chunk_times_s=(0.25, 1.0),
    tokens_per_chunk=(1, 5),
    text="é\u2028\n",
    finish_reason="stop",
    usage=Tokens(7, 11),
    status=200,
    error=None,
    client_idle_s=0.0,
    loop_lag_s=0.0,
)


def folder(path: Path, requests: bytes, run: Run = RUN) -> Path:
    (path / "run.json").write_text(run.to_json())
    (path / "requests.jsonl").write_bytes(requests)
    return path


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    read = read_run(folder(tmp_path, REQUEST.to_line().encode() * 2))
    assert (read.run, read.requests, read.notes) == (RUN, (REQUEST, REQUEST), ())


def test_a_spoilt_block_and_warm_up_are_not_measured(tmp_path: Path) -> None:
    sound = Block(1, Arm.BASELINE, 0, "now")
    lines = [{"block": 0}, {"block": 1}, {"block": 1, "warmup": True}]
    text = "".join(json.dumps({**json.loads(REQUEST.to_line()), **more}) + "\n" for more in lines)
    run = Run(**{**vars(RUN), "blocks": (BLOCK, sound)})
    assert [request.block for request in read_run(folder(tmp_path, text.encode(), run)).measured] == [1]


@pytest.mark.parametrize("cut", [1, 10, 200])
def test_a_torn_last_line_is_left_out_and_said(tmp_path: Path, cut: int) -> None:
    path = folder(tmp_path, (REQUEST.to_line() * 3).encode()[:-cut]) / "requests.jsonl"
    requests, notes = read_requests(path)
    said = f"warning: {path}:3: the last line was cut off, as a crash leaves it: that request is lost"
    assert (requests, [note.line() for note in notes]) == ([REQUEST] * 2, [said])


def test_tpot_is_of_the_tokens_after_the_first() -> None:
    def tpot(**more: Any) -> float | None:
        return Request(**{**vars(REQUEST), **more}).tpot_s

    found = [tpot(), tpot(usage=Tokens(7, 1)), tpot(usage=None), tpot(error="x"), tpot(ttft_s=None)]
    assert found == [0.1, None, None, None, None]


# Changed fields of a line, and what is said of it.
FAULTY: list[tuple[dict[str, Any], str]] = [
    ({"schema": 2}, "schema: 2: this program reads schema 1 only; use the program of the version that wrote it"),
    ({"schema": True}, "schema: True: this program reads schema 1 only; use the program of the version that wrote it"),
    ({"arm": "fast"}, "arm: fast: not one of baseline, speculative, unknown"),
    ({"repeat": 1.5}, "repeat: 1.5: not of type int"),
    ({"repeat": True}, "repeat: True: not of type int"),
    ({"more": 1}, "more: 1: unknown field"),
    ({"usage": {"prompt_tokens": 1}}, "usage.completion_tokens: missing"),
    ({"sent": -1.0}, "sent: -1.0: negative"),
    ({"chunk_times_s": [2, 1]}, "chunk_times_s: goes back in time"),
    ({"tokens_per_chunk": [1]}, "tokens_per_chunk: 1 counts for 2 chunks"),
    ({"usage": None}, "error: null without usage, end_s and status, so the request is not whole"),
]


@pytest.mark.parametrize(("change", "line"), FAULTY, ids=[line.partition(":")[0] for _, line in FAULTY])
def test_a_line_that_no_client_of_ours_writes_is_one_line(tmp_path: Path, change: dict[str, Any], line: str) -> None:
    text = json.dumps({**json.loads(REQUEST.to_line()), **change}) + "\n"
    path = folder(tmp_path, text.encode()) / "requests.jsonl"
    with pytest.raises(Problems) as raised:
        read_run(tmp_path)
    assert str(raised.value) == f"error: {path}:1.{line}"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        ('{"sent": NaN}', "not JSON: NaN is no number of JSON"),
        ("", "not JSON: Expecting value: line 1 column 1 (char 0)"),
        ("[]", "[]: not a JSON object"),
    ],
)
def test_a_line_that_is_no_object_is_one_line(tmp_path: Path, line: str, why: str) -> None:
    path = folder(tmp_path, f"{line}\n".encode()) / "requests.jsonl"
    with pytest.raises(Problems) as raised:
        read_run(tmp_path)
    assert str(raised.value) == f"error: {path}:1: {why}"


def test_a_request_of_no_block_and_a_missing_folder_are_one_line(tmp_path: Path) -> None:
    folder(tmp_path, REQUEST.to_line().encode(), Run(**{**vars(RUN), "blocks": ()}))
    with pytest.raises(Problems, match=r"requests.jsonl.block: \[0\]: not a block of run.json; keep the files of one"):
        read_run(tmp_path)
    with pytest.raises(Problems, match=r"none/run.json: No such file or directory; give the folder of a run"):
        read_run(tmp_path / "none")
    (tmp_path / "run.json").write_text(RUN.to_json().replace('"repeats": 10', '"repeats": 0'))
    with pytest.raises(Problems, match=r"run.json.repeats: 0: not positive"):
        read_run(tmp_path)
