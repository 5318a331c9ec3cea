"""The InferenceCluster gate: the serving stack is up on the workload cluster and its gateway has an address.

Ready=True alone is not asked: a replica is placed only on a cluster that also has a gateway address (facts §5).
"""

from __future__ import annotations

from collections.abc import Iterable

from components.gates.events import recent
from components.gates.gate import Gate, Properties
from components.gates.kube import Kube, Manifest, path
from components.gates.pods import explained
from components.gates.waiting import Done, Failed, Outcome, Run, Waiting, wait
from modelplane.readiness import cluster_missing

API = "modelplane.ai/v1alpha1"
STACK_API = "infrastructure.modelplane.ai/v1alpha1"
# The composed objects that are not ready, by name; more would not fit a line.
PARTS_SHOWN = 5


class InferenceClusterReady(Gate):
    """Inputs: kubeconfig (control plane), name, spec (hash of what is waited for). Output: gateway_address, the
    workload's gateway.
    """

    outputs = ("gateway_address",)

    def create(self, inputs: Properties, run: Run) -> dict[str, object]:
        kube = Kube(inputs["kubeconfig"])
        return wait(f"InferenceCluster {inputs['name']}", lambda: probe(kube, inputs["name"]), run).outputs


def probe(kube: Kube, name: str) -> Outcome:
    """Look once."""
    cluster = kube.find(path(API, "inferenceclusters", name=name))
    if cluster is None:
        return Waiting(("it does not exist",))
    missing = cluster_missing(cluster)
    if not missing:
        return judge(cluster)
    return judge(cluster, list(_parts(kube, cluster)), recent(kube, "default", [name]))


def judge(cluster: Manifest, parts: Iterable[Manifest] = (), events: Iterable[str] = ()) -> Outcome:
    """What the InferenceCluster says, with the composed objects that it waits for."""
    missing = cluster_missing(cluster)
    if not missing:
        return Done({"gateway_address": cluster["status"]["gateway"]["address"]})
    for condition in cluster.get("status", {}).get("conditions") or []:
        if condition.get("status") == "False":
            text = f"{condition.get('reason')}: {condition.get('message') or condition.get('type')}"
            refused = explained(text, text, "condition")
            if isinstance(refused, Failed):
                return refused
    unready = [f"{part['kind']} {part['metadata']['name']}{_reason(part)}" for part in parts if not _ready(part)]
    if unready:
        more = f" and {len(unready) - PARTS_SHOWN} more" if len(unready) > PARTS_SHOWN else ""
        missing.append(f"not ready: {', '.join(unready[:PARTS_SHOWN])}{more}")
    return Waiting(tuple(missing), tuple(events))


def _parts(kube: Kube, cluster: Manifest) -> Iterable[Manifest]:
    """The Objects and Releases of the ServingStack that the cluster composes."""
    for reference in _references(cluster, "ServingStack"):
        stack = kube.find(path(STACK_API, "servingstacks", namespace=reference["namespace"], name=reference["name"]))
        for part in _references(stack or {}, "Object", "Release"):
            plural = f"{part['kind'].lower()}s"
            found = kube.find(path(part["apiVersion"], plural, namespace=part.get("namespace", ""), name=part["name"]))
            if found is not None:
                yield found


def _references(owner: Manifest, *kinds: str) -> list[Manifest]:
    references = owner.get("spec", {}).get("crossplane", {}).get("resourceRefs") or []
    return [reference for reference in references if reference.get("kind") in kinds and reference.get("name")]


def _ready(part: Manifest) -> bool:
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in _conditions(part))


def _reason(part: Manifest) -> str:
    failed = [c for c in _conditions(part) if c.get("status") == "False" and c.get("message")]
    return f" ({failed[0]['message']})" if failed else ""


def _conditions(part: Manifest) -> list[Manifest]:
    return part.get("status", {}).get("conditions") or []
