"""Inference engines as ModelDeployment and ModelReplica share them: pod template, serving mode, phases, roles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, Protocol

from pydantic import Field

from modelplane.kinds.base import Label63, Model, Rule
from modelplane.kinds.labels import PodMeta

ENGINE_CONTAINER = "engine"
Role = Literal["Standalone", "Leader", "Worker"]
Phase = Literal["Prefill", "Decode"]
Text = Annotated[str, Field(min_length=1)]


class KeyReference(Model):
    """One key of a Secret or ConfigMap in the namespace of the pod."""

    name: str
    key: str
    optional: bool | None = None


class FieldReference(Model):
    """A field of the pod itself, e.g. status.podIP."""

    field_path: str
    api_version: str | None = None


class EnvVarSource(Model):
    """Where the value of a variable comes from."""

    secret_key_ref: KeyReference | None = None
    config_map_key_ref: KeyReference | None = None
    field_ref: FieldReference | None = None


class EnvVar(Model):
    """One environment variable of the engine container."""

    name: str
    value: str | None = None
    value_from: EnvVarSource | None = None


class Container(Model):
    """The engine container; command and args reach the engine verbatim."""

    name: Text
    image: Text
    command: list[str] | None = None
    args: list[str] | None = None
    env: list[EnvVar] | None = None


class ImagePullSecret(Model):
    """A pull secret in namespace `default` of the workload cluster."""

    name: str


class PodSpec(Model):
    """The part of a pod spec that Modelplane passes on: one container, nothing else."""

    containers: Annotated[list[Container], Field(min_length=1, max_length=1)]
    image_pull_secrets: list[ImagePullSecret] | None = None

    RULES = (
        Rule(
            f"the single container must be named {ENGINE_CONTAINER}",
            f"self.containers.exists_one(c, c.name == '{ENGINE_CONTAINER}')",
            lambda s: sum(c.name == ENGINE_CONTAINER for c in s.containers) == 1,
        ),
    )


class PodTemplate(Model):
    """Pod template of a member. Stricter than v0.3.1 in one point: without a spec there is no container to run."""

    metadata: PodMeta | None = None
    spec: PodSpec


class WorkerSettings(Model):
    """Size of a Worker member: one pod on each of `nodes` nodes."""

    nodes: Annotated[int, Field(ge=1, le=63)]


class Serving(Model):
    """How the engines are served: Unified, or prefill and decode on an engine each."""

    mode: Literal["Unified", "PrefillDecode"] = "Unified"


class DeviceSelector(Model):
    """One DRA selector: a CEL expression over a single device."""

    cel: Annotated[str, Field(min_length=1, max_length=10240)]


class BaseMember(Model):
    """What a member is in both kinds; devices and pod template are the subclass's."""

    role: Role = "Standalone"
    worker: WorkerSettings | None = None

    RULES = (
        Rule(
            "worker may only be set on a member with role Worker",
            "!has(self.worker) || self.role == 'Worker'",
            lambda m: m.worker is None or m.role == "Worker",
        ),
    )


class BaseEngine(Model):
    """What an engine is in both kinds; the members are the subclass's."""

    name: Label63
    copies: Annotated[int, Field(ge=1, le=64)] = 1
    phase: Phase | None = None


class ModelCacheReference(Model):
    """A ModelCache in the same namespace."""

    name: Text


class _HasMembers(Protocol):
    @property
    def members(self) -> Sequence[BaseMember]: ...


class _HasEngines(Protocol):
    @property
    def serving(self) -> Serving | None: ...
    @property
    def engines(self) -> Sequence[BaseEngine]: ...


def _roles(engine: _HasMembers) -> list[str]:
    return [member.role for member in engine.members]


ROLES_RULE = Rule(
    "an engine is one Standalone member, or one Leader and one Worker",
    "self.members.map(m, m.role) == ['Standalone'] || (self.members.size() == 2"
    " && self.members.exists(m, m.role == 'Leader') && self.members.exists(m, m.role == 'Worker'))",
    lambda e: _roles(e) == ["Standalone"] or sorted(_roles(e)) == ["Leader", "Worker"],
)


def _split(spec: _HasEngines) -> bool:
    return spec.serving is not None and spec.serving.mode == "PrefillDecode"


# Written as "not split, or ...": an absent serving means Unified.
_UNIFIED = "(!has(self.serving) || self.serving.mode == 'Unified')"


def _one_engine_with(phase: Phase) -> Rule:
    return Rule(
        f"serving.mode PrefillDecode needs exactly one engine with phase {phase}",
        f"{_UNIFIED} || self.engines.filter(e, has(e.phase) && e.phase == '{phase}').size() == 1",
        lambda s: not _split(s) or sum(engine.phase == phase for engine in s.engines) == 1,
    )


PHASE_RULES = (
    Rule(
        "serving.mode PrefillDecode needs exactly two engines",
        f"{_UNIFIED} || self.engines.size() == 2",
        lambda s: not _split(s) or len(s.engines) == 2,
    ),
    _one_engine_with("Prefill"),
    _one_engine_with("Decode"),
    Rule(
        "an engine may have a phase only when serving.mode is PrefillDecode",
        f"!{_UNIFIED} || self.engines.all(e, !has(e.phase))",
        lambda s: _split(s) or all(engine.phase is None for engine in s.engines),
    ),
)
