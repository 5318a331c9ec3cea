"""One run of the validation Job: made, waited for, and its verdict read.

A run is repeated at the next `up` when its inputs changed or its verdict was not what the recipe declares; a right
and unchanged one is not. A wrong verdict is a result here: VerdictGate is what fails on it. Only a run without a
verdict fails.
"""

from __future__ import annotations

from components.gates.errors import KubeError
from components.gates.gate import Gate, Properties
from components.gates.kube import Kube, path
from components.gates.validation_job import remove, run_id, run_job
from components.gates.waiting import GateError, Run
from validation.settings import RUN_LABEL

# Secrets that may differ without changing what is validated.
NOT_VALIDATED = ("kubeconfig",)


class ValidationRun(Gate):
    """Inputs: kubeconfig (workload), namespace, service_account, image, program (its ConfigMap), program_hash, job
    (input, JSON text), spec (hash of what is validated).

    Outputs: run (id), verdict (JSON text), text (for a terminal), sentence, ok.
    """

    outputs = ("run", "verdict", "text", "sentence", "ok")

    def identity(self, inputs: Properties) -> str:
        return f"{inputs['namespace']}/validation"

    def changed(self, old_inputs: Properties, old_outputs: Properties, inputs: Properties) -> list[str]:
        changed = super().changed(old_inputs, old_outputs, inputs)
        return changed if old_outputs.get("ok") is True else [*changed, "ok"]

    def preview(self, inputs: Properties, old_outputs: Properties | None) -> dict[str, object]:
        if old_outputs is not None and _still_valid(inputs, old_outputs):
            return {key: old_outputs[key] for key in self.outputs}
        return super().preview(inputs, old_outputs)

    def create(self, inputs: Properties, run: Run) -> dict[str, object]:
        kube = Kube(inputs["kubeconfig"])
        name = run_id(inputs)
        try:
            verdict = run_job(kube, inputs, name, run)
        except GateError:
            # Nothing is recorded of a run that failed: it must not leave its Job behind.
            remove(kube, inputs["namespace"], name)
            raise
        _remove_others(kube, inputs["namespace"], name)
        run.tell(verdict.text())
        return {
            "run": name,
            "verdict": verdict.to_json(),
            "text": verdict.text(),
            "sentence": verdict.sentence,
            "ok": verdict.ok,
        }

    def update(self, inputs: Properties, old_outputs: Properties, run: Run) -> dict[str, object]:
        if _still_valid(inputs, old_outputs):
            return {key: old_outputs[key] for key in self.outputs}
        return self.create(inputs, run)

    def delete(self, properties: Properties, run: Run) -> None:
        try:
            remove(Kube(properties["kubeconfig"]), properties["namespace"], properties["run"])
        except KubeError as error:
            # Its namespace goes next, and takes it along.
            run.warn(f"the validation Job was not removed: {error}")


def _remove_others(kube: Kube, namespace: str, run: str) -> None:
    """The run of before, and runs that a killed `pulumi` has never recorded."""
    for url in (path("batch/v1", "jobs", namespace=namespace), path("v1", "configmaps", namespace=namespace)):
        for found in kube.list(url, labels=RUN_LABEL):
            if found["metadata"]["labels"][RUN_LABEL] != run:
                kube.delete(f"{url}/{found['metadata']['name']}")


def _still_valid(inputs: Properties, old_outputs: Properties) -> bool:
    same = all(old_outputs.get(key) == value for key, value in inputs.items() if key not in NOT_VALIDATED)
    return same and old_outputs.get("ok") is True
