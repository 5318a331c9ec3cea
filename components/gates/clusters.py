"""Whether two given clusters can be this stack's control plane and workload cluster, before anything is made in either.

Every preview asks: they are those in which the stack was made, and Crossplane and the right release of Modelplane are
there and established. Before the first create also: neither holds what Modelplane will install, and an engine pod would
find what it needs (preflight.py). That both answer and are two is known before (components/identity.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from components.gates.errors import KubeError
from components.gates.gate import UNKNOWN, Gate, Properties, Say, known, unheard
from components.gates.kube import Kube, Manifest, path
from components.gates.preflight import survey
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

CONTROL_PLANE, WORKLOAD = "control_plane_kubeconfig", "workload_kubeconfig"


UIDS = {CONTROL_PLANE: "control_plane_uid", WORKLOAD: "workload_uid"}


class Clusters(Gate):
    """Inputs: both kubeconfigs, the uid of each cluster's kube-system namespace (its identity), node_pool,
    node_count, secrets ([{name, key}] that the recipe reads and the stack does not make; key "": any).
    """

    def identity(self, inputs: Properties) -> str:
        return "clusters"

    def problems(
        self, inputs: Properties, old_inputs: Properties, old_outputs: Properties, warn: Say = unheard
    ) -> list[str]:
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
            return self._judge(control_plane, workload, inputs, old_inputs, warn)
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

    def _judge(
        self, control_plane: Kube, workload: Kube, inputs: Properties, old_inputs: Properties, warn: Say
    ) -> list[str]:
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
        around = survey(workload, inputs["secrets"])
        for line in around.warnings(inputs["node_pool"], int(inputs["node_count"])):
            warn(line)
        return found + around.problems(inputs["node_pool"])


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
    served = [
        version["version"]
        for group in groups.get("groups") or []
        if group["name"] == "resource.k8s.io"
        for version in group["versions"]
    ]
    if "v1" in served:
        return []
    only = f" (only {', '.join(served)})" if served else ""
    return [
        f"the workload cluster serves no resource.k8s.io/v1{only}, so no GPU can be claimed; use Kubernetes 1.35 or "
        "newer"
    ]


def leftovers(crds: Iterable[str]) -> list[str]:
    """Names of the CRDs (`<plural>.<group>`) that belong to what Modelplane brought to the workload cluster."""
    return sorted(name for name in crds if any(name.endswith(f".{group}") for group in BROUGHT_TO_WORKLOAD))


def _label(key: str) -> str:
    return "controlPlane" if key == CONTROL_PLANE else "workload"
