"""Every fault of the matrix against real servers: fake engines as processes, a gateway, an API server over TLS."""

from __future__ import annotations

import re
from collections import defaultdict
from contextlib import ExitStack
from fnmatch import fnmatch

import pytest

from tests.validation.engines import Pool, gateway
from tests.validation.kube_server import KubeServer
from tests.validation.matrix import BASELINE_LIES, FAULTS, LIES, REPORTS, SILENCES, WRONG_LIES, Case, Scene
from tests.validation.validating import job, readings
from validation.kube import Kube
from validation.run import validate
from validation.verdict import Outcome, Verdict

PARTS = {
    "fault": FAULTS,
    "lie": LIES,
    "lie of a baseline": BASELINE_LIES,
    "lie of a wrong engine": WRONG_LIES,
    "silence": SILENCES,
    "report": REPORTS,
}
# One of each verdict, and one of each kind, for a quick answer; the rest takes half a minute.
QUICK = {
    "fault: speculating",
    "fault: a baseline",
    "fault: e11: flag never forwarded",
    "fault: e33: never accepts",
    "fault: e06: JSON that breaks off",
    "fault: e46: thinking although declared off",
    "fault: another context than declared",
    "lie: version",
    "silence: speculating, logs may not be read",
    "report: what a platform adds",
}
CASES = [
    pytest.param(case, id=name, marks=() if name in QUICK else pytest.mark.matrix)
    for part, cases in PARTS.items()
    for case in cases
    for name in [f"{part}: {case.name}"]
]


def validated(case: Case, kube: KubeServer, pool: Pool) -> Verdict:
    # As fast as it can: no witness depends on how well its reader keeps up.
    faults = {"tokens_per_second": 0, **case.faults}
    served = pool.engine(case.args, version=case.version, faults=faults, env=case.env)
    scene = Scene(kube, served, served.pod())
    scene.log = served.log_file.read_text()
    case.change(scene)
    with ExitStack() as stack:
        if scene.rewrite:
            page = stack.enter_context(gateway(served.url))
            page.rewrite = scene.rewrite
            scene.pod["status"]["podIP"] = page.ip
        kube.pods = [scene.pod]
        given = job([served], declared=case.declared)
        return validate(given, Kube(kube.url, kube.service_account), patience_s=0)


@pytest.mark.parametrize("case", CASES)
def test_each_fault_has_its_verdict(kube: KubeServer, pool: Pool, case: Case) -> None:
    found = validated(case, kube, pool)
    declared = "speculating" if case.readings.startswith("on ") else "baseline"
    assert (found.verdict, found.declared, found.ok) == (case.verdict, declared, case.verdict == declared), found.text()
    assert fnmatch(readings(found), case.readings), found.text()
    told = "\n".join([found.sentence, *found.notes])
    assert re.search(case.says, told), told
    assert Verdict.from_json(found.to_json()) == found
    assert len(found.to_json().encode()) < 64 * 1024


def test_the_quick_ones_are_cases() -> None:
    assert {case.id for case in CASES} >= QUICK
    assert {case.verdict for part, cases in PARTS.items() for case in cases if f"{part}: {case.name}" in QUICK} == {
        *Outcome
    }


def test_every_verdict_is_reached_by_two_faults() -> None:
    reached: dict[str, set[str]] = defaultdict(set)
    for cases in PARTS.values():
        for case in cases:
            reached[case.verdict].add(case.name)
    assert {outcome: len(reached[outcome]) > 1 for outcome in Outcome} == dict.fromkeys(Outcome, True)
