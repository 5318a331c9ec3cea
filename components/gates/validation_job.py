"""One Job of the validation: what it is, and a whole run of it, from its making to its verdict.

`up` runs it (validation_run.py), and so does a check of a running stack (validation/commands/check.py).
"""

from __future__ import annotations

import hashlib
import json
import uuid
from typing import Any

from components.gates.errors import KubeError
from components.gates.gate import Properties
from components.gates.kube import Kube, Manifest, path
from components.gates.pods import judge_pods, look
from components.gates.waiting import Done, Failed, GateError, Outcome, Run, Waiting, sentence, wait
from engine.findings import Problems
from validation.settings import INPUT_PATH, PROGRAM_PATH, RUN_LABEL
from validation.verdict import RESULT_KEY, Verdict

# What a run needs to know beside its cluster: names in the cluster, and the Job's input without run and result.
INPUTS = ("namespace", "service_account", "image", "program", "program_hash", "job")
# The user `nobody` of Debian images: the program needs no file of its own.
NOBODY = 65534
LOG_LINES = 20


def run_id(inputs: Properties) -> str:
    """What is validated, and which try: unique, so that no result of before can be taken for this one's."""
    what = hashlib.sha256(json.dumps([inputs["job"], inputs["program_hash"]]).encode()).hexdigest()
    return f"{what[:6]}-{uuid.uuid4().hex[:6]}"


def run_job(kube: Kube, inputs: Properties, name: str, run: Run) -> Verdict:
    """Make the Job of run `name`, wait until it ends, read its verdict. Raises GateError when there is none."""
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


def job_manifests(inputs: Properties, run: str) -> tuple[Manifest, Manifest]:
    """The input ConfigMap and the Job of one run."""
    name, namespace, labels = object_name(run), inputs["namespace"], {RUN_LABEL: run}
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": input_data(inputs["job"], run, namespace, result_name(run)),
    }
    pod = pod_spec(inputs["service_account"], inputs["image"], inputs["program"], name)
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        # A second try would write a second verdict of the same run.
        "spec": {"backoffLimit": 0, "template": {"metadata": {"labels": labels}, "spec": pod}},
    }
    return config_map, job


def input_data(job: str, run: str, namespace: str, config_map: str) -> dict[str, str]:
    """Data of an input ConfigMap: the Job's input with its run and the place of its result."""
    document = {**json.loads(job), "run": run, "result": {"namespace": namespace, "config_map": config_map}}
    return {INPUT_PATH.rsplit("/", 1)[1]: json.dumps(document)}


def pod_spec(
    service_account: str, image: str, program: str, config_map: str, arguments: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The pod that runs the program of ConfigMap `program` on the input in `config_map`."""
    input_directory = INPUT_PATH.rsplit("/", 1)[0]
    program_directory, program_file = PROGRAM_PATH.rsplit("/", 1)
    return {
        "serviceAccountName": service_account,
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
                "image": image,
                "command": ["python", PROGRAM_PATH, *arguments],
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
            {"name": "input", "configMap": {"name": config_map}},
            {
                "name": "program",
                "configMap": {"name": program, "items": [{"key": program_file, "path": program_file}]},
            },
        ],
    }


def remove(kube: Kube, namespace: str, run: str) -> None:
    """Delete the Job of a run, its input and its result."""
    for api_version, plural, name in (
        ("batch/v1", "jobs", object_name(run)),
        ("v1", "configmaps", object_name(run)),
        ("v1", "configmaps", result_name(run)),
    ):
        kube.delete(path(api_version, plural, namespace=namespace, name=name))


def object_name(run: str) -> str:
    """Name of a run's Job and input."""
    return f"speculation-validation-{run}"


def result_name(run: str) -> str:
    """Name of the ConfigMap that takes a run's verdict."""
    return f"speculation-verdict-{run}"


def _probe(kube: Kube, namespace: str, name: str) -> Outcome:
    job = kube.find(path("batch/v1", "jobs", namespace=namespace, name=object_name(name)))
    if job is None:
        return Failed("it was deleted while it ran", "run it again")
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
