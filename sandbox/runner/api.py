"""What the runner reads from and writes to one cluster's API server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, TypeVar

import httpx2
from lightkube import ApiError, AsyncClient, KubeConfig
from lightkube.models.authentication_v1 import BoundObjectReference, TokenRequestSpec
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.operators import not_equal
from lightkube.resources.core_v1 import (
    ConfigMap,
    Event,
    Node,
    Pod,
    Secret,
    Service,
    ServiceAccountToken,
)
from lightkube.resources.resource_v1 import ResourceClaim
from lightkube.types import PatchType

from sandbox import nodes
from sandbox.layout import LOOPBACK, ClusterLayout

T = TypeVar("T")
log = logging.getLogger(__name__)

# Everything that a server which is away, starting or overloaded gives; the caller tries again.
Unavailable = (httpx2.HTTPError, OSError)
_NOT_FOUND, _CONFLICT = 404, 409


class Api:
    """One cluster. Absent objects are None; every other failure is raised as it is."""

    def __init__(self, cluster: ClusterLayout) -> None:
        self.cluster = cluster
        config = KubeConfig.from_file(str(cluster.kubeconfig)).get()
        self._client = AsyncClient(config, field_manager="kubelet", trust_env=False)
        self._nodes: dict[str, str] = {}

    async def close(self) -> None:
        await self._client.close()

    async def pods(self) -> tuple[list[Pod], str]:
        """All pods that have a node, and the resource version to watch from."""
        listing = self._client.list(Pod, namespace="*", fields={"spec.nodeName": not_equal("")})
        pods = [pod async for pod in listing]
        return pods, listing.resourceVersion

    async def watch_pods(self, version: str) -> AsyncIterator[tuple[str, Pod]]:
        """Changes since a version, until the server ends the watch (then: ApiError or return)."""
        watch = self._client.watch(
            Pod, namespace="*", fields={"spec.nodeName": not_equal("")}, resource_version=version, server_timeout=300
        )
        async for operation, pod in watch:
            yield operation, pod

    async def config_map(self, namespace: str, name: str) -> ConfigMap | None:
        return await _optional(self._client.get(ConfigMap, name, namespace=namespace))

    async def secret(self, namespace: str, name: str) -> Secret | None:
        return await _optional(self._client.get(Secret, name, namespace=namespace))

    async def claim(self, namespace: str, name: str) -> ResourceClaim | None:
        return await _optional(self._client.get(ResourceClaim, name, namespace=namespace))

    async def services(self, namespace: str, *, links: bool) -> list[Service]:
        """Services of which a pod gets variables: `kubernetes` (the API server); with links, the namespace's."""
        found = [] if not links else [item async for item in self._client.list(Service, namespace=namespace)]
        if namespace != "default" or not links:
            kubernetes = await _optional(self._client.get(Service, "kubernetes", namespace="default"))
            found = [item for item in found if item.metadata and item.metadata.name != "kubernetes"]
            found += [kubernetes] if kubernetes else []
        return [self._reachable(service) for service in found]

    def _reachable(self, service: Service) -> Service:
        # No kube-proxy: cluster IPs lead nowhere, but in-cluster clients must find the API server.
        assert service.metadata is not None and service.spec is not None
        if service.metadata.name == "kubernetes" and service.metadata.namespace == "default":
            service.spec.clusterIP = LOOPBACK
            for port in (service.spec.ports or [])[:1]:
                port.port = self.cluster.apiserver_port
        return service

    async def host_ip(self, node: str) -> str:
        """The node's InternalIP; loopback when it has none."""
        if node not in self._nodes:
            found = await _optional(self._client.get(Node, node))
            addresses = (found.status.addresses if found and found.status else None) or []
            self._nodes[node] = next((item.address for item in addresses if item.type == "InternalIP"), LOOPBACK)
        return self._nodes[node]

    async def token(self, pod: Pod, audience: str | None, seconds: int) -> str:
        """A new token of the pod's ServiceAccount, bound to the pod."""
        assert pod.metadata is not None and pod.spec is not None
        bound = BoundObjectReference(apiVersion="v1", kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid)
        spec = TokenRequestSpec(
            audiences=[audience] if audience else [], expirationSeconds=seconds, boundObjectRef=bound
        )
        request = ServiceAccountToken(metadata=ObjectMeta(), spec=spec)
        account = pod.spec.serviceAccountName or "default"
        answer = await self._client.create(request, account, namespace=pod.metadata.namespace)
        assert answer.status is not None
        return answer.status.token or ""

    async def patch_status(self, pod: Pod, status: Mapping[str, Any]) -> bool:
        """False when the pod is gone. The uid makes sure that it is not another one of the same name."""
        assert pod.metadata is not None and pod.metadata.name is not None
        patch = {"metadata": {"uid": pod.metadata.uid}, "status": status}
        try:
            await self._client.patch(
                Pod.Status, pod.metadata.name, patch, namespace=pod.metadata.namespace, patch_type=PatchType.STRATEGIC
            )
        except ApiError as error:
            if error.status.code in (_NOT_FOUND, _CONFLICT):
                return False
            raise
        return True

    async def delete(self, pod: Pod) -> None:
        """Remove a pod whose containers have ended."""
        assert pod.metadata is not None and pod.metadata.name is not None
        name, namespace = pod.metadata.name, pod.metadata.namespace
        found = await _optional(self._client.get(Pod, name, namespace=namespace))
        if found and found.metadata and found.metadata.uid == pod.metadata.uid:
            await _optional(self._client.delete(Pod, name, namespace=namespace, grace_period=0))

    async def apply_logs(self, manifest: Mapping[str, Any]) -> None:
        """Tell kwok where a pod's logs are. A refusal (no Logs type, a namespace that ends) is no reason not to run."""
        try:
            await self._client.apply(nodes.Logs.from_dict(dict(manifest)), force=True)
        except ApiError as error:
            log.warning("%s: no `kubectl logs`: %s", manifest["metadata"]["name"], error)

    async def create_event(self, event: Event) -> None:
        assert event.metadata is not None
        await self._client.create(event)

    async def update_event(self, namespace: str, name: str, change: Mapping[str, Any]) -> bool:
        """False when the event has expired."""
        return await _optional(self._client.patch(Event, name, change, namespace=namespace)) is not None


async def _optional(answer: Awaitable[T]) -> T | None:
    try:
        return await answer
    except ApiError as error:
        if error.status.code == _NOT_FOUND:
            return None
        raise


async def retried(action: Callable[[], Awaitable[T]], wait: float) -> T:
    """Repeat an action until the API server takes it."""
    while True:
        try:
            return await action()
        except Unavailable:
            await asyncio.sleep(wait)
