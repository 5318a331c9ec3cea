"""The engine's pods of the replicas, as the API server describes them, and which of them are judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.arguments import EngineArgs, read_args
from engine.flags import expand
from engine.redact import redact_values
from engine.versions import EngineVersion
from validation.settings import DeclaredEngine

# Labels that Modelplane puts on the pods of a replica, and on the leader of a group of pods.
SERVING_LABEL = "modelplane.ai/serving"
WORKLOAD_LABEL = "modelplane.ai/workload"
ROLE_LABEL = "modelplane.ai/lws-role"
# The container that is the inference server, by Modelplane's contract, and its port.
CONTAINER = "engine"
PORT = 8000
# Workload names are cut to this length before their hash is put behind.
_NAME_LIMIT = 57


@dataclass(frozen=True)
class Pod:
    """One engine pod. restarts: of the engine container; command, args, env: of its spec (env: None for a value that
    comes from elsewhere); ip: "" while it has none; container: identity of the running container, "" when unknown.
    """

    name: str
    namespace: str
    replica: str
    workload: str
    role: str
    phase: str
    terminating: bool
    ip: str
    image: str
    command: tuple[str, ...]
    args: tuple[str, ...]
    restarts: int
    env: Mapping[str, str | None] = field(default_factory=dict)
    container: str = ""

    @property
    def version(self) -> EngineVersion:
        """The engine version that the image's tag names."""
        return EngineVersion.of_image(self.image)

    @property
    def engine_args(self) -> EngineArgs:
        """The args as the engine reads them, without the secrets that they take from its environment."""
        return self.read(self.args, self.version, self.command)

    def read(self, args: Sequence[str], version: EngineVersion, command: Sequence[str] = ()) -> EngineArgs:
        """Args as an engine in this pod reads them: $(NAME) replaced where the spec has a value that is no secret."""
        shown = redact_values(self.env)
        env = {name: value if shown[name] == value else None for name, value in self.env.items()}
        return read_args(expand(args, env), version, command=expand(command, env))

    @property
    def api_key(self) -> str:
        """The key that the engine asks for, "" when there is none or it is not in the spec."""
        args = read_args(expand(self.args, self.env), self.version, command=expand(self.command, self.env))
        return args.value("api-key") or self.env.get("VLLM_API_KEY") or ""

    @property
    def url(self) -> str:
        """Where the engine listens, "" without an address."""
        host = f"[{self.ip}]" if ":" in self.ip else self.ip
        return f"http://{host}:{self.engine_args.number('port') or PORT}" if self.ip else ""


def read_pod(manifest: Mapping[str, Any]) -> Pod:
    """A pod of the API; fields that are missing become empty."""
    metadata, spec, status = (_mapping(manifest.get(part)) for part in ("metadata", "spec", "status"))
    labels = _mapping(metadata.get("labels"))
    container = next((c for c in _items(spec.get("containers")) if c.get("name") == CONTAINER), {})
    state = next((s for s in _items(status.get("containerStatuses")) if s.get("name") == CONTAINER), {})
    restarts, container_id = int(state.get("restartCount") or 0), str(state.get("containerID") or "")
    return Pod(
        name=str(metadata.get("name", "")),
        namespace=str(metadata.get("namespace", "")),
        replica=str(labels.get(SERVING_LABEL, "")),
        workload=str(labels.get(WORKLOAD_LABEL, "")),
        role=str(labels.get(ROLE_LABEL, "")),
        phase=str(status.get("phase", "")),
        terminating=bool(metadata.get("deletionTimestamp")),
        ip=str(status.get("podIP") or ""),
        image=str(container.get("image", "")),
        command=tuple(str(word) for word in container.get("command") or ()),
        args=tuple(str(word) for word in container.get("args") or ()),
        restarts=restarts,
        env={
            str(variable.get("name", "")): None if variable.get("valueFrom") else str(variable.get("value") or "")
            for variable in _items(container.get("env"))
        },
        container=f"{metadata['uid']} {restarts} {container_id}" if metadata.get("uid") and container_id else "",
    )


def selector(replicas: Sequence[str]) -> str:
    """The label selector of all pods of these replicas."""
    return f"{SERVING_LABEL} in ({','.join(replicas)})"


def judged(pods: Sequence[Pod]) -> list[Pod]:
    """The pods that serve: not ending, not finished, and of a group of pods only its leader."""
    alive = [pod for pod in pods if not pod.terminating and pod.phase not in {"Succeeded", "Failed"} and pod.image]
    led = {(pod.replica, pod.workload) for pod in alive if pod.role == "leader"}
    kept = [pod for pod in alive if (pod.replica, pod.workload) not in led or pod.role == "leader"]
    return sorted(kept, key=lambda pod: (pod.replica, pod.name))


def declared_engine(pod: Pod, engines: Sequence[DeclaredEngine]) -> DeclaredEngine:
    """The engine of the recipe that a pod runs: the only one, or the one in the workload's name."""
    stem = pod.workload.rpartition("-")[0]
    named = [engine for engine in engines if stem == f"{pod.replica}-{engine.name}"[:_NAME_LIMIT]]
    return (named or list(engines))[0]


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _items(value: object) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
