"""The gate before an object of a kind that a chart brings: the cluster serves it."""

from __future__ import annotations

from typing import Any

from components.gates.gate import Gate, Properties
from components.gates.kube import Kube
from components.gates.waiting import Done, Outcome, Run, Waiting, wait


class KindServed(Gate):
    """Inputs: kubeconfig, api_version, kind, brought_by (in words), remedy (in words)."""

    def identity(self, inputs: Properties) -> str:
        return f"{inputs['api_version']}/{inputs['kind']}"

    def create(self, inputs: Properties, run: Run) -> dict[str, object]:
        kube = Kube(inputs["kubeconfig"])
        wait(f"kind {inputs['kind']} of {inputs['api_version']}", lambda: probe(kube, inputs), run)
        return {}


def probe(kube: Kube, inputs: Properties) -> Outcome:
    """Look once."""
    served: dict[str, Any] = kube.find(f"/apis/{inputs['api_version']}") or {}
    if any(resource.get("kind") == inputs["kind"] for resource in served.get("resources") or []):
        return Done()
    missing = f"{kube.server} does not serve it, and {inputs['brought_by']} should have brought it"
    return Waiting((missing,), remedy=inputs["remedy"])
