"""Keeps one cluster's snapshot up to date and writes the statuses that follow from it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from functools import cache
from typing import Any

import httpx2
from lightkube import ApiError, AsyncClient, KubeConfig
from lightkube.core.exceptions import ConfigError
from lightkube.generic_resource import create_global_resource, create_namespaced_resource
from lightkube.resources.core_v1 import Pod, Service
from lightkube.resources.discovery_v1 import EndpointSlice
from lightkube.types import PatchType

from sandbox.gateway.dialects import Dialect
from sandbox.gateway.snapshot import KINDS, Manifest, Snapshot
from sandbox.gateway.statuses import Status, wanted
from sandbox.layout import ClusterLayout

# One class of the client's for each kind.
Resource = Any

_log = logging.getLogger("gateway")
# A kind that is not served yet, or a server that is away, is asked again this soon: routes should work within seconds.
_RETRY_SECONDS = 1.0
# The server ends a watch after this long, so that a dead connection is not watched for ever.
_WATCH_SECONDS = 300
# Changes come in groups.
_SETTLE_SECONDS = 0.02
_GONE, _NOT_FOUND, _CONFLICT = 410, 404, 409
_BUILT_IN: dict[str, Resource] = {"Service": Service, "Pod": Pod, "EndpointSlice": EndpointSlice}
Unavailable = (httpx2.HTTPError, OSError, ConfigError)


class Controller:
    """One gateway's controller. The snapshot keeps what was known while the API server is away, as a real one does."""

    def __init__(self, dialect: Dialect, cluster: ClusterLayout) -> None:
        self._dialect = dialect
        self._cluster = cluster
        self._client: AsyncClient | None = None
        self.snapshot = Snapshot()

    async def run(self) -> None:
        """Until it is cancelled."""
        kinds = [kind for kind in KINDS if self._dialect.pools or kind not in ("InferencePool", "Pod")]
        async with asyncio.TaskGroup() as group:
            for kind in kinds:
                group.create_task(self._follow(kind))
            group.create_task(self._write())

    def _connected(self) -> AsyncClient:
        if self._client is None:
            config = KubeConfig.from_file(str(self._cluster.kubeconfig)).get()
            self._client = AsyncClient(config, field_manager="gateway", trust_env=False)
        return self._client

    async def _follow(self, kind: str) -> None:
        resource = _resource(kind)
        said = ""
        while True:
            try:
                async for operation, manifest in self._changes(kind, resource):
                    said = ""
                    if operation == "DELETED":
                        self.snapshot.drop(kind, manifest)
                    else:
                        self.snapshot.put(kind, manifest)
            except ApiError as error:
                why = "not served yet" if error.status.code == _NOT_FOUND else str(error)
                if error.status.code == _NOT_FOUND:
                    self.snapshot.replace(kind, [])
                said = self._say(kind, why, said)
            except Unavailable as error:
                said = self._say(kind, f"{type(error).__name__}: {error}", said)
            await asyncio.sleep(_RETRY_SECONDS if said else 0)

    def _say(self, kind: str, why: str, said: str) -> str:
        """Once for each new reason, not once a second."""
        if why != said:
            _log.warning("%s: %s: %s", self._dialect.cluster, kind, why)
        return why

    async def _changes(self, kind: str, resource: Resource) -> AsyncIterator[tuple[str, Manifest]]:
        client = self._connected()
        everywhere: dict[str, Any] = {"namespace": "*"} if KINDS[kind][3] else {}
        listing = client.list(resource, **everywhere)
        found = [item.to_dict() async for item in listing]
        self.snapshot.replace(kind, found)
        _log.info("%s: watching %s (%d)", self._dialect.cluster, kind, len(found))
        watch = client.watch(
            resource,
            resource_version=listing.resourceVersion,
            server_timeout=_WATCH_SECONDS,
            **everywhere,
        )
        async for operation, item in watch:
            yield operation, item.to_dict()

    async def _write(self) -> None:
        while True:
            await self.snapshot.changed.wait()
            await asyncio.sleep(_SETTLE_SECONDS)
            self.snapshot.changed.clear()
            for kind, manifest, status in list(wanted(self.snapshot, self._dialect)):
                if not await self._patch(kind, manifest, status):
                    await asyncio.sleep(_RETRY_SECONDS)
                    self.snapshot.changed.set()

    async def _patch(self, kind: str, manifest: Manifest, status: Status) -> bool:
        """Write one status; whether that is settled (an object that has gone, or changed meanwhile, comes again)."""
        meta = manifest["metadata"]
        namespace = {"namespace": meta["namespace"]} if KINDS[kind][3] else {}
        # With the version, so that another controller's entries are never overwritten with older ones.
        patch = {"metadata": {"resourceVersion": meta["resourceVersion"]}, "status": status}
        subresource = _resource(kind).Status
        try:
            await self._connected().patch(subresource, meta["name"], patch, patch_type=PatchType.MERGE, **namespace)
        except ApiError as error:
            if error.status.code in (_NOT_FOUND, _CONFLICT):
                return True
            _log.warning("%s: status of %s %s: %s", self._dialect.cluster, kind, meta["name"], error)
            return False
        except Unavailable as error:
            _log.warning("%s: status of %s %s: %s", self._dialect.cluster, kind, meta["name"], error)
            return False
        _log.info("%s: wrote status of %s %s", self._dialect.cluster, kind, meta["name"])
        return True


@cache
def _resource(kind: str) -> Resource:
    """The client's class of a kind; it keeps a registry in which each kind is once."""
    if kind in _BUILT_IN:
        return _BUILT_IN[kind]
    group, version, plural, namespaced = KINDS[kind]
    if namespaced:
        return create_namespaced_resource(group, version, kind, plural)
    return create_global_resource(group, version, kind, plural)
