"""One recipe, served: its ModelDeployment and ModelService, the Secrets its engines read, and the gates that prove
each step.

Order: a GPU that the selectors match -> ModelDeployment -> all replicas ready -> ModelService serving. On destroy
both are deleted, then no replica may be left before the platform goes.

A changed engine replaces the deployment, old before new: Modelplane rolls pods, and on a single-GPU pool the new pod
never gets the claim that the old one holds (modelplane issue 289). A changed number of replicas is an update.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi
from pulumi import Output, ResourceOptions

from components.cluster import Cluster
from components.encoding import base64_text, content_hash
from components.gates import resources as gates
from components.manifest import KubernetesObject
from modelplane.names import ENGINE_NAMESPACE
from stacks.gpu import DEVICE_CLASS


@dataclass(frozen=True)
class ImagePullSecret:
    """Credentials of one image registry; password may be an Output."""

    registry: str
    username: str
    password: pulumi.Input[str]


@dataclass(frozen=True)
class ModelArgs:
    """deployment, service: manifests in the deployed release's form; model: what clients send; requests: the device
    requests of the engines; node_pool: where they run.

    secrets: Secret name -> key -> value, image_pull_secrets: Secret name -> credentials, both for namespace `default`
    of the workload cluster; foreign_secrets: [{name, key}] that somebody else makes there.
    """

    control_plane: Cluster
    workload: Cluster
    deployment: Mapping[str, Any]
    service: Mapping[str, Any]
    model: str
    requests: Sequence[Mapping[str, Any]]
    node_pool: str
    device_timeout: str
    replicas_timeout: str
    service_timeout: str
    destroy_timeout: str
    secrets: Mapping[str, Mapping[str, pulumi.Input[str]]] = field(default_factory=dict)
    image_pull_secrets: Mapping[str, ImagePullSecret] = field(default_factory=dict)
    foreign_secrets: Sequence[Mapping[str, str]] = ()
    depends_on: tuple[pulumi.Resource, ...] = ()


class Model(pulumi.ComponentResource):
    """address: the service's, without a trailing slash; replicas: names of the ModelReplicas; serving: resolves when
    it answers; spec: fingerprint of all that is deployed, and of its very engines.
    """

    address: Output[str]
    replicas: Output[list[str]]
    serving: pulumi.Resource
    spec: Output[str]

    def __init__(self, name: str, args: ModelArgs, opts: ResourceOptions | None = None) -> None:
        super().__init__("speculation:components:Model", name, {}, opts)
        metadata = args.deployment["metadata"]
        spec = content_hash(args.deployment["spec"])
        served = content_hash(args.deployment["spec"], args.service["spec"])
        control_plane, workload = args.control_plane.kubeconfig, args.workload.kubeconfig
        namespace = gates.Namespace(
            f"{name}-namespace",
            kubeconfig=control_plane,
            namespace=metadata["namespace"],
            timeout=args.destroy_timeout,
            opts=ResourceOptions(parent=self, depends_on=list(args.control_plane.ready)),
        )
        secrets = self._secrets(name, args)
        device = gates.Device(
            f"{name}-device",
            kubeconfig=workload,
            device_class=DEVICE_CLASS,
            requests=args.requests,
            node_pool=args.node_pool,
            secrets=args.foreign_secrets,
            timeout=args.device_timeout,
            opts=ResourceOptions(parent=self, depends_on=list(args.depends_on)),
        )
        gone = gates.ReplicasGone(
            f"{name}-replicas-gone",
            kubeconfig=control_plane,
            workload_kubeconfig=workload,
            namespace=metadata["namespace"],
            deployment=metadata["name"],
            timeout=args.destroy_timeout,
            opts=ResourceOptions(parent=self, depends_on=[namespace, *args.depends_on]),
        )
        deletes = pulumi.CustomTimeouts(delete=args.destroy_timeout)
        on_control_plane = ResourceOptions(
            parent=self, provider=args.control_plane.provider, custom_timeouts=deletes, delete_before_replace=True
        )
        deployment = KubernetesObject(
            f"{name}-deployment",
            args.deployment,
            ResourceOptions.merge(
                on_control_plane,
                ResourceOptions(replace_on_changes=["spec.template"], depends_on=[namespace, device, gone, *secrets]),
            ),
        )
        service = KubernetesObject(
            f"{name}-service",
            args.service,
            ResourceOptions.merge(on_control_plane, ResourceOptions(depends_on=[namespace, *args.depends_on])),
        )
        replicas = gates.ReplicasReady(
            f"{name}-replicas",
            kubeconfig=control_plane,
            workload_kubeconfig=workload,
            namespace=metadata["namespace"],
            deployment=metadata["name"],
            spec=spec,
            timeout=args.replicas_timeout,
            opts=ResourceOptions(parent=self, depends_on=[deployment]),
        )
        serving = gates.ServiceServing(
            f"{name}-serving",
            kubeconfig=control_plane,
            namespace=args.service["metadata"]["namespace"],
            service=args.service["metadata"]["name"],
            model=args.model,
            spec=served,
            timeout=args.service_timeout,
            opts=ResourceOptions(parent=self, depends_on=[service, replicas]),
        )
        self.address, self.replicas, self.serving = serving.address, replicas.replicas, serving
        self.spec = replicas.uids.apply(lambda uids: content_hash(served, uids))
        self.register_outputs({"address": self.address, "replicas": self.replicas})

    def _secrets(self, name: str, args: ModelArgs) -> list[pulumi.Resource]:
        opts = ResourceOptions(
            parent=self, provider=args.workload.provider, depends_on=[*args.workload.ready, *args.depends_on]
        )
        opaque = [
            KubernetesObject(f"{name}-secret-{secret}", secret_manifest(secret, values), opts)
            for secret, values in sorted(args.secrets.items())
        ]
        pull = [
            KubernetesObject(f"{name}-image-pull-{secret}", image_pull_manifest(secret, credentials), opts)
            for secret, credentials in sorted(args.image_pull_secrets.items())
        ]
        return [*opaque, *pull]


def secret_manifest(name: str, values: Mapping[str, pulumi.Input[str]]) -> dict[str, Any]:
    """A Secret that an engine's environment reads."""
    data = {key: Output.secret(value).apply(base64_text) for key, value in values.items()}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": ENGINE_NAMESPACE},
        "type": "Opaque",
        "data": data,
    }


def image_pull_manifest(name: str, credentials: ImagePullSecret) -> dict[str, Any]:
    """A Secret with which the kubelet pulls an engine's image."""

    def config(password: str) -> str:
        auth = base64_text(f"{credentials.username}:{password}")
        entry = {"username": credentials.username, "password": password, "auth": auth}
        return base64_text(json.dumps({"auths": {credentials.registry: entry}}))

    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": ENGINE_NAMESPACE},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": Output.secret(credentials.password).apply(config)},
    }
