"""Counters that cannot be trusted are unknown, with the reason; never zero and never a yes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.validation.engines import engine, gateway, page
from tests.validation.kube_server import KubeServer
from tests.validation.validating import job, readings, run
from validation.kube import Kube
from validation.run import validate
from validation.verdict import Outcome, Reading, WitnessName

pytestmark = pytest.mark.process

METRICS = WitnessName.METRICS


def test_e29_counters_that_went_back_are_a_restart_and_not_a_zero(kube: KubeServer, tmp_path: Path) -> None:
    with engine(tmp_path) as served, gateway(served.url) as pod:
        run(kube, job([served]), [served])
        before = re.sub(r"(spec_decode_num_drafts_total\{.*\}) \S+", r"\1 5000.0", page(served.url))
        pod.pages = {"/metrics": [before]}
        served.ip = pod.ip
        found = run(kube, job([served]), [served])
    assert (found.verdict, found.witness(METRICS).reading) == ("cannot-tell", Reading.UNKNOWN)
    assert re.fullmatch(r"the counters were reset: \S*drafts\S* went from 5000 to \d+: .*", found.witness(METRICS).why)


def test_e30_counters_of_another_replica_are_told_by_its_start_time(kube: KubeServer, tmp_path: Path) -> None:
    with engine(tmp_path) as served, engine(tmp_path) as other, gateway(served.url) as pod:
        pod.pages = {"/metrics": [page(other.url)]}
        served.ip = pod.ip
        found = run(kube, job([served]), [served])
    assert found.verdict is Outcome.CANNOT_TELL
    assert "another replica answered" in found.witness(METRICS).why


def test_e27_counters_that_stand_still_prove_nothing(kube: KubeServer, tmp_path: Path) -> None:
    with engine(tmp_path) as served, gateway(served.url) as pod:
        pod.pages = {"/metrics": [page(served.url)] * 1000}
        served.ip = pod.ip
        found = run(kube, job([served]), [served])
    assert (found.verdict, readings(found)) == ("cannot-tell", "on on on unknown on")
    assert found.numbers is not None
    assert found.witness(METRICS).why == (
        f"the counters show 0 generated tokens where the probe got {found.numbers.completion_tokens}: "
        "they stand still (--disable-log-stats), or belong to another engine"
    )


def test_metrics_are_read_through_the_service_address_when_the_pod_cannot_be_reached(
    kube: KubeServer, tmp_path: Path
) -> None:
    with engine(tmp_path) as served, gateway(served.url) as route:
        pod = served.pod(podIP="127.0.0.1")  # nothing listens on its port 8000
        kube.pods, kube.logs = [pod], {(served.name, False): served.log_file.read_text()}
        found = validate(job([served], address=route.url), Kube(kube.url, kube.service_account), patience_s=0)
    assert (found.verdict, found.witness(METRICS).source) == ("speculating", f"{route.url}/metrics")
