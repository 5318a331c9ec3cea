"""What one pod reads from its cluster: ConfigMaps, Secrets, tokens, its containers' environment, its claims."""

from __future__ import annotations

import time
from collections.abc import Mapping

from lightkube.models.core_v1 import ConfigMap, Container, Secret
from lightkube.resources.core_v1 import Pod

from sandbox.runner.api import Api
from sandbox.runner.environment import Addresses, Objects, environment, references, service_variables

# A token is renewed when this part of its life is over (kubelet's rule).
_TOKEN_USED = 0.8


class PodContent:
    """Reads for one pod. Failures of the API server pass through."""

    def __init__(self, api: Api, pod: Pod) -> None:
        assert pod.metadata is not None and pod.spec is not None
        self._api, self._pod, self._spec = api, pod, pod.spec
        self._namespace, self._name = pod.metadata.namespace or "default", pod.metadata.name
        self._tokens: dict[tuple[str | None, int], tuple[str, float]] = {}

    async def config_map(self, name: str) -> ConfigMap | None:
        return await self._api.config_map(self._namespace, name)

    async def secret(self, name: str) -> Secret | None:
        return await self._api.secret(self._namespace, name)

    async def token(self, audience: str | None, seconds: int) -> str:
        """The pod's token; the same one until it is due for renewal."""
        text, renew = self._tokens.get((audience, seconds), ("", 0.0))
        if time.time() >= renew:
            text = await self._api.token(self._pod, audience, seconds)
            self._tokens[audience, seconds] = (text, time.time() + _TOKEN_USED * seconds)
        return text

    async def environment(self, pod: Pod, container: Container, addresses: Addresses) -> Mapping[str, str]:
        """What the pod and the cluster's Services add to the image's own environment. ConfigError."""
        config_maps, secrets = references(container)
        objects = Objects(
            {name: await self.config_map(name) for name in sorted(config_maps)},
            {name: await self.secret(name) for name in sorted(secrets)},
        )
        links = self._spec.enableServiceLinks is not False
        services = service_variables(await self._api.services(self._namespace, links=links))
        return environment(pod, container, objects, services, addresses)

    async def unready_claim(self, pod: Pod) -> str:
        """Why a resource claim does not let the pod run; "" when the scheduler allocated and reserved all of them."""
        assert pod.metadata is not None
        status = pod.status
        generated = {
            item.name: item.resourceClaimName for item in (status.resourceClaimStatuses if status else None) or []
        }
        for item in self._spec.resourceClaims or []:
            name = item.resourceClaimName or generated.get(item.name)
            if not name:
                if item.name in generated:
                    continue  # the template's claim was not needed
                return f"pod {self._namespace}/{self._name}: claim {item.name} has no ResourceClaim yet"
            claim = await self._api.claim(self._namespace, name)
            if claim is None:
                return f'resourceclaims.resource.k8s.io "{name}" not found'
            if claim.status is None or claim.status.allocation is None:
                return f"ResourceClaim {name}: not allocated"
            if pod.metadata.uid not in {consumer.uid for consumer in claim.status.reservedFor or []}:
                return f"ResourceClaim {name}: not reserved for pod {self._name}"
        return ""
