"""The gate before a PodMonitor: what a cluster serves, and the one line when it does not."""

from __future__ import annotations

from typing import Any

import pytest

from components.gates.kind_served import KindServed
from components.gates.waiting import GateError
from tests.components.gates.api import Clock, serve

GROUP = "/apis/monitoring.coreos.com/v1"
OTHERS = {"resources": [{"name": "servicemonitors", "kind": "ServiceMonitor"}]}
SERVED = {"resources": [*OTHERS["resources"], {"name": "podmonitors", "kind": "PodMonitor"}]}


def inputs(kubeconfig: str) -> dict[str, Any]:
    return {
        "kubeconfig": kubeconfig,
        "api_version": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "brought_by": "the serving stack",
        "remedy": "look at it",
    }


def test_a_kind_that_is_served_opens_the_gate() -> None:
    with serve() as api:
        api.objects[GROUP] = SERVED
        assert KindServed().create(inputs(api.kubeconfig), Clock().run()) == {}


@pytest.mark.parametrize("found", [None, OTHERS], ids=["no such group", "the group without the kind"])
def test_a_kind_that_is_missing_is_one_line(found: dict[str, Any] | None) -> None:
    with serve() as api:
        if found is not None:
            api.objects[GROUP] = found
        with pytest.raises(GateError) as raised:
            KindServed().create(inputs(api.kubeconfig), Clock().run(timeout=60.0))
        assert str(raised.value) == (
            f"waited 60 s in vain for kind PodMonitor of monitoring.coreos.com/v1: {api.url} does not serve it, and "
            "the serving stack should have brought it; look at it"
        )
