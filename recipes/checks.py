"""What can be known about a recipe before anything is deployed, beyond its types and its engine's own rules."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from engine.findings import Finding, Severity
from engine.rules import check_engine
from modelplane import names
from modelplane.cel import selector_problem
from modelplane.kinds import ModelDeployment, ModelService, Resource
from modelplane.kinds.labels import is_dns_label
from recipes.recipe import Engine, device_requests_of, engines_of, members_of, model_name_of

# The longest derived Service name is <deployment>-<5 hex>-epp (the endpoint picker), and a Service name has at most 63
# characters and begins with a letter.
_NAME_LIMIT = 63 - len("-54ef8-epp")
_SERVICE_NAME = re.compile("[a-z]([-a-z0-9]*[a-z0-9])?")
# Modelplane v0.3.1 probes and routes to this port whatever the args say.
_ENGINE_PORT = 8000
_SELECTOR_REMEDY = 'correct it, such as device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("20Gi")) >= 0'
_ANY_ADDRESS = ("0.0.0.0", "::", "")
_SECRET_VARIABLES = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")


def check_deployment(deployment: ModelDeployment) -> Iterator[Finding]:
    """Findings about a deployment; paths are relative to the object."""
    yield from _check_name(deployment)
    for index, unit in enumerate(deployment.spec.template.spec.engines):
        if not is_dns_label(unit.name):
            why = "is no DNS label (lower case letters, digits, hyphens); it becomes part of workload names"
            yield Finding.error(
                f"spec.template.spec.engines[{index}].name", unit.name, why, "rename it, such as qwen3-8b"
            )
    for path, request in device_requests_of(deployment):
        for index, selector in enumerate(request.selectors):
            problem = selector_problem(selector.cel)
            if problem:
                yield Finding.error(f"{path}.selectors[{index}].cel", selector.cel.strip(), problem, _SELECTOR_REMEDY)
    for engine, _ in engines_of(deployment):
        yield from _check_engine(engine)
    if not model_name_of(deployment):
        first = next(engine for engine, _ in engines_of(deployment))
        why = "no engine names its model: vLLM would serve its own default, and no request could name it"
        yield Finding.error(f"{first.path}.args: --model", None, why, "add --model=ORGANISATION/NAME")
    yield from _check_needs(deployment)


def check_pair(deployment: ModelDeployment, service: ModelService) -> Iterator[Finding]:
    """Findings about a service as the one that exposes the deployment; paths are relative to the service."""
    if service.metadata.name == "vllm":
        why = (
            "a Service of this name makes Kubernetes set VLLM_PORT to an address in the pods beside it, "
            "and vLLM does not start with that (vLLM issue 34199)"
        )
        yield Finding.error("metadata.name", "vllm", why, "choose another name")
    if service.namespace != deployment.namespace:
        why = f"the deployment is in {deployment.namespace}; a route reaches endpoints of its own namespace only"
        yield Finding.error("metadata.namespace", service.namespace, why, "put both into one namespace")
    if not deployment.metadata.name:
        return  # what its endpoints will carry is not known
    selected = []
    for index, group in enumerate(service.spec.endpoints):
        path, labels = f"spec.endpoints[{index}].selector.matchLabels", group.selector.match_labels
        difference = _difference(labels, deployment)
        selected.append(difference is None)
        if difference is not None:
            why = f"selects no endpoint of this deployment: {difference}"
            say = Finding.warning if len(service.spec.endpoints) > 1 else Finding.error
            yield say(path, _shown(labels), why, f"use {names.DEPLOYMENT_LABEL}: {deployment.name}")
        elif names.DEPLOYMENT_LABEL not in labels:
            why = "may also select endpoints of other deployments"
            yield Finding.warning(path, _shown(labels), why, f"add {names.DEPLOYMENT_LABEL}: {deployment.name}")
    if len(selected) > 1 and not any(selected):
        why = "no entry selects an endpoint of this deployment"
        yield Finding.error("spec.endpoints", None, why, f"use {names.DEPLOYMENT_LABEL}: {deployment.name}")


def check_contents(objects: Iterable[Resource], foreign: Iterable[Mapping[str, object]]) -> Iterator[Finding]:
    """Findings about what a recipe's file holds beside its deployment and service; paths are whole."""
    kinds = [found.kind for found in objects]
    deployments, services = kinds.count("ModelDeployment"), kinds.count("ModelService")
    if deployments != 1:
        yield Finding.error(
            "recipe", None, f"has {deployments} ModelDeployments; a recipe deploys exactly one", "keep one a file"
        )
    if services > 1:
        yield Finding.error("recipe", None, f"has {services} ModelServices; a recipe has at most one", "keep one")
    others = [kind for kind in kinds if kind not in ("ModelDeployment", "ModelService")]
    others += [str(document.get("kind")) for document in foreign]
    for kind in dict.fromkeys(others):
        if kind == "Namespace":
            why = "is left out: namespaces are made as the deployment needs them"
            yield Finding(Severity.INFO, "recipe", kind, why)
        else:
            why = "is not applied with a recipe, which holds one ModelDeployment and its ModelService"
            yield Finding.error("recipe", kind, why, "apply it to its cluster yourself and remove it here")


def _check_name(deployment: ModelDeployment) -> Iterator[Finding]:
    name = deployment.metadata.name
    if not name:
        yield Finding.error("metadata.name", None, "is required", "add it")
    elif not _SERVICE_NAME.fullmatch(name):
        why = "begins the names of Services, which are lower case letters, digits and hyphens and begin with a letter"
        yield Finding.error("metadata.name", name, why, "rename it")
    elif len(name) > _NAME_LIMIT:
        why = f"is longer than {_NAME_LIMIT} characters; with Modelplane's suffixes it exceeds the 63 of a Service name"
        yield Finding.error("metadata.name", name, why, "shorten it")
    elif name.split("-")[0] == "vllm":
        why = "Kubernetes turns it into VLLM_* variables of the engine pods, which vLLM reports as unknown"
        yield Finding.warning("metadata.name", name, why, "choose a name that does not begin with vllm")


def _check_engine(engine: Engine) -> Iterator[Finding]:
    for finding in check_engine(engine.image, engine.args, engine.env, command=engine.command):
        yield replace(finding, path=_engine_path(engine, finding.path))
    read = engine.read()
    port, host = read.number("port"), read.value("host")
    if port is not None and port != _ENGINE_PORT:
        why = f"Modelplane probes and routes to port {_ENGINE_PORT}, so the engine would never be ready"
        yield Finding.error(_engine_path(engine, "args.--port"), port, why, "remove it")
    if host is not None and host not in _ANY_ADDRESS:
        why = "the readiness probe and the gateway reach the engine at the pod's address"
        yield Finding.error(_engine_path(engine, "args.--host"), host, why, "remove it")
    for flag in ("ssl-keyfile", "ssl-certfile", "uds"):
        if flag in read.flags:
            why = f"Modelplane probes and routes plain HTTP on port {_ENGINE_PORT}, so the engine would never be ready"
            yield Finding.error(_engine_path(engine, f"args.--{flag}"), None, why, "remove it")
    for path, asked in (
        ("args.--api-key", "api-key" in read.flags),
        ("env.VLLM_API_KEY", "VLLM_API_KEY" in engine.env),
    ):
        if asked:
            why = "the stack and its validation send no key, so `up` would wait for an answer that it never gets"
            yield Finding.error(
                _engine_path(engine, path), "***", why, "remove it, and put the key into a gateway in front"
            )
    for name in _SECRET_VARIABLES:
        if engine.env.get(name):
            why = "stands in the manifest in the clear"
            yield Finding.warning(
                _engine_path(engine, f"env.{name}"), "***", why, "take it from a Secret: valueFrom.secretKeyRef"
            )


def _engine_path(engine: Engine, path: str) -> str:
    """A path of engine.rules below the container that it is about."""
    head, _, rest = path.partition(".")
    if head == "speculative_config":
        return f"{engine.path}.args: --speculative-config" + (f": {rest}" if rest else "")
    if head in ("args", "env") and rest:
        return f"{engine.path}.{head}: {rest}"
    return f"{engine.path}.{path}"


def _check_needs(deployment: ModelDeployment) -> Iterator[Finding]:
    """Objects that must exist elsewhere."""
    cache = deployment.spec.template.spec.model_cache_ref
    if cache:
        why = "a ModelCache of this name must exist in the deployment's namespace; a recipe does not make it"
        yield Finding.warning("spec.template.spec.modelCacheRef.name", cache.name, why)
    for path, member in members_of(deployment):
        for index, secret in enumerate(member.template.spec.image_pull_secrets or []):
            why = f"is read in namespace {names.ENGINE_NAMESPACE} of the workload cluster"
            yield Finding(Severity.INFO, f"{path}.template.spec.imagePullSecrets[{index}].name", secret.name, why)
    for engine, container in engines_of(deployment):
        for index, variable in enumerate(container.env or []):
            source = variable.value_from
            for reference, kind in (
                ((source.secret_key_ref, "Secret"), (source.config_map_key_ref, "ConfigMap")) if source else ()
            ):
                if reference:
                    why = (
                        f"{kind} {reference.name} is read in namespace {names.ENGINE_NAMESPACE} of the workload cluster"
                    )
                    yield Finding(Severity.INFO, f"{engine.path}.env[{index}]", variable.name, why)


def _difference(labels: Mapping[str, str], deployment: ModelDeployment) -> str | None:
    """Why a ModelEndpoint of the deployment does not carry these labels; None when it can."""
    metadata = deployment.spec.template.metadata
    known = {**((metadata.labels if metadata else None) or {}), names.DEPLOYMENT_LABEL: deployment.name}
    for key, value in labels.items():
        if key == names.CLUSTER_LABEL:
            continue  # set by the scheduler
        if key == names.REPLICA_INDEX_LABEL:
            if value not in {str(index) for index in range(deployment.spec.replicas)}:
                return f"there is no replica {value}"
        elif known.get(key) != value:
            return f"they carry {key}={known[key]}" if key in known else f"they do not carry {key}"
    return None


def _shown(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in labels.items()) or "{}"
