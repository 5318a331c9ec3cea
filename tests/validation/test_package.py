from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from validation.package import build_zipapp, content_hash

ROOT = Path(__file__).resolve().parent.parent.parent


def in_another_process(seed: str, folder: Path) -> bytes:
    """The bytes as a fresh interpreter builds them, with other hash seeds, time zone and working directory."""
    code = "import sys; from validation.package import build_zipapp; sys.stdout.buffer.write(build_zipapp())"
    environment = {"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed, "TZ": "Asia/Tokyo", "PATH": os.environ["PATH"]}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, check=True
    ).stdout


def test_the_same_sources_give_the_same_bytes(tmp_path: Path) -> None:
    assert in_another_process("1", tmp_path) == in_another_process("2", tmp_path) == build_zipapp()
    assert len(content_hash()) == 64


def test_it_fits_a_config_map_beside_other_things() -> None:
    assert len(build_zipapp()) < 512 * 1024


def test_it_holds_both_packages_and_nothing_else() -> None:
    names = zipfile.ZipFile(io.BytesIO(build_zipapp())).namelist()
    assert {name.partition("/")[0] for name in names} == {"__main__.py", "engine", "validation"}
    assert all(name.endswith(".py") for name in names)
    assert not any(name.startswith("validation/commands") for name in names)


@pytest.mark.parametrize("python", ["python3.13", sys.executable])
def test_it_runs_on_an_isolated_interpreter(python: str, tmp_path: Path) -> None:
    """-I -S: no environment, no user or site packages, as on a stock image."""
    found = shutil.which(python)
    if found is None or subprocess.run([found, "--version"], capture_output=True, check=False).returncode:
        pytest.skip(f"{python} is not installed")
    program = tmp_path / "validation.pyz"
    program.write_bytes(build_zipapp())
    command = [found, "-I", "-S", str(program), "--help"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    # It has the Job's commands only.
    assert ran.stdout.startswith("usage: validation [-h] {run,watch} ...")
