"""One run of the validation Job: made, waited for, and its verdict read.

A run is repeated at the next `up` when its inputs changed or its verdict was not what the recipe declares; a right
and unchanged one is not. A wrong verdict is a result here: VerdictGate is what fails on it. Only a run without a
verdict fails.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from typing import Any

from components.gates.errors import KubeError
from components.gates.gate import Gate, Properties
from components.gates.kube import Kube, Manifest, path
from components.gates.pods import judge_pods, look
from components.gates.waiting import Done, Failed, GateError, Outcome, Run, Waiting, sentence, wait
from engine.findings import Problems
from validation.settings import INPUT_PATH, PROGRAM_PATH, RUN_LABEL
from validation.verdict import RESULT_KEY, Verdict

# Secrets that may differ without changing what is validated.
NOT_VALIDATED = ("kubeconfig",)
# The user `nobody` of Debian images: the program needs no file of its own.
NOBODY = 65534
LOG_LINES = 20


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
        name = _run_id(inputs)
        try:
            verdict = _run_job(kube, inputs, name, run)
        except GateError:
            # Nothing is recorded of a run that failed: it must not leave its Job behind.
            _remove(kube, inputs["namespace"], name)
            raise
        _remove_others(kube, inputs["namespace"], name)
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
            _remove(Kube(properties["kubeconfig"]), properties["namespace"], properties["run"])
        except KubeError as error:
            # Its namespace goes next, and takes it along.
            run.warn(f"the validation Job was not removed: {error}")


def job_manifests(inputs: Properties, run: str) -> tuple[Manifest, Manifest]:
    """The input ConfigMap and the Job of one run."""
    name, namespace, labels = object_name(run), inputs["namespace"], {RUN_LABEL: run}
    document = {
        **json.loads(inputs["job"]),
        "run": run,
        "result": {"namespace": namespace, "config_map": result_name(run)},
    }
    input_directory, input_file = INPUT_PATH.rsplit("/", 1)
    program_directory, program_file = PROGRAM_PATH.rsplit("/", 1)
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "data": {input_file: json.dumps(document)},
    }
    pod: dict[str, Any] = {
        "serviceAccountName": inputs["service_account"],
        "restartPolicy": "Never",
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": NOBODY,
            "runAsGroup": NOBODY,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": "validation",
                "image": inputs["image"],
                "command": ["python", PROGRAM_PATH],
                "env": [{"name": "PYTHONUNBUFFERED", "value": "1"}, {"name": "PYTHONDONTWRITEBYTECODE", "value": "1"}],
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                },
                "volumeMounts": [
                    {"name": "input", "mountPath": input_directory, "readOnly": True},
                    {"name": "program", "mountPath": program_directory, "readOnly": True},
                ],
            }
        ],
        "volumes": [
            {"name": "input", "configMap": {"name": name}},
            {
                "name": "program",
                "configMap": {"name": inputs["program"], "items": [{"key": program_file, "path": program_file}]},
            },
        ],
    }
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        # A second try would write a second verdict of the same run.
        "spec": {"backoffLimit": 0, "template": {"metadata": {"labels": labels}, "spec": pod}},
    }
    return config_map, job


def object_name(run: str) -> str:
    """Name of a run's Job and input."""
    return f"speculation-validation-{run}"


def result_name(run: str) -> str:
    """Name of the ConfigMap that takes a run's verdict."""
    return f"speculation-verdict-{run}"


def _run_job(kube: Kube, inputs: Properties, name: str, run: Run) -> Verdict:
    config_map, job = job_manifests(inputs, name)
    namespace = inputs["namespace"]
    try:
        kube.create(path("v1", "configmaps", namespace=namespace), config_map)
        kube.create(path("batch/v1", "jobs", namespace=namespace), job)
    except KubeError as error:
        raise GateError(sentence("the validation Job cannot be made", str(error))) from None
    done = wait("the validation Job", lambda: _probe(kube, namespace, name), run)
    return read_verdict(str(done.outputs["document"]))


def read_verdict(document: str) -> Verdict:
    """The verdict of a finished run. Raises GateError when the document is not one."""
    try:
        return Verdict.from_json(document)
    except Problems as problems:
        raise GateError(sentence("the validation Job recorded no valid verdict", problems.findings[0].line())) from None


def _probe(kube: Kube, namespace: str, name: str) -> Outcome:
    job = kube.find(path("batch/v1", "jobs", namespace=namespace, name=object_name(name)))
    if job is None:
        return Failed("it was deleted while it ran", "run `pulumi up` again")
    conditions = {c["type"]: c for c in job.get("status", {}).get("conditions") or [] if c.get("status") == "True"}
    if "Complete" not in conditions and "Failed" not in conditions:
        found = judge_pods(look(kube, namespace, f"{RUN_LABEL}={name}"))
        return found if isinstance(found, Failed) or found.missing else Waiting(("it runs",))
    result = kube.find(path("v1", "configmaps", namespace=namespace, name=result_name(name)))
    document = (result or {}).get("data", {}).get(RESULT_KEY)
    if document:
        return Done({"document": document})
    reason = conditions.get("Failed", {}).get("message") or "it ended"
    return Failed(f"{reason}, and recorded no verdict: {_last_words(kube, namespace, name)}")


def _last_words(kube: Kube, namespace: str, name: str) -> str:
    for pod in kube.list(path("v1", "pods", namespace=namespace), labels=f"{RUN_LABEL}={name}"):
        try:
            url = path("v1", "pods", namespace=namespace, name=pod["metadata"]["name"], sub="log")
            lines = [line for line in kube.text(f"{url}?tailLines={LOG_LINES}").splitlines() if line.strip()]
        except KubeError:
            continue
        if lines:
            return lines[-1].strip()
    return "its pod left no log"


def _remove(kube: Kube, namespace: str, run: str) -> None:
    for api_version, plural, name in (
        ("batch/v1", "jobs", object_name(run)),
        ("v1", "configmaps", object_name(run)),
        ("v1", "configmaps", result_name(run)),
    ):
        kube.delete(path(api_version, plural, namespace=namespace, name=name))


def _remove_others(kube: Kube, namespace: str, run: str) -> None:
    """The run of before, and runs that a killed `pulumi` has never recorded."""
    for url in (path("batch/v1", "jobs", namespace=namespace), path("v1", "configmaps", namespace=namespace)):
        for found in kube.list(url, labels=RUN_LABEL):
            if found["metadata"]["labels"][RUN_LABEL] != run:
                kube.delete(f"{url}/{found['metadata']['name']}")


def _still_valid(inputs: Properties, old_outputs: Properties) -> bool:
    same = all(old_outputs.get(key) == value for key, value in inputs.items() if key not in NOT_VALIDATED)
    return same and old_outputs.get("ok") is True


def _run_id(inputs: Properties) -> str:
    """What is validated, and which try: unique, so that no result of before can be taken for this one's."""
    what = hashlib.sha256(json.dumps([inputs["job"], inputs["program_hash"]]).encode()).hexdigest()
    return f"{what[:6]}-{uuid.uuid4().hex[:6]}"
