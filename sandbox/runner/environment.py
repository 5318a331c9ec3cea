"""The environment of a container and its command line, as a kubelet computes them. Pure: input is fetched before."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from lightkube.models.core_v1 import ConfigMap, Container, EnvVarSource, Pod, Secret, Service

T = TypeVar("T")
_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")
_MAP_FIELD = re.compile(r"^metadata\.(labels|annotations)\['(.+)'\]$")


class ConfigError(Exception):
    """Why a container cannot be configured; the text is what a kubelet puts beside CreateContainerConfigError."""


@dataclass(frozen=True)
class Objects:
    """The ConfigMaps and Secrets of a pod's namespace that it refers to; None: there is none of that name."""

    config_maps: Mapping[str, ConfigMap | None] = field(default_factory=dict)
    secrets: Mapping[str, Secret | None] = field(default_factory=dict)

    def config_map(self, name: str) -> dict[str, str] | None:
        found = self.config_maps.get(name)
        return None if found is None else dict(found.data or {})

    def secret(self, name: str) -> dict[str, bytes] | None:
        found = self.secrets.get(name)
        return None if found is None else {key: base64.b64decode(text) for key, text in (found.data or {}).items()}


@dataclass(frozen=True)
class Addresses:
    """Where a pod and its node are."""

    pod_ip: str
    host_ip: str


def expand(text: str, *variables: Mapping[str, str]) -> str:
    """Replace `$(NAME)` by the first mapping that has it; `$$` is a dollar sign, an unknown name stays as it is."""

    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        if name is None:
            return "$"
        return next((mapping[name] for mapping in variables if name in mapping), match.group(0))

    return _REFERENCE.sub(value, text)


def references(container: Container) -> tuple[set[str], set[str]]:
    """Names of the ConfigMaps and of the Secrets that a container's environment reads."""
    config_maps, secrets = set(), set()
    for source in container.envFrom or []:
        if source.configMapRef:
            config_maps.add(source.configMapRef.name or "")
        if source.secretRef:
            secrets.add(source.secretRef.name or "")
    for variable in container.env or []:
        if variable.valueFrom and variable.valueFrom.configMapKeyRef:
            config_maps.add(variable.valueFrom.configMapKeyRef.name or "")
        if variable.valueFrom and variable.valueFrom.secretKeyRef:
            secrets.add(variable.valueFrom.secretKeyRef.name or "")
    return config_maps, secrets


def environment(
    pod: Pod, container: Container, objects: Objects, services: Mapping[str, str], addresses: Addresses
) -> dict[str, str]:
    """The declared variables and those of the Services (a declared one of the same name wins). ConfigError."""
    env = _env_from(container, objects)
    namespace = _namespace(pod)
    for variable in container.env or []:
        if variable.value:
            env[variable.name] = expand(variable.value, env, services)
        elif variable.valueFrom:
            value = _from_source(pod, namespace, variable.valueFrom, objects, addresses)
            if value is not None:
                env[variable.name] = value
        else:
            env[variable.name] = ""
    return {**services, **env}


def _env_from(container: Container, objects: Objects) -> dict[str, str]:
    env: dict[str, str] = {}
    for source in container.envFrom or []:
        prefix = source.prefix or ""
        if source.configMapRef:
            name, optional = source.configMapRef.name or "", source.configMapRef.optional
            data = _present(objects.config_map(name), "configmap", name, optional=bool(optional))
            env |= {prefix + key: value for key, value in data.items()}
        elif source.secretRef:
            name, optional = source.secretRef.name or "", source.secretRef.optional
            raw = _present(objects.secret(name), "secret", name, optional=bool(optional))
            env |= {prefix + key: value.decode(errors="surrogateescape") for key, value in raw.items()}
    return env


def _present(found: dict[str, T] | None, kind: str, name: str, *, optional: bool) -> dict[str, T]:
    if found is None:
        if not optional:
            raise ConfigError(f'{kind} "{name}" not found')
        return {}
    return found


def _from_source(pod: Pod, namespace: str, source: EnvVarSource, objects: Objects, addresses: Addresses) -> str | None:
    """None: optional and absent, the variable is left out."""
    if source.fieldRef:
        return field_value(pod, source.fieldRef.fieldPath, addresses)
    if source.configMapKeyRef:
        reference = source.configMapKeyRef
        name, optional = reference.name or "", bool(reference.optional)
        data = _present(objects.config_map(name), "configmap", name, optional=optional)
        return _key(data, reference.key, f"ConfigMap {namespace}/{name}", optional=optional)
    if source.secretKeyRef:
        secret = source.secretKeyRef
        name, optional = secret.name or "", bool(secret.optional)
        raw = _present(objects.secret(name), "secret", name, optional=optional)
        value = _key(raw, secret.key, f"Secret {namespace}/{name}", optional=optional)
        return None if value is None else value.decode(errors="surrogateescape")
    raise ConfigError("resourceFieldRef and fileKeyRef are not supported by the sandbox's pod runner")


def _key(data: Mapping[str, T], key: str, where: str, *, optional: bool) -> T | None:
    if key not in data and not optional:
        raise ConfigError(f"couldn't find key {key} in {where}")
    return data.get(key)


def field_value(pod: Pod, path: str, addresses: Addresses) -> str:
    """Value of a downward API field. ConfigError for a field that a kubelet does not know either."""
    metadata, spec = pod.metadata, pod.spec
    assert metadata is not None and spec is not None
    simple = {
        "metadata.name": metadata.name,
        "metadata.namespace": metadata.namespace,
        "metadata.uid": metadata.uid,
        "spec.nodeName": spec.nodeName,
        "spec.serviceAccountName": spec.serviceAccountName,
        "status.podIP": addresses.pod_ip,
        "status.podIPs": addresses.pod_ip,
        "status.hostIP": addresses.host_ip,
        "status.hostIPs": addresses.host_ip,
    }
    if path in simple:
        return simple[path] or ""
    if path in ("metadata.labels", "metadata.annotations"):
        return "\n".join(f'{key}="{_go_quoted(value)}"' for key, value in sorted(_map(pod, path[9:]).items()))
    if match := _MAP_FIELD.match(path):
        return _map(pod, match.group(1)).get(match.group(2), "")
    raise ConfigError(f"unsupported fieldPath: {path}")


def _map(pod: Pod, kind: str) -> dict[str, str]:
    assert pod.metadata is not None
    return dict((pod.metadata.labels if kind == "labels" else pod.metadata.annotations) or {})


def _go_quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")


def service_variables(services: Iterable[Service]) -> dict[str, str]:
    """`<NAME>_SERVICE_HOST`, `<NAME>_PORT=tcp://...` and what else each Service with a cluster IP adds to a container.

    This is how a Service named `vllm` sets VLLM_PORT, which vLLM refuses.
    """
    env: dict[str, str] = {}
    for service in services:
        spec, metadata = service.spec, service.metadata
        if metadata is None or spec is None or spec.clusterIP in (None, "", "None") or not spec.ports:
            continue
        name = _variable_name(metadata.name or "")
        host = spec.clusterIP or ""
        env[f"{name}_SERVICE_HOST"] = host
        env[f"{name}_SERVICE_PORT"] = str(spec.ports[0].port)
        for port in spec.ports:
            if port.name:
                env[f"{name}_SERVICE_PORT_{_variable_name(port.name)}"] = str(port.port)
        for index, port in enumerate(spec.ports):
            protocol = port.protocol or "TCP"
            url = f"{protocol.lower()}://{host}:{port.port}"
            prefix = f"{name}_PORT_{port.port}_{protocol.upper()}"
            if index == 0:
                env[f"{name}_PORT"] = url
            env[prefix] = url
            env |= {f"{prefix}_PROTO": protocol.lower(), f"{prefix}_PORT": str(port.port), f"{prefix}_ADDR": host}
    return env


def _variable_name(name: str) -> str:
    return name.replace("-", "_").upper()


def command_line(
    container: Container, entrypoint: Sequence[str], default_args: Sequence[str], env: Mapping[str, str]
) -> list[str]:
    """`command` replaces the image's entrypoint and default arguments, `args` the latter; `$(NAME)` is expanded."""
    if container.command:
        words = [*container.command, *(container.args or [])]
    else:
        words = [*entrypoint, *(container.args or default_args)]
    declared = len(container.command or []) + len(container.args or [])
    own = len(words) - declared
    return [*words[:own], *(expand(word, env) for word in words[own:])]


def _namespace(pod: Pod) -> str:
    assert pod.metadata is not None
    return pod.metadata.namespace or "default"
