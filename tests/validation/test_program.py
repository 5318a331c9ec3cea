"""The program as the Job starts it: one file, an isolated interpreter, a real exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.validation.engines import BASELINE_ARGS, SPEC_ARGS, engine
from tests.validation.kube_server import KubeServer
from tests.validation.validating import job
from validation.package import build_zipapp
from validation.verdict import Outcome, Verdict

pytestmark = pytest.mark.process


def run_program(program: Path, kube: KubeServer, given: Path | None, *options: str) -> subprocess.CompletedProcess[str]:
    """The program as the Job starts it: an isolated interpreter without site packages."""
    command = [sys.executable, "-I", "-S", str(program), *([str(given)] if given else []), *options]
    environment = {"PATH": os.environ["PATH"], **kube.environment()}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=60)


def test_the_program_records_its_verdict(kube: KubeServer, tmp_path: Path) -> None:
    program, given = tmp_path / "validation.pyz", tmp_path / "input.json"
    program.write_bytes(build_zipapp())
    account = f"--service-account={kube.service_account}"
    with engine(tmp_path) as served:
        kube.pods, kube.logs = [served.pod()], {(served.name, False): served.log_file.read_text()}
        given.write_text(job([served]).to_json())
        ran = run_program(program, kube, given, account)
    assert (ran.returncode, ran.stderr) == (0, ""), ran
    recorded = kube.config_maps["speculation-validation", "verdict"]
    assert recorded["metadata"]["labels"] == {"speculation/run": "r-1"}
    verdict = Verdict.from_json(recorded["data"]["verdict.json"])
    assert verdict.verdict is Outcome.SPECULATING
    assert ran.stdout.endswith(f"{verdict.text()}\nrecorded in ConfigMap speculation-validation/verdict\n")
    assert set(kube.requests) == {
        "list pods default",
        "get pods/log default",
        "get configmaps speculation-validation",
        "patch configmaps speculation-validation",
    }


def test_the_program_exits_0_for_a_wrong_verdict_and_1_when_it_cannot_record_it(
    kube: KubeServer, tmp_path: Path
) -> None:
    program, given = tmp_path / "validation.pyz", tmp_path / "input.json"
    program.write_bytes(build_zipapp())
    options = (f"--service-account={kube.service_account}", "--patience=0")
    with engine(tmp_path, BASELINE_ARGS) as served:
        kube.pods, kube.logs = [served.pod()], {(served.name, False): served.log_file.read_text()}
        given.write_text(job([served], declared=SPEC_ARGS).to_json())
        wrong = run_program(program, kube, given, *options)
        kube.forbidden = {"configmaps"}
        unrecorded = run_program(program, kube, given, *options)
    assert (wrong.returncode, wrong.stderr) == (0, "")
    assert "WRONG: declared-but-off (declared: speculating)" in wrong.stdout
    assert (unrecorded.returncode, unrecorded.stderr) == (
        1,
        "cannot write ConfigMap speculation-validation/verdict: the ServiceAccount lacks the permission to "
        "create and patch configmaps in namespace speculation-validation (403)\n",
    )


def test_the_program_says_in_one_line_what_is_wrong_with_its_input(kube: KubeServer, tmp_path: Path) -> None:
    program, given = tmp_path / "validation.pyz", tmp_path / "input.json"
    program.write_bytes(build_zipapp())
    given.write_text('{"schema": 7}')
    schema = "error: input.schema: 7: this program reads schema 1 only; use the program of the version that wrote it\n"
    missing = run_program(program, kube, None)
    assert (missing.returncode, missing.stderr) == (1, "/etc/validation/input.json: No such file or directory\n")
    refused = run_program(program, kube, given)
    assert (refused.returncode, refused.stderr) == (1, schema)
