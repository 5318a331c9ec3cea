"""`python -m validation check` as a person starts it: a `pulumi` on PATH that answers, and an API server that finishes
the Job.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.components.gates.api import Api, serve
from tests.components.gates.test_validation_run import CONFIG_MAPS, JOB, JOBS, NAMESPACE, Controller, left
from tests.validation.engines import ROOT
from tests.validation.test_verdict import CANNOT_TELL, verdict
from validation.commands.dashboard import dashboard_json
from validation.rules import markdown
from validation.settings import JobInput
from validation.verdict import Outcome, Verdict

pytestmark = pytest.mark.process

PULUMI = """\
#!/bin/sh
echo "$@" > "$HOME/asked"
cat "$HOME/said" >&2
cat "$HOME/outputs"
exit $(cat "$HOME/status")
"""
# A run that the test ends must not wait for the end of the test session.
LIMIT = 60
WRONG = verdict(verdict=Outcome.INERT, ok=False, sentence="Nothing was drafted.")


@pytest.fixture
def api() -> Iterator[Api]:
    with serve() as running:
        # What `up` has left: its Job, its input and its verdict.
        for collection, name in ((JOBS, "of-up"), (CONFIG_MAPS, "of-up"), (CONFIG_MAPS, "verdict-of-up")):
            running.put(collection, {"metadata": {"name": name, "labels": {"speculation/run": "up"}}})
        yield running


class Desk:
    """A home with a `pulumi` in it that answers with the outputs of a stack."""

    def __init__(self, folder: Path, api: Api) -> None:
        self.folder = folder
        (folder / "tmp").mkdir()
        (folder / "pulumi").write_text(PULUMI)
        (folder / "pulumi").chmod(0o755)
        self.outputs: dict[str, Any] = {
            "workload_kubeconfig": api.kubeconfig,
            "validation_job": {
                "namespace": NAMESPACE,
                "service_account": NAMESPACE,
                "image": "python:3.13.7-slim",
                "program": NAMESPACE,
                "program_hash": "p1",
                "job": JOB,
            },
        }
        self.answer()

    def answer(self, status: int = 0, said: str = "", text: str | None = None) -> None:
        (self.folder / "status").write_text(str(status))
        (self.folder / "said").write_text(said)
        (self.folder / "outputs").write_text(json.dumps(self.outputs) if text is None else text)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        environment = {
            "PATH": f"{self.folder}:/usr/bin:/bin",
            "HOME": str(self.folder),
            "TMPDIR": str(self.folder / "tmp"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        return subprocess.Popen(
            [sys.executable, "-m", "validation", *arguments],
            cwd=ROOT, env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def run(self, *arguments: str, given: str = "") -> tuple[int, str, str]:
        """(exit code, standard output, standard error)."""
        with self.start(*arguments) as process:
            output, errors = process.communicate(given, timeout=LIMIT)
        return process.returncode, output, errors

    def check(self, *arguments: str) -> tuple[int, str, str]:
        """(exit code, standard output, last line of standard error)."""
        status, output, errors = self.run("check", *arguments)
        return status, output, (errors.splitlines() or [""])[-1]


@pytest.fixture
def desk(tmp_path: Path, api: Api) -> Desk:
    return Desk(tmp_path, api)


JUDGED = [
    pytest.param(verdict(), 0, "", id="right"),
    pytest.param(WRONG, 1, "error: on-but-inert, where speculating is declared", id="wrong"),
    pytest.param(CANNOT_TELL, 3, "error: cannot-tell, where speculating is declared", id="cannot tell"),
]


@pytest.mark.parametrize(("found", "status", "line"), JUDGED)
def test_the_exit_code_is_the_verdicts_and_nothing_stays(
    found: Verdict, status: int, line: str, api: Api, desk: Desk
) -> None:
    before = left(api)
    Controller(api, found.to_json()).start()
    ended = desk.check("--stack", "mine", "--html", str(desk.folder / "page.html"))
    assert ended[:2] == (status, found.text() + "\n")
    assert not line or ended[2] == line
    assert left(api) == before
    assert (desk.folder / "asked").read_text().split() == [
        *["stack", "output", "--json", "--show-secrets", "--non-interactive", "--stack", "mine"]
    ]
    assert found.sentence in (desk.folder / "page.html").read_text()
    # Neither the kubeconfig nor anything else was written for a moment longer than needed.
    assert list((desk.folder / "tmp").iterdir()) == []


def test_the_document_for_a_program(api: Api, desk: Desk) -> None:
    Controller(api, verdict().to_json()).start()
    status, output, _ = desk.check("--json")
    assert (status, Verdict.from_json(output)) == (0, verdict())
    assert (desk.folder / "asked").read_text().split()[-1] == "--non-interactive"


def test_the_job_is_that_of_up_with_a_run_of_its_own(api: Api, desk: Desk) -> None:
    made: dict[str, Any] = {}

    class Watching(Controller):
        def run(self) -> None:
            super().run()
            made.update({key: value for key, value in self.api.objects.items() if key not in self.known})

    controller = Watching(api, verdict().to_json())
    controller.start()
    assert desk.check()[0] == 0
    controller.join()
    (job,) = (value for key, value in made.items() if key.startswith(f"{JOBS}/"))
    (given,) = (value for key, value in made.items() if "input.json" in value.get("data", {}))
    assert job["spec"]["template"]["spec"]["serviceAccountName"] == NAMESPACE
    read = JobInput.from_json(given["data"]["input.json"])
    assert (read.replicas, f"speculation-validation-{read.run}") == (("m-11111",), job["metadata"]["name"])


UNJUDGED = [
    pytest.param(
        {"status": 255, "said": "a warning\nerror: no stack named 'mine' found\n"},
        "error: stack mine: `pulumi stack output` fails: no stack named 'mine' found",
        id="no such stack",
    ),
    pytest.param(
        {"text": "{}"},
        "error: stack mine: it has no output workload_kubeconfig; `pulumi up` writes it, unless "
        "speculation:validation.enabled is false",
        id="nothing deployed",
    ),
    pytest.param(
        {"text": json.dumps({"workload_kubeconfig": "k", "validation_job": {"image": "i"}})},
        "error: stack mine: its output validation_job is that of another version of this program; `pulumi up` of this "
        "version writes it",
        id="an older stack",
    ),
    pytest.param(
        {"text": "secret"}, "error: stack mine: `pulumi stack output --json` printed no JSON object", id="no JSON"
    ),
]


@pytest.mark.parametrize(("answer", "line"), UNJUDGED)
def test_without_outputs_nothing_is_judged(answer: dict[str, Any], line: str, api: Api, desk: Desk) -> None:
    desk.answer(**answer)
    assert desk.check("--stack", "mine") == (3, "", line)
    assert api.seen == []


def test_without_pulumi_nothing_is_judged(desk: Desk) -> None:
    (desk.folder / "pulumi").unlink()
    line = "error: the selected stack: `pulumi` is not on PATH; install it; for the sandbox, `. .sandbox/env`"
    assert desk.check() == (3, "", line)


def test_a_job_without_a_verdict_is_not_judged_and_removed(api: Api, desk: Desk) -> None:
    before = left(api)
    Controller(api, None, log="ApiError: pods is forbidden\n").start()
    assert desk.check("--stack", "mine") == (
        3,
        "",
        "error: stack mine: gave up on the validation Job: Job has reached the backoff limit, and recorded no verdict: "
        "ApiError: pods is forbidden",
    )
    assert left(api) == before


def test_a_cluster_that_is_gone_is_not_judged(desk: Desk) -> None:
    desk.outputs["workload_kubeconfig"] = desk.outputs["workload_kubeconfig"].replace("127.0.0.1", "127.0.0.2")
    desk.answer()
    status, output, line = desk.check("--stack", "mine")
    assert (status, output) == (3, "")
    assert line.startswith("error: stack mine: the validation Job cannot be made: http://127.0.0.2:")
    assert line.endswith("is not reachable (connection refused)")


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_check_leaves_nothing(sent: signal.Signals, status: int, api: Api, desk: Desk) -> None:
    before = left(api)
    with desk.start("check") as process:
        deadline = time.monotonic() + LIMIT
        while len(left(api)) < len(before) + 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(sent)
        _, errors = process.communicate(timeout=LIMIT)
    assert (process.returncode, left(api)) == (status, before)
    assert "Traceback" not in errors


USAGE = [
    (["check", "--html", "no/such/folder/page.html"], "no/such/folder/page.html cannot be written"),
    (["check", "mine"], "unrecognized arguments: mine"),
    (["show", "absent.json"], "error: absent.json: No such file or directory; give a file with a verdict"),
]


@pytest.mark.parametrize(("arguments", "line"), USAGE)
def test_wrong_usage_is_2_and_a_line(arguments: list[str], line: str, desk: Desk) -> None:
    status, output, errors = desk.run(*arguments)
    assert (status, output) == (2, "")
    assert line in errors.splitlines()[-1]


def test_a_recorded_verdict_can_be_shown(desk: Desk) -> None:
    recorded, page = desk.folder / "verdict.json", desk.folder / "page.html"
    recorded.write_text(WRONG.to_json())
    error = "error: on-but-inert, where speculating is declared\n"
    assert desk.run("show", str(recorded), "--html", str(page)) == (1, WRONG.text() + "\n", error)
    assert "WRONG: on-but-inert" in page.read_text()
    assert desk.run("show", "-", "--json", given=WRONG.to_json()) == (1, WRONG.to_json() + "\n", error)
    refused = "error: verdict.schema: this program reads schema 1 only; use the program of the version that wrote it\n"
    assert desk.run("show", "-", given="{}") == (3, "", refused)


def test_the_table_and_the_dashboard_are_printed(desk: Desk) -> None:
    assert desk.run("rules") == (0, markdown() + "\n", "")
    assert desk.run("dashboard") == (0, dashboard_json() + "\n", "")
