"""Addresses, logs, timing: the parts of the runner that need no more than a few lines each."""

import re
from pathlib import Path

import pytest

from sandbox.runner.addresses import AddressPool
from sandbox.runner.logs import CriLog, rotate, tail
from sandbox.runner.timing import Timing

LINE = re.compile(rb"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z (stdout|stderr) ([FP]) (.*)$")


def test_every_pod_has_an_address_of_its_own_and_a_released_one_rests() -> None:
    pool = AddressPool(18000)
    first, second = pool.take(), pool.take()
    assert (first, second) == ("127.176.0.1", "127.176.0.2")
    pool.release(first)
    assert pool.take() == "127.176.0.3"
    assert pool.take(first) == first
    assert pool.take(first) != first
    assert pool.take("10.0.0.1").startswith("127.176.")
    assert first in pool.taken and len(pool.taken) == 5


def test_sandboxes_side_by_side_use_different_networks() -> None:
    assert AddressPool(18000).network != AddressPool(18050).network


def entries(path: Path) -> list[tuple[bytes, ...]]:
    return [match.groups() if (match := LINE.match(line)) else (line,) for line in path.read_bytes().splitlines()]


def test_a_log_is_in_cri_format_with_long_lines_in_parts(tmp_path: Path) -> None:
    path = tmp_path / "c" / "0.log"
    with CriLog(path) as log:
        log.write("stdout", b"one\ntw")
        log.write("stderr", b"error\n")
        log.write("stdout", b"o\n\n")
        log.write("stdout", b"x" * 40_000 + b"\nrest")
    part = 16 * 1024
    assert entries(path) == [
        (b"stdout", b"F", b"one"),
        (b"stderr", b"F", b"error"),
        (b"stdout", b"F", b"two"),
        (b"stdout", b"F", b""),
        (b"stdout", b"P", b"x" * part),
        (b"stdout", b"P", b"x" * part),
        (b"stdout", b"F", b"x" * (40_000 - 2 * part)),
        (b"stdout", b"F", b"rest"),
    ]
    assert tail(path, 2, 100) == ("x" * (40_000 - 2 * part) + "\nrest")[-100:]
    assert tail(tmp_path / "none", 2, 100) == ""


def test_a_line_is_in_the_log_as_soon_as_it_was_written(tmp_path: Path) -> None:
    log = CriLog(tmp_path / "0.log")
    log.write("stdout", b"ready\n")
    assert entries(tmp_path / "0.log") == [(b"stdout", b"F", b"ready")]
    log.close()


def test_the_logs_of_the_last_two_runs_are_kept(tmp_path: Path) -> None:
    for restart in range(4):
        (tmp_path / f"{restart}.log").write_text(str(restart))
        rotate(tmp_path, restart)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2.log", "3.log", "current.log", "previous.log"]
    assert ((tmp_path / "current.log").read_text(), (tmp_path / "previous.log").read_text()) == ("3", "2")


def test_a_first_run_has_no_previous_log(tmp_path: Path) -> None:
    (tmp_path / "0.log").touch()
    rotate(tmp_path, 0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.log", "current.log"]


@pytest.mark.parametrize(("failures", "seconds"), [(0, 0), (1, 0), (2, 10), (3, 20), (4, 40), (7, 300), (99, 300)])
def test_the_back_off_doubles_from_the_second_crash_on(failures: int, seconds: float) -> None:
    assert Timing(back_off_first=10, back_off_most=300).back_off(failures) == seconds
