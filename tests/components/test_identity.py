"""Which clusters two kubeconfigs lead to, and the line for each way in which that cannot be told."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import yaml

from components.identity import Identities, identify
from engine.findings import Problems
from stacks.kubeconfig import Kubeconfig
from tests.components.gates.api import Api, serve

LOOK = "check the kubeconfig with `kubectl --kubeconfig FILE get nodes`"


@pytest.fixture
def pair() -> Iterator[tuple[Api, Api]]:
    with serve() as control_plane, serve() as workload:
        for name, api in (("a", control_plane), ("b", workload)):
            api.objects["/api/v1/namespaces/kube-system"] = {"metadata": {"name": "kube-system", "uid": f"uid-{name}"}}
        yield control_plane, workload


def kubeconfig(api: Api) -> Kubeconfig:
    return Kubeconfig(json.dumps(yaml.safe_load(api.kubeconfig)), "x", api.url)


def test_two_clusters_are_told_apart_by_what_never_changes(pair: tuple[Api, Api]) -> None:
    control_plane, workload = pair
    assert identify(kubeconfig(control_plane), kubeconfig(workload)) == Identities("uid-a", "uid-b")


def lines(control_plane: Api, workload: Api) -> list[str]:
    with pytest.raises(Problems) as raised:
        identify(kubeconfig(control_plane), kubeconfig(workload))
    return str(raised.value).splitlines()


def test_one_cluster_under_two_addresses_is_refused(pair: tuple[Api, Api]) -> None:
    control_plane, workload = pair
    workload.objects["/api/v1/namespaces/kube-system"]["metadata"]["uid"] = "uid-a"
    assert lines(control_plane, workload) == [
        f"error: speculation:existing: {control_plane.url} and {workload.url} are the same cluster (one kube-system "
        "namespace), and Modelplane's gateway and serving stack would fight over it; give the control plane and the "
        "workload two clusters"
    ]


def test_every_cluster_that_does_not_answer_is_named(pair: tuple[Api, Api]) -> None:
    control_plane, workload = pair
    control_plane.refuse["/api/v1/namespaces/kube-system"] = 401
    workload.refuse["/api/v1/namespaces/kube-system"] = 403
    assert lines(control_plane, workload) == [
        f"error: speculation:existing.controlPlane: {control_plane.url} does not accept the kubeconfig's credentials "
        f"(401); {LOOK}",
        f"error: speculation:existing.workload: {workload.url} forbids what the stack needs: refused for the test; "
        f"{LOOK}",
    ]
