"""A namespace that may already be there: made when it is not, and removed on destroy only when this stack made it."""

from __future__ import annotations

from components.gates.errors import KubeError
from components.gates.gate import UNKNOWN, Gate, Properties, known
from components.gates.kube import Kube, path
from components.gates.waiting import Done, Failed, Outcome, Run, Waiting, forgiving, wait

# Tells, after a crash between creation and Pulumi's record of it, that the namespace is ours.
OWNER_ANNOTATION = "speculation/stack"


class Namespace(Gate):
    """Inputs: kubeconfig, name, owner (`project/stack`). Output: made, whether this stack made it."""

    outputs = ("made",)
    replaces = ("name",)

    def preview(self, inputs: Properties, old_outputs: Properties | None) -> dict[str, object]:
        return {"made": UNKNOWN if old_outputs is None or not known(inputs["kubeconfig"]) else old_outputs["made"]}

    def create(self, inputs: Properties, run: Run) -> dict[str, object]:
        kube = Kube(inputs["kubeconfig"])
        return wait(f"namespace {inputs['name']}", lambda: _ensure(kube, inputs), run).outputs

    def update(self, inputs: Properties, old_outputs: Properties, run: Run) -> dict[str, object]:
        made = self.create(inputs, run)["made"]
        return {"made": bool(old_outputs.get("made")) or made}

    def delete(self, properties: Properties, run: Run) -> None:
        if not properties.get("made"):
            return
        kube, url = Kube(properties["kubeconfig"]), path("v1", "namespaces", name=properties["name"])
        wait(f"the end of namespace {properties['name']}", forgiving(lambda: _removed(kube, url), run), run)


def _ensure(kube: Kube, inputs: Properties) -> Outcome:
    found = kube.find(path("v1", "namespaces", name=inputs["name"]))
    if found is None:
        metadata = {"name": inputs["name"], "annotations": {OWNER_ANNOTATION: inputs["owner"]}}
        try:
            kube.create(path("v1", "namespaces"), {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        except KubeError as error:
            if error.status == 422:  # a name that the API server refuses
                return Failed(str(error))
            raise
        return Done({"made": True})
    if found["metadata"].get("deletionTimestamp"):
        return Waiting(("the one of before is still going",))
    return Done({"made": (found["metadata"].get("annotations") or {}).get(OWNER_ANNOTATION) == inputs["owner"]})


def _removed(kube: Kube, url: str) -> Outcome:
    found = kube.find(url)
    if found is None:
        return Done()
    if not found["metadata"].get("deletionTimestamp"):
        kube.delete(url)
        return Waiting(("deletion requested",))
    left = [c["message"] for c in found.get("status", {}).get("conditions") or [] if c.get("status") == "True"]
    return Waiting(tuple(left) or ("its objects are going",))
