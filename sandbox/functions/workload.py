"""An engine on the workload cluster: its Deployment and the ResourceClaimTemplate of its devices."""

from __future__ import annotations

from modelplane.names import (
    ENGINE_NAMESPACE,
    POOL_LABEL,
    SERVING_LABEL,
    WORKLOAD_LABEL,
    claim_template_name,
    workload_name,
)
from sandbox.functions.model import Desired, Manifest
from sandbox.functions.objects import AVAILABLE, remote

# vLLM's default port; Modelplane relies on it (the engine's own --port is not read).
ENGINE_PORT = 8000
CLAIM = "devices"


def serving_key(engine: Manifest) -> str:
    return f"model-serving-{engine['name']}"


def compose_engine(desired: Desired, replica: str, engine: Manifest, provider_config: str) -> None:
    """Add a Standalone engine of a replica."""
    member = engine["members"][0]
    role = str(member.get("role", "Standalone"))
    claim_name = None
    if member.get("deviceRequests"):
        claim_name = claim_template_name(replica, engine["name"], role)
        template = _claim_template(claim_name, member["deviceRequests"])
        desired.add(f"resource-claim-{engine['name']}-{role.lower()}", remote(template, provider_config))
    deployment = _deployment(replica, engine, member, claim_name)
    desired.add(serving_key(engine), remote(deployment, provider_config, ready_when=AVAILABLE))


def _claim_template(name: str, requests: list[Manifest]) -> Manifest:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": ENGINE_NAMESPACE},
        "spec": {"spec": {"devices": {"requests": [_request(request) for request in requests]}}},
    }


def _request(request: Manifest) -> Manifest:
    exactly: Manifest = {"deviceClassName": request["deviceClassName"], "count": request.get("count", 1)}
    # The same expression that the scheduler of Modelplane evaluated on the declared class now meets the real slice.
    if selectors := request.get("selectors"):
        exactly["selectors"] = [{"cel": {"expression": selector["cel"]}} for selector in selectors]
    return {"name": request["name"], "exactly": exactly}


def _deployment(replica: str, engine: Manifest, member: Manifest, claim: str | None) -> Manifest:
    name = workload_name(replica, engine["name"])
    extra = member["template"].get("metadata", {})
    labels = {**extra.get("labels", {}), SERVING_LABEL: replica, WORKLOAD_LABEL: name}
    metadata: Manifest = {"labels": labels}
    if extra.get("annotations"):
        metadata["annotations"] = extra["annotations"]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": ENGINE_NAMESPACE},
        "spec": {
            "replicas": engine.get("copies", 1),
            "selector": {"matchLabels": {WORKLOAD_LABEL: name}},
            "template": {"metadata": metadata, "spec": _pod_spec(member, claim)},
        },
    }


def _pod_spec(member: Manifest, claim: str | None) -> Manifest:
    source = member["template"]["spec"]
    container: Manifest = {
        **source["containers"][0],
        "ports": [{"containerPort": ENGINE_PORT}],
        "readinessProbe": {
            "httpGet": {"path": "/health", "port": ENGINE_PORT},
            "initialDelaySeconds": 30,
            "periodSeconds": 10,
            "timeoutSeconds": 5,
        },
        "volumeMounts": [{"name": "dshm", "mountPath": "/dev/shm"}],
    }
    spec: Manifest = {
        "containers": [container],
        "nodeSelector": {POOL_LABEL: member["nodePoolName"]},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "volumes": [{"name": "dshm", "emptyDir": {"medium": "Memory"}}],
    }
    if claim:
        container["resources"] = {"claims": [{"name": CLAIM}]}
        spec["resourceClaims"] = [{"name": CLAIM, "resourceClaimTemplateName": claim}]
    if secrets := source.get("imagePullSecrets"):
        spec["imagePullSecrets"] = secrets
    return spec
