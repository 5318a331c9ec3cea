"""What a recipe says, read once from its typed manifests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.arguments import EngineArgs, read_args
from engine.findings import Finding
from engine.versions import EngineVersion
from modelplane.kinds import ModelDeployment, ModelService
from modelplane.kinds.engines import Container
from modelplane.kinds.model_deployment import DeviceRequest, Member

# Where Modelplane v0.3.1 mounts a ModelCache; it adds --model with this path when the engine's args name no model.
_CACHE_PATH = "/mnt/models"


@dataclass(frozen=True)
class Engine:
    """One engine container; path: its property path; env: name -> value, None when it comes from elsewhere."""

    name: str
    role: str
    path: str
    image: str
    command: tuple[str, ...]
    args: tuple[str, ...]
    env: Mapping[str, str | None]

    def read(self) -> EngineArgs:
        """The args as vLLM of this image reads them."""
        return read_args(self.args, EngineVersion.of_image(self.image), command=self.command)


@dataclass(frozen=True)
class Recipe:
    """One ModelDeployment with the ModelService that exposes it, in the form of v0.3.1 and fit to be deployed."""

    path: Path
    deployment: ModelDeployment
    service: ModelService
    findings: tuple[Finding, ...] = ()

    @property
    def name(self) -> str:
        """File name without suffix."""
        return self.path.stem

    @property
    def manifests(self) -> tuple[dict[str, Any], ...]:
        """What to apply to the control plane, in order."""
        return (self.deployment.to_manifest(), self.service.to_manifest())

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Namespaces of the control plane that must exist."""
        return tuple(dict.fromkeys((self.deployment.namespace, self.service.namespace)))

    @property
    def engines(self) -> tuple[Engine, ...]:
        """Every engine container, in the order of the file."""
        return tuple(engine for engine, _ in engines_of(self.deployment))

    @property
    def device_requests(self) -> tuple[DeviceRequest, ...]:
        """Every device request of every member."""
        return tuple(request for _, request in device_requests_of(self.deployment))

    @property
    def selectors(self) -> tuple[str, ...]:
        """Every CEL expression that a device must satisfy."""
        return tuple(selector.cel for request in self.device_requests for selector in request.selectors)

    @property
    def model_name(self) -> str:
        """What clients send as `model`: Modelplane neither rewrites nor checks it."""
        return model_name_of(self.deployment)

    @property
    def declares_speculation(self) -> bool:
        """Whether an engine's args ask for speculation."""
        return any(engine.read().declares_speculation for engine in self.engines)


def members_of(deployment: ModelDeployment) -> Iterator[tuple[str, Member]]:
    """(property path, member) of every member."""
    for engine_index, engine in enumerate(deployment.spec.template.spec.engines):
        for member_index, member in enumerate(engine.members):
            yield f"spec.template.spec.engines[{engine_index}].members[{member_index}]", member


def engines_of(deployment: ModelDeployment) -> Iterator[tuple[Engine, Container]]:
    """Every engine container, as read and as typed."""
    names = {id(member): engine.name for engine in deployment.spec.template.spec.engines for member in engine.members}
    for path, member in members_of(deployment):
        for index, container in enumerate(member.template.spec.containers):
            env = {
                variable.name: None if variable.value_from else variable.value or "" for variable in container.env or []
            }
            yield (
                Engine(
                    name=names[id(member)],
                    role=member.role,
                    path=f"{path}.template.spec.containers[{index}]",
                    image=container.image,
                    command=tuple(container.command or ()),
                    args=tuple(container.args or ()),
                    env=env,
                ),
                container,
            )


def device_requests_of(deployment: ModelDeployment) -> Iterator[tuple[str, DeviceRequest]]:
    """(property path, device request) of every member."""
    for path, member in members_of(deployment):
        devices = member.node_selector.devices if member.node_selector else []
        for index, request in enumerate(devices):
            yield f"{path}.nodeSelector.devices[{index}]", request


def model_name_of(deployment: ModelDeployment) -> str:
    """The served name of the first engine that names one; "" when none does."""
    for engine, _ in engines_of(deployment):
        name = engine.read().client_model
        if name:
            return name
    return _CACHE_PATH if deployment.spec.template.spec.model_cache_ref else ""
