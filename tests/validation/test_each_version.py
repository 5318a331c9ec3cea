"""The whole validation on the engine of each version, speculating and not: its log, metrics and rules come from the one
table (engine/versions.py), which both sides read; what the table says is held against samples in tests/engine.
"""

from __future__ import annotations

import pytest

from engine.versions import NEWEST, TABLE
from tests.validation.engines import BASELINE_ARGS, SPEC_ARGS, Pool
from tests.validation.kube_server import KubeServer
from tests.validation.validating import job, readings, run

NO_THINKING = '--default-chat-template-kwargs={"enable_thinking": false}'
# Version -> the row of the table whose rules are used, where it has none of its own.
VERSIONS = {
    "0.11.2": "", "0.14.0": "", "0.15.1": "", "0.16.0": "", "0.17.0": "0.16", "0.18.1": "", "0.19.0": "0.18",
    "0.20.2": "", "0.21.0": "0.20", "0.22.1": "0.20", "0.23.0": "", "0.26.0": "", "0.29.0": "", "0.30.0": "",
    "0.31.0": "", "0.32.0": "", "0.33.0": "", "0.40.0": "newest",
}  # fmt: skip
QUICK = ("0.11.2", "0.33.0", "0.40.0")
FAULTS = {"tokens_per_second": 0}


def args(version: str, *, speculates: bool) -> tuple[str, ...]:
    flag = () if version == "0.11.2" else (NO_THINKING,)  # its parser does not know it
    return (*(SPEC_ARGS if speculates else BASELINE_ARGS), *flag)


def note(version: str, row: str) -> tuple[str, ...]:
    if row == "newest":
        return (f"vLLM {version} is newer than what is known, so the rules of {NEWEST} are used",)
    return (f"vLLM {version} was not read itself, so the rules of {row} are used",) if row else ()


@pytest.mark.parametrize(
    "version", [pytest.param(name, marks=() if name in QUICK else pytest.mark.matrix) for name in VERSIONS]
)
def test_each_version_is_judged_in_both_modes(kube: KubeServer, pool: Pool, version: str) -> None:
    for speculates in (True, False):
        pool.start(args(version, speculates=speculates), version=version, faults=FAULTS)
    found = {}
    for speculates in (True, False):
        served = pool.engine(args(version, speculates=speculates), version=version, faults=FAULTS)
        verdict = run(kube, job([served]), [served])
        # All but behaviour: how many tokens a chunk has is the reader's affair.
        configured = readings(verdict).rpartition(" ")[0]
        found[str(verdict.verdict)] = (verdict.ok, configured, verdict.engine_version, verdict.notes)
    notes = note(version, VERSIONS[version])
    assert found == {
        "speculating": (True, "on on on on", version, notes),
        "baseline": (True, "off off off off", version, notes),
    }


def test_every_row_of_the_table_is_among_them() -> None:
    minors = {int(version.split(".")[1]) for version in VERSIONS}
    # 0.12 and 0.13 are rows that stand for what changed there; no release of them is in use.
    assert {row.since.minor for row in TABLE} - minors == {12, 13}
