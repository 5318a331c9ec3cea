"""The replicas of a ModelDeployment: all ready after it was applied, all gone after it was deleted.

Modelplane says `ModelStarting` forever while a pod is Pending or its engine exits at each start, so the workload
cluster's pods, events and engine logs are looked at too, and what cannot heal ends the wait at once
(modelplane issues 202 and 437).
"""

from __future__ import annotations

import re
from typing import Any

from components.gates.events import told, when
from components.gates.gate import Gate, Properties
from components.gates.kube import Kube, path
from components.gates.pods import Workload, explained, judge_pods, look
from components.gates.waiting import Done, Failed, Outcome, Run, Waiting, forgiving, wait
from modelplane.names import API_VERSION, DEPLOYMENT_LABEL, ENGINE_NAMESPACE, SERVING_LABEL
from modelplane.readiness import deployment_missing

# How the controllers of Deployments and LeaderWorkerSets say that the API server refuses a pod.
REFUSALS = ("FailedCreate", "ReplicaFailure")


class ReplicasReady(Gate):
    """Inputs: kubeconfig (control plane), workload_kubeconfig, namespace, name, spec (hash). Outputs: replicas, the
    ModelReplicas' names; uids, those of the same objects.
    """

    outputs = ("replicas", "uids")

    def create(self, inputs: Properties, run: Run) -> dict[str, object]:
        control_plane, workload = Kube(inputs["kubeconfig"]), Kube(inputs["workload_kubeconfig"])
        goal = f"the replicas of {inputs['namespace']}/{inputs['name']}"
        return wait(goal, lambda: probe(control_plane, workload, inputs["namespace"], inputs["name"]), run).outputs


class ReplicasGone(Gate):
    """Nothing at `up`; on destroy it waits, after the ModelDeployment is deleted, until no replica and no engine pod
    is left.

    An InferenceCluster that is deleted earlier is refused by Crossplane's usages, or hangs for good.
    Inputs: kubeconfig (control plane), workload_kubeconfig, namespace, name.
    """

    replaces = ("namespace", "name")

    def create(self, inputs: Properties, run: Run) -> dict[str, object]:
        return {}

    def delete(self, properties: Properties, run: Run) -> None:
        control_plane, workload = Kube(properties["kubeconfig"]), Kube(properties["workload_kubeconfig"])
        name = properties["name"]
        wait(
            f"the end of the replicas of {properties['namespace']}/{name}",
            forgiving(lambda: _probe_gone(control_plane, workload, properties["namespace"], name), run),
            run,
        )


def probe(control_plane: Kube, workload: Kube, namespace: str, name: str) -> Outcome:
    """Look once."""
    deployment = control_plane.find(path(API_VERSION, "modeldeployments", namespace=namespace, name=name))
    if deployment is None:
        return Waiting((f"ModelDeployment {namespace}/{name} does not exist",))
    replicas = control_plane.list(
        path(API_VERSION, "modelreplicas", namespace=namespace), labels=f"{DEPLOYMENT_LABEL}={name}"
    )
    if not deployment_missing(deployment):
        return judge(deployment, replicas, Workload())
    names = sorted(replica["metadata"]["name"] for replica in replicas)
    mine = f"{SERVING_LABEL} in ({','.join(names)})" if names else None
    return judge(deployment, replicas, look(workload, ENGINE_NAMESPACE, mine, rivals=SERVING_LABEL))


def judge(deployment: dict[str, Any], replicas: list[dict[str, Any]], workload: Workload) -> Outcome:
    """What the ModelDeployment, its ModelReplicas and their pods say together."""
    missing = deployment_missing(deployment)
    if not missing:
        living = [replica["metadata"] for replica in replicas if not replica["metadata"].get("deletionTimestamp")]
        names, uids = (sorted(metadata[key] for metadata in living) for key in ("name", "uid"))
        return Done({"replicas": names, "uids": uids})
    for condition in deployment.get("status", {}).get("conditions") or []:
        if condition.get("status") == "False" and condition.get("type") in ("ReplicasScheduled", "ModelCacheResolved"):
            text = f"{condition.get('reason')}: {condition.get('message') or condition['type']}"
            refused = explained(text, text, "condition")
            if isinstance(refused, Failed):
                return refused
    refused = _refused(replicas, workload)
    if isinstance(refused, Failed):
        return refused
    found = judge_pods(workload)
    if isinstance(found, Failed):
        return found
    return Waiting(
        (*missing, *refused.missing, *found.missing),
        found.events,
        refused.cause or found.cause,
        refused.remedy or found.remedy,
    )


def _refused(replicas: list[dict[str, Any]], workload: Workload) -> Waiting | Failed:
    """Why a replica has no pod at all: what the workload cluster told of the controllers that make it."""
    served = {pod["metadata"].get("labels", {}).get(SERVING_LABEL) for pod in workload.pods}
    for replica in replicas:
        name = replica["metadata"]["name"]
        if name in served or workload.ending:
            # Refusals of before are over, or end with the pod of before, which holds a quota's share.
            continue
        # A replica that is made again has the name of the one before.
        made = str(replica["metadata"].get("creationTimestamp") or "")
        events = [event for event in workload.events if event.get("reason") in REFUSALS and when(event) >= made]
        owners = [str(event.get("involvedObject", {}).get("name")) for event in events]
        refusals = told(events, [owner for owner in owners if owner.startswith(f"{name}-")])
        if refusals:
            return explained(f"no pod of ModelReplica {name}: {refusals[-1]}", refusals[-1], "event")
    return Waiting(())


def _probe_gone(control_plane: Kube, workload: Kube, namespace: str, name: str) -> Outcome:
    replicas = control_plane.list(
        path(API_VERSION, "modelreplicas", namespace=namespace), labels=f"{DEPLOYMENT_LABEL}={name}"
    )
    pods = workload.list(path("v1", "pods", namespace=ENGINE_NAMESPACE), labels=SERVING_LABEL)
    # Names of replicas are the deployment's and five hexadecimal digits.
    mine = re.compile(rf"{re.escape(name)}-[0-9a-f]{{5}}")
    left = [f"ModelReplica {replica['metadata']['name']}{_held(replica)}" for replica in replicas]
    left += [
        f"pod {pod['metadata']['name']}" for pod in pods if mine.fullmatch(pod["metadata"]["labels"][SERVING_LABEL])
    ]
    if not left:
        return Done()
    kinds = (
        "`kubectl get modelreplicas,objects.kubernetes.m.crossplane.io -A` on the control plane shows what holds them"
    )
    return Waiting(tuple(left), remedy=kinds)


def _held(replica: dict[str, Any]) -> str:
    finalizers = replica["metadata"].get("finalizers") or []
    return f" (held by {', '.join(finalizers)})" if finalizers else ""
