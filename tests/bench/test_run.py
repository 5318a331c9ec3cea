"""Whole runs: on fake engines as processes, interrupted, gone on with, by the command and by the scripts."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.command_run import main
from bench.records import RunFolder, read_run
from tests.bench.experiments import measure, metrics
from tests.bench.hostile import HANG, PLAIN, answer, hostile
from tests.sandbox.engines.fake import BASE, NO_THINKING, ROOT, Fake, serving

pytestmark = pytest.mark.process

OWN = [{"case": str(i), "family": "copy", "prompt": f"Repeat this list of words exactly: {i} lamp, river, lamp, river"}
       for i in range(3)]  # fmt: skip


@pytest.fixture(scope="module")
def engines() -> Iterator[tuple[Fake, Fake]]:
    with serving((*BASE, NO_THINKING)) as baseline, serving() as speculative:
        yield baseline, speculative


@pytest.fixture
def prompts(tmp_path: Path) -> str:
    path = tmp_path / "own.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in OWN))
    return str(path)


def url(engine: Fake) -> str:
    return f"http://{engine.host}:{engine.port}"


def asked(read: RunFolder) -> list[tuple[str, int]]:
    return [(request.case, request.repeat) for request in read.measured]


def test_a_pair_in_abba_blocks_has_a_twin_for_each_request(
    tmp_path: Path, engines: tuple[Fake, Fake], prompts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--baseline", url(engines[0]), "--speculative", url(engines[1]), "--prompts", prompts]
    words += [
        "--repeats",
        "2",
        "--cycles",
        "1",
        "--concurrency",
        "1",
        "2",
        "--out",
        str(tmp_path),
        "--location",
        "here",
    ]
    assert main(words) == 0
    runs = {name: read_run(tmp_path / name) for name in ("baseline-c1", "speculative-c1", "baseline-c2")}
    one, other = runs["baseline-c1"], runs["speculative-c1"]
    assert [[block.order for block in read.run.blocks] for read in runs.values()] == [[0, 3], [1, 2], [0, 3]]
    assert asked(one) == asked(other)
    assert sorted(asked(one)) == sorted((line["case"], repeat) for line in OWN for repeat in range(2))
    assert {request.text for request in one.measured} == {request.text for request in other.measured}
    assert all(request.error is None and request.tokens_per_chunk for request in (*one.measured, *other.measured))
    summary = json.loads((tmp_path / "speculative-c1" / "summary.json").read_text())
    tokens = sum(request.usage.completion_tokens for request in other.measured if request.usage)
    assert (summary["complete"], summary["speculation"]["generated_tokens"]) == (True, tokens)
    assert summary["speculation"]["accepted_tokens"] > 0
    said = capsys.readouterr().err
    assert "error" not in said
    assert "engine.device.gpu: not known of both arms" in said


def test_every_case_is_warmed_up_in_every_block_and_not_counted(
    tmp_path: Path, engines: tuple[Fake, Fake], prompts: str
) -> None:
    words = ["--url", url(engines[0]), "--null", "--prompts", prompts, "--concurrency", "1", "--warmup-passes", "2"]
    assert main([*words, "--repeats", "2", "--cycles", "1", "--out", str(tmp_path)]) == 0
    read = read_run(tmp_path / "null-a-c1")
    warm = {
        block.index: [r.case for r in read.requests if r.block == block.index and r.warmup] for block in read.run.blocks
    }
    assert {index: sorted(cases) for index, cases in warm.items()} == dict.fromkeys((0, 1), sorted([*"012", *"012"]))
    assert not any(request.warmup for request in read.measured)


def test_a_crash_of_the_engine_spoils_the_block_and_resume_does_it_again(
    tmp_path: Path, engines: tuple[Fake, Fake], prompts: str
) -> None:
    words = [
        "--prompts",
        prompts,
        "--concurrency",
        "1",
        "--repeats",
        "3",
        "--warmup-passes",
        "1",
        "--out",
        str(tmp_path),
    ]
    with serving((*BASE, NO_THINKING), settings={"crash_after": 7}) as dying:
        assert main(["--url", url(dying), *words]) == 1
    read = read_run(tmp_path)
    assert (len(read.measured), "requests in a row failed" in read.run.blocks[0].problems[0]) == (0, True)
    assert main(["--url", url(engines[0]), *words]) == 1  # not without --resume
    assert main(["--url", url(engines[0]), *words, "--resume"]) == 0
    read = read_run(tmp_path)
    assert sorted(asked(read)) == sorted((line["case"], repeat) for line in OWN for repeat in range(3))
    assert [bool(block.problems) for block in read.run.blocks] == [True, False]
    assert main(["--url", "http://127.0.0.1:1", *words, "--resume"]) == 0  # nothing is left to ask


def test_another_plan_does_not_resume_a_run(
    tmp_path: Path, engines: tuple[Fake, Fake], prompts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--url", url(engines[0]), "--prompts", prompts, "--concurrency", "1", "--out", str(tmp_path), "--resume"]
    assert main([*words, "--repeats", "1"]) == 0
    capsys.readouterr()
    assert main([*words, "--repeats", "2", "--seed", "7"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"error: {tmp_path}: {name}: {now}: the run that is there has {was}, so this would be another run; "
        "give the same options, or another --out"
        for name, was, now in (("repeats", 1, 2), ("seed", 42, 7))
    ]


def test_another_model_does_not_resume_a_run(tmp_path: Path) -> None:
    line = "error: model: n: what was measured already is of m; serve that one, or give another --out"
    assert [found.partition(":")[0] for found in measure(tmp_path, answers=[PLAIN] * 6 + [None])[0]] == ["error"]
    pages = {"/metrics": [metrics()], "/v1/models": [answer(200, {"data": [{"id": "n"}]})]}
    assert measure(tmp_path, pages=pages, resume=True)[0] == [line]


def environment(**more: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **more}


def test_ctrl_c_keeps_what_was_measured_and_resume_goes_on(tmp_path: Path, prompts: str) -> None:
    words = [
        "--prompts",
        prompts,
        "--concurrency",
        "2",
        "--repeats",
        "6",
        "--warmup-passes",
        "1",
        "--out",
        str(tmp_path),
    ]

    async def both() -> tuple[int | None, str, RunFolder, int]:
        pages = {"/metrics": [metrics()]}
        async with hostile(pages=pages, answers=[*[PLAIN] * 10, HANG]) as state:
            words[:0] = ["--url", state.address]
            command = [sys.executable, "-m", "bench", "run", *words]
            pipe = asyncio.subprocess.PIPE
            child = await asyncio.create_subprocess_exec(*command, env=environment(), stderr=pipe)
            while child.returncode is None and len(state.bodies) < 12:
                await asyncio.sleep(0.01)
            child.send_signal(signal.SIGINT)
            _, said = await child.communicate()
            before = read_run(tmp_path)
            with (tmp_path / "requests.jsonl").open("ab") as file:
                file.write(b'{"schema": 1, "blo')
            state.answers = [PLAIN]
            resumed = await asyncio.to_thread(main, [*words, "--resume"])
            return child.returncode, said.decode(), before, resumed

    status, said, before, resumed = asyncio.run(both())
    after = read_run(tmp_path)
    assert (status, "with --resume goes on" in said, len(before.measured), resumed) == (130, True, 7, 0)
    assert after.requests[:10] == before.requests
    assert sorted(asked(after)) == sorted((line["case"], repeat) for line in OWN for repeat in range(6))
    assert [bool(block.ended) for block in after.run.blocks] == [False, True]
    assert after.notes == ()


SWITCH = """
import json, sys
with open({calls!r}, "a") as file:
    file.write(" ".join(sys.argv[1:]) + "\\n")
if sys.argv[1:] == ["speculative", "2"] and {fails}:
    sys.exit(3)
print("starting")
print(json.dumps({{"address": dict(baseline={a!r}, speculative={b!r}).get(sys.argv[1], ""), "image": "v@sha256:1",
                   "device": {{"gpu": "L4", "driver": "575"}}, "replicas": 1, "args": ["--api-key=s3cret-key"]}}))
"""


@pytest.mark.parametrize("fails", [False, True])
def test_a_command_places_a_fresh_engine_for_each_block_and_stops_it_at_the_end(
    tmp_path: Path, engines: tuple[Fake, Fake], prompts: str, capsys: pytest.CaptureFixture[str], fails: bool
) -> None:
    calls, script = tmp_path / "calls", tmp_path / "switch.py"
    script.write_text(SWITCH.format(calls=str(calls), a=url(engines[0]), b=url(engines[1]), fails=fails))
    words = ["--switch", f"{sys.executable} {script}", "--prompts", prompts, "--repeats", "2", "--cycles", "1"]
    status = main([*words, "--concurrency", "1", "--out", str(tmp_path / "out")])
    order = ["baseline 0", "speculative 1", "speculative 2", *([] if fails else ["baseline 3"]), "stop"]
    assert (status, calls.read_text().splitlines()) == (int(fails), order)
    said = capsys.readouterr().err
    assert ("it ended with exit code 3" in said, "not known" in said) == (fails, False)
    run = read_run(tmp_path / "out" / "baseline-c1").run
    assert (run.engine.image, run.engine.args, run.service.replicas) == ("v@sha256:1", ("--api-key=***",), 1)


def test_the_tutorials_command_measures_a_service_behind_a_prefix_with_its_token(tmp_path: Path) -> None:
    async def both() -> tuple[int | None, str, list[str]]:
        async with hostile(pages={"/p/run/metrics": [metrics()]}) as state:
            child = await asyncio.create_subprocess_exec(
                sys.executable, str(ROOT / "recipes/polyaxon/bench.py"), "--concurrency", "1", "--repeats", "1",
                "--service-run", "uuid", "--out", str(tmp_path / "baseline-c1"), cwd=tmp_path,
                env=environment(SERVICE_URL=f"{state.address}/p/run/", POLYAXON_TOKEN="t0ken", PYTHONPATH=""),
                stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
            _, said = await child.communicate()
            return child.returncode, said.decode(), state.seen

    status, said, seen = asyncio.run(both())
    assert status == 0, said
    assert all("\r\nAuthorization: token t0ken\r\n" in head and " /p/run/" in head for head in seen)
    read = read_run(tmp_path / "baseline-c1")
    assert (read.run.service_run, len(read.measured), "t0ken" in read.run.to_json()) == ("uuid", 9, False)


WRONG: list[tuple[list[str], str]] = [
    ([], "address: not one way to engines; give --url (or SERVICE_URL), or --baseline and --speculative, or --switch"),
    (["--baseline", "http://a"], "address: --baseline: not one way to engines; give --url (or SERVICE_URL), "
     "or --baseline and --speculative, or --switch"),
    (["--url", "a:80"], "address: a:80: not an http(s) address; give http://HOST[:PORT][/PREFIX]"),
    (["--url", "http://a", "--order", "abba"], "--order: abba: one arm alone has no order of arms; leave --order out"),
    (["--url", "http://a", "--prompts", "x"], "prompts: x: No such file or directory; "
     "name a shipped set (teaching, copy), a JSONL file, or a folder of text files"),
    (["--switch", "x", "--repeats", "3"], "repeats: 3: fewer than the 4 blocks of an arm; "
     "give --repeats 4 or more, or fewer --cycles"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "line"), WRONG)
def test_a_command_line_that_does_not_fit_is_one_line(
    tmp_path: Path, words: list[str], line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SERVICE_URL", raising=False)
    assert main([*words, "--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err == f"error: {line}\n"


def test_a_request_is_on_disk_before_the_next_one_is_sent(tmp_path: Path) -> None:
    out = tmp_path / "out"

    class Watching(list[Any]):
        """The answers; how many lines there were when each was taken."""

        lines: list[int] = []  # noqa: RUF012 - one instance

        def pop(self, index: Any = -1) -> Any:
            with contextlib.suppress(FileNotFoundError):
                self.lines.append((out / "requests.jsonl").read_bytes().count(b"\n"))
            return super().pop(index)

    answers = Watching([PLAIN] * 100)
    measure(out, answers=answers)
    assert answers.lines == list(range(9))
