"""Whether two given clusters can be this stack's control plane and workload cluster, before anything is made in either.

Every preview asks: they are those in which the stack was made, and Crossplane and the right release of Modelplane are
there and established. Before the first create also: neither holds what Modelplane will install, and the nodes are as
the node pool says. That both answer and are two is known before (components/identity.py).

Deliberately not judged: node readiness (it comes and goes) and cluster size.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from components.gates.errors import KubeError
from components.gates.gate import UNKNOWN, Gate, Properties, known
from components.gates.kube import Kube, Manifest, path
from components.gates.waiting import Run, sentence
from modelplane.readiness import xrd_missing
from modelplane.releases import DEPLOYED, REFUSED, release_of_package

# Group -> who brings it. Helm and Crossplane refuse to adopt CRDs that they did not make, and two controllers would
# fight over the objects.
BROUGHT_TO_WORKLOAD = {
    "cert-manager.io": "cert-manager",
    "gateway.networking.k8s.io": "the Gateway API",
    "gateway.envoyproxy.io": "Envoy Gateway",
    "monitoring.coreos.com": "the Prometheus operator",
}
# The InferenceGateway composes the Gateway API's CRDs; the rest of the serving stack stays on the workload cluster.
BROUGHT_TO_CONTROL_PLANE = {"gateway.networking.k8s.io": "the Gateway API"}

# What this stack writes or reads; an XRD that is not established at its current generation takes no objects of that
# shape.
XRDS = (
    "inferencegateways.modelplane.ai",
    "inferenceclasses.modelplane.ai",
    "inferenceclusters.modelplane.ai",
    "modeldeployments.modelplane.ai",
    "modelreplicas.modelplane.ai",
    "modelservices.modelplane.ai",
    "modelendpoints.modelplane.ai",
    "servingstacks.infrastructure.modelplane.ai",
)

POOL_LABEL = "modelplane.ai/pool"
GPU_TAINT = "nvidia.com/gpu"
# The DRA driver's kubelet plugin runs on nodes with one of these (its chart's node affinity); NFD sets the first three.
GPU_LABELS = {
    "feature.node.kubernetes.io/pci-10de.present": "true",
    "feature.node.kubernetes.io/pci-0302_10de.present": "true",
    "feature.node.kubernetes.io/pci-0300_10de.present": "true",
    "feature.node.kubernetes.io/cpu-model.vendor_id": "NVIDIA",
    "nvidia.com/gpu.present": "true",
}
# Set and removed by Kubernetes itself: a state of the moment, not the pool's shape.
TRANSIENT_TAINTS = "node.kubernetes.io/"

CONTROL_PLANE, WORKLOAD = "control_plane_kubeconfig", "workload_kubeconfig"


UIDS = {CONTROL_PLANE: "control_plane_uid", WORKLOAD: "workload_uid"}


class Clusters(Gate):
    """Inputs: both kubeconfigs, the uid of each cluster's kube-system namespace (its identity), node_pool,
    node_count.
    """

    def identity(self, inputs: Properties) -> str:
        return "clusters"

    def problems(self, inputs: Properties, old_inputs: Properties, old_outputs: Properties) -> list[str]:
        if not known(*inputs.values()):
            return []
        moved = [
            f"existing.{_label(key)}: {Kube(inputs[key]).server} is not the cluster in which this stack was made; "
            "destroy the stack with the old kubeconfig first, or forget it with `pulumi stack rm --force`"
            for key, uid in UIDS.items()
            if (old_inputs.get(uid) or old_outputs.get(uid)) not in (None, UNKNOWN, inputs[uid])
        ]
        if moved:
            return moved
        control_plane, workload = Kube(inputs[CONTROL_PLANE]), Kube(inputs[WORKLOAD])
        try:
            return self._judge(control_plane, workload, inputs, old_inputs)
        except KubeError as error:
            return [f"the clusters cannot be checked: {error}"]
        finally:
            control_plane.close()
            workload.close()

    def create(self, inputs: Properties, run: Run) -> dict[str, object]:
        return {}

    def delete(self, properties: Properties, run: Run) -> None:
        """Remove the CRDs that the serving stack's charts leave on the workload cluster: there were none before,
        create saw to that.
        """
        kube = Kube(properties[WORKLOAD])
        crds = path("apiextensions.k8s.io/v1", "customresourcedefinitions")
        try:
            for name in leftovers(crd["metadata"]["name"] for crd in kube.list(crds)):
                kube.delete(f"{crds}/{name}")
        except KubeError as error:
            run.warn(f"CRDs of the serving stack may be left on the workload cluster: {error}")

    def _judge(self, control_plane: Kube, workload: Kube, inputs: Properties, old_inputs: Properties) -> list[str]:
        definitions = control_plane.find(path("apiextensions.crossplane.io/v2", "compositeresourcedefinitions"))
        xrds = None if definitions is None else list(definitions.get("items") or [])
        found = modelplane_problems(xrds, control_plane.list(path("pkg.crossplane.io/v1", "configurations")))
        if old_inputs and all(old_inputs.get(key) == inputs[key] for key in inputs if key not in UIDS):
            return found
        groups = workload.get("/apis")
        if not old_inputs:
            # Later the stack itself has brought them.
            found += occupied("the control plane", control_plane.get("/apis"), BROUGHT_TO_CONTROL_PLANE)
            found += occupied("the workload cluster", groups, BROUGHT_TO_WORKLOAD)
        found += dra_problems(groups)
        found += node_problems(workload.list(path("v1", "nodes")), inputs["node_pool"], int(inputs["node_count"]))
        return found


def modelplane_problems(xrds: list[Manifest] | None, configurations: Iterable[Manifest]) -> list[str]:
    """What is wrong with Crossplane and Modelplane. xrds: None when the API server does not know Crossplane's XRDs."""
    if xrds is None:
        remedy = (
            f"install Crossplane 2.3.4 and Modelplane {DEPLOYED} on it (docs.modelplane.ai), or give another kubeconfig"
        )
        return [sentence("the control plane has no Crossplane", "", remedy)]
    for configuration in configurations:
        package = str(configuration.get("spec", {}).get("package", ""))
        release = release_of_package(package)
        if release is not None and release != DEPLOYED:
            why = f": {REFUSED[release]}" if release in REFUSED else f": this stack writes manifests of {DEPLOYED}"
            return [
                sentence(
                    f"the control plane has Modelplane {release}{why}",
                    "",
                    f"upgrade its Configuration to {DEPLOYED.package}",
                )
            ]
    by_name = {xrd["metadata"]["name"]: xrd for xrd in xrds}
    absent = [name for name in XRDS if name not in by_name]
    if absent:
        lack = "Modelplane" if len(absent) == len(XRDS) else f"{', '.join(absent)} of Modelplane"
        return [
            sentence(
                f"the control plane lacks {lack}",
                "",
                f"install the Configuration {DEPLOYED.package} and wait until it is healthy",
            )
        ]
    return [
        sentence(
            f"{name} takes no objects yet",
            "; ".join(missing),
            f"`kubectl describe xrd {name}` on the control plane",
        )
        for name in XRDS
        if (missing := xrd_missing(by_name[name]))
    ]


def occupied(which: str, groups: Manifest, brought: Mapping[str, str]) -> list[str]:
    """A sentence when the cluster already serves API groups that Modelplane will bring. groups: the answer of /apis."""
    present = [group["name"] for group in groups.get("groups") or [] if group["name"] in brought]
    if not present:
        return []
    who = " and ".join(brought[name] for name in sorted(present))
    return [
        f"{which} already holds {who} (API group {', '.join(sorted(present))}), which "
        "Modelplane installs itself and does not adopt; "
        "use a cluster dedicated to Modelplane, or uninstall it and delete its CRDs"
    ]


def dra_problems(groups: Manifest) -> list[str]:
    """A sentence when the API server has no `resource.k8s.io/v1`, in which Modelplane writes its claims."""
    for group in groups.get("groups") or []:
        if group["name"] == "resource.k8s.io" and any(version["version"] == "v1" for version in group["versions"]):
            return []
    return ["the workload cluster serves no resource.k8s.io/v1, so no GPU can be claimed; use Kubernetes 1.35 or newer"]


def node_problems(nodes: Iterable[Manifest], pool: str, count: int) -> list[str]:
    """What the workload cluster's nodes lack for a node pool of `count` GPU nodes."""
    nodes = list(nodes)
    gpu = [node for node in nodes if _labels(node).get(POOL_LABEL) == pool]
    if not gpu:
        return [
            f"no node of the workload cluster carries {POOL_LABEL}={pool}, so engine pods would stay Pending; "
            f"`kubectl label node GPU_NODE {POOL_LABEL}={pool} nvidia.com/gpu.present=true`"
        ]
    found = []
    if len(gpu) != count:
        found.append(
            f"platform.nodePool.nodeCount: {count}: {len(gpu)} nodes carry "
            f"{POOL_LABEL}={pool}, and Modelplane schedules by the declared "
            f"number alone; set it to {len(gpu)}"
        )
    for node in gpu:
        name = node["metadata"]["name"]
        foreign = [taint for taint in _taints(node) if (taint["key"], taint["effect"]) != (GPU_TAINT, "NoSchedule")]
        if foreign:
            shown = ", ".join(f"{taint['key']}:{taint['effect']}" for taint in foreign)
            found.append(
                f"GPU node {name} has the taint {shown}, but engine pods tolerate only "
                f"{GPU_TAINT}:NoSchedule; remove it"
            )
        if not any(_labels(node).get(key) == value for key, value in GPU_LABELS.items()):
            found.append(
                f"GPU node {name} has no label by which the DRA driver finds NVIDIA hardware, so "
                "no GPU would be published; "
                f"`kubectl label node {name} nvidia.com/gpu.present=true`"
            )
    if not any(not _taints(node) for node in nodes):
        found.append(
            "every node of the workload cluster is tainted, but the endpoint picker, Envoy, "
            "cert-manager and Prometheus tolerate nothing; "
            "add a node without taints"
        )
    return found


def leftovers(crds: Iterable[str]) -> list[str]:
    """Names of the CRDs (`<plural>.<group>`) that belong to what Modelplane brought to the workload cluster."""
    return sorted(name for name in crds if any(name.endswith(f".{group}") for group in BROUGHT_TO_WORKLOAD))


def _labels(node: Manifest) -> dict[str, Any]:
    return node["metadata"].get("labels") or {}


def _taints(node: Manifest) -> list[dict[str, Any]]:
    return [
        taint for taint in node.get("spec", {}).get("taints") or [] if not taint["key"].startswith(TRANSIENT_TAINTS)
    ]


def _label(key: str) -> str:
    return "controlPlane" if key == CONTROL_PLANE else "workload"
