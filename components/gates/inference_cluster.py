"""The InferenceCluster gate: the serving stack is up on the workload cluster and its gateway has an address.

Ready=True alone is not asked: Modelplane v0.3.1 places a replica only on a cluster that also has a gateway address.
"""

from __future__ import annotations

from collections.abc import Iterable

from components.gates.events import recent
from components.gates.gate import Gate, Properties, Say, unheard
from components.gates.kube import Kube, Manifest, path
from components.gates.pods import explained
from components.gates.preflight import no_address
from components.gates.waiting import Done, Failed, Outcome, Run, Waiting, forgiving, wait
from modelplane.names import API_VERSION, INFRASTRUCTURE_API_VERSION
from modelplane.readiness import cluster_missing

# How a composition calls the object.
RESOURCE_NAME = "crossplane.io/composition-resource-name"
# The composed objects that are not ready, by name; more would not fit a line.
PARTS_SHOWN = 5


class InferenceClusterReady(Gate):
    """Inputs: kubeconfig (control plane), name, spec (hash of what is waited for). Output: gateway_address, the
    workload's gateway.

    On destroy it waits until no usage protects the cluster: Crossplane refuses its deletion while one does, and the
    usage outlives the last replica until Modelplane looks again.
    """

    outputs = ("gateway_address",)

    def create(self, inputs: Properties, run: Run) -> dict[str, object]:
        kube = Kube(inputs["kubeconfig"])
        return wait(f"InferenceCluster {inputs['name']}", lambda: probe(kube, inputs["name"]), run).outputs

    def problems(
        self, inputs: Properties, old_inputs: Properties, old_outputs: Properties, warn: Say = unheard
    ) -> list[str]:
        old = old_inputs.get("name")
        if old in (None, inputs["name"]):
            return []
        return [
            f"platform.clusterName: {inputs['name']}: the stack runs on InferenceCluster {old}; Modelplane moves no "
            "replica to another; set it back, or destroy the stack first"
        ]

    def delete(self, properties: Properties, run: Run) -> None:
        kube, name = Kube(properties["kubeconfig"]), properties["name"]
        wait(f"the release of InferenceCluster {name}", forgiving(lambda: _probe_released(kube, name), run), run)


def probe(kube: Kube, name: str) -> Outcome:
    """Look once."""
    cluster = kube.find(path(API_VERSION, "inferenceclusters", name=name))
    if cluster is None:
        return Waiting(("it does not exist",))
    missing = cluster_missing(cluster)
    if not missing:
        return judge(cluster)
    return judge(cluster, list(_parts(kube, cluster)), recent(kube, "default", [name]))


def _probe_released(kube: Kube, name: str) -> Outcome:
    return judge_usages(kube.list(path("protection.crossplane.io/v1beta1", "clusterusages")), name)


def judge_usages(usages: Iterable[Manifest], cluster: str) -> Outcome:
    """Done when no ClusterUsage protects the InferenceCluster."""
    left = []
    for usage in usages:
        of = usage.get("spec", {}).get("of") or {}
        if of.get("kind") == "InferenceCluster" and (of.get("resourceRef") or {}).get("name") == cluster:
            left.append(f"ClusterUsage {usage['metadata']['name']}: {usage['spec'].get('reason') or 'in use'}")
    if not left:
        return Done()
    remedy = "`kubectl get modelreplicas -A` on the control plane shows what still runs there"
    return Waiting(tuple(left), remedy=remedy)


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
    late = [part for part in parts if not _ready(part)]
    unready = [f"{part['kind']} {part['metadata']['name']}{_reason(part)}" for part in late]
    # Its gateway is the last to become ready: it waits for the address.
    only_address = len(missing) == 1 or (bool(late) and all(_is_gateway(part) for part in late))
    no_gateway = not cluster.get("status", {}).get("gateway", {}).get("address")
    cause, remedy = no_address("the workload cluster") if no_gateway and only_address else ("", "")
    if unready:
        more = f" and {len(unready) - PARTS_SHOWN} more" if len(unready) > PARTS_SHOWN else ""
        missing.append(f"not ready: {', '.join(unready[:PARTS_SHOWN])}{more}")
    return Waiting(tuple(missing), tuple(events), cause, remedy)


def _parts(kube: Kube, cluster: Manifest) -> Iterable[Manifest]:
    """The Objects and Releases of the ServingStack that the cluster composes."""
    for reference in _references(cluster, "ServingStack"):
        stack = kube.find(
            path(INFRASTRUCTURE_API_VERSION, "servingstacks", namespace=reference["namespace"], name=reference["name"])
        )
        for part in _references(stack or {}, "Object", "Release"):
            plural = f"{part['kind'].lower()}s"
            found = kube.find(path(part["apiVersion"], plural, namespace=part.get("namespace", ""), name=part["name"]))
            if found is not None:
                yield found


def _references(owner: Manifest, *kinds: str) -> list[Manifest]:
    references = owner.get("spec", {}).get("crossplane", {}).get("resourceRefs") or []
    return [reference for reference in references if reference.get("kind") in kinds and reference.get("name")]


def _is_gateway(part: Manifest) -> bool:
    return (part["metadata"].get("annotations") or {}).get(RESOURCE_NAME) == "gateway"


def _ready(part: Manifest) -> bool:
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in _conditions(part))


def _reason(part: Manifest) -> str:
    failed = [c for c in _conditions(part) if c.get("status") == "False" and c.get("message")]
    return f" ({failed[0]['message']})" if failed else ""


def _conditions(part: Manifest) -> list[Manifest]:
    return part.get("status", {}).get("conditions") or []
