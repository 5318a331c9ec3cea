"""What a recipe and the rest of the configuration, or two keys of it, say against each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from engine.findings import Finding
from modelplane.cel import matches
from stacks import gpu
from stacks.schema import Platform, Secrets, ValidationSection

if TYPE_CHECKING:
    from modelplane.kinds.engines import EnvVar
    from modelplane.kinds.model_deployment import Member
    from recipes import Recipe

# The names under which Hugging Face's library looks for a token.
TOKEN_VARIABLES = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")


def recipe_findings(recipe: Recipe, platform: Platform, secrets: Secrets) -> list[Finding]:
    """Contradictions between the recipe, the node pool, its GPUs and the secrets."""
    return [
        *_capacity(recipe, platform),
        *_devices(recipe),
        *_token(recipe, secrets),
        *_image_pull(recipe, secrets),
    ]


def schedule_findings(validation: ValidationSection) -> list[Finding]:
    """A schedule of what is switched off."""
    if validation.enabled or validation.schedule is None:
        return []
    path, why = "speculation:validation.schedule", "speculation:validation.enabled is false, so there is nothing to run"
    return [Finding.error(path, validation.schedule, why, "remove one of the two")]


def token_references(recipe: Recipe) -> list[tuple[str, str]]:
    """(Secret name, key) from which the recipe's engines take their Hugging Face token."""
    return sorted({reference for variable, reference in _secret_references(recipe) if variable in TOKEN_VARIABLES})


def foreign_references(recipe: Recipe, secrets: Secrets) -> list[tuple[str, str]]:
    """(Secret name, key) that the recipe's engines read and this stack does not make."""
    made = set(token_references(recipe)) if secrets.hugging_face_token is not None else set()
    return sorted({reference for _, reference in _secret_references(recipe)} - made)


def foreign_pull_secrets(recipe: Recipe, secrets: Secrets) -> list[str]:
    """Names of the image pull Secrets that the recipe names and this stack does not make."""
    return sorted(_pull_secrets(recipe) - set(secrets.image_pull))


def nodes_needed(recipe: Recipe) -> int:
    """Whole nodes that the recipe takes: Modelplane v0.3.1 counts one for each pod."""
    spec = recipe.deployment.spec
    pods = sum(
        engine.copies * sum(member.worker.nodes if member.worker else 1 for member in engine.members)
        for engine in spec.template.spec.engines
    )
    return spec.replicas * pods


def _capacity(recipe: Recipe, platform: Platform) -> Iterator[Finding]:
    needed, given = nodes_needed(recipe), platform.node_pool.node_count
    if needed > given:
        why = f"recipe {recipe.deployment.name} needs {needed} nodes: Modelplane gives each engine pod one of its own"
        remedy = f"add GPU nodes and set it to {needed}, or lower the recipe's replicas"
        yield Finding.error("speculation:platform.nodePool.nodeCount", given, why, remedy)


def _devices(recipe: Recipe) -> Iterator[Finding]:
    """Modelplane evaluates the selectors against the declared device before Kubernetes does against the real one."""
    for request in recipe.device_requests:
        expressions = [selector.cel for selector in request.selectors]
        text = " && ".join(expression.strip() for expression in expressions)
        path = f"recipe {recipe.name}: device request {request.name}"
        if not matches(expressions, gpu.DRIVER, gpu.ATTRIBUTES, gpu.CAPACITY):
            why = f"no GPU of this stack satisfies it: a node has one {gpu.PRODUCT} with {gpu.MEMORY} of memory"
            yield Finding.error(path, text, why, "change the selector in the recipe")
        elif request.count > gpu.DEVICES_PER_NODE:
            why = f"a node of this stack has {gpu.DEVICES_PER_NODE} {gpu.PRODUCT}"
            yield Finding.error(f"{path}.count", request.count, why, "lower it in the recipe")


def _token(recipe: Recipe, secrets: Secrets) -> Iterator[Finding]:
    references = token_references(recipe)
    if secrets.hugging_face_token is not None and not references:
        why = (
            f"recipe {recipe.deployment.name} has no env {TOKEN_VARIABLES[0]} from a "
            "secretKeyRef, so no engine would read it"
        )
        remedy = "add the variable to the recipe's container, or remove the token"
        yield Finding.error("speculation:secrets.huggingFaceToken", None, why, remedy)
    for name, key in foreign_references(recipe, secrets):
        hint = " or set speculation:secrets.huggingFaceToken" if (name, key) in references else ""
        remedy = f"make it in namespace default of the workload cluster{hint}"
        why = "an engine of the recipe reads it, and this stack does not make it"
        yield Finding.warning(f"recipe Secret {name}, key {key}", None, why, remedy)


def _image_pull(recipe: Recipe, secrets: Secrets) -> Iterator[Finding]:
    named = _pull_secrets(recipe)
    for name in sorted(set(secrets.image_pull) - named):
        known = ", ".join(sorted(named)) or "none"
        why = f"recipe {recipe.deployment.name} names no such imagePullSecrets entry (it names: {known})"
        yield Finding.error(
            f"speculation:secrets.imagePull.{name}",
            None,
            why,
            "correct the name, or add it to the recipe",
        )
    for name in foreign_pull_secrets(recipe, secrets):
        why = "the recipe pulls its image with it, and this stack does not make it"
        remedy = f"make it in namespace default of the workload cluster, or set speculation:secrets.imagePull.{name}"
        yield Finding.warning(f"recipe imagePullSecrets {name}", None, why, remedy)


def _pull_secrets(recipe: Recipe) -> set[str]:
    return {entry.name for member in _members(recipe) for entry in member.template.spec.image_pull_secrets or []}


def _secret_references(recipe: Recipe) -> Iterator[tuple[str, tuple[str, str]]]:
    """(variable, (Secret name, key)) of each required secretKeyRef."""
    for variable in _environment(recipe):
        source = variable.value_from
        if source is not None and source.secret_key_ref is not None and not source.secret_key_ref.optional:
            yield variable.name, (source.secret_key_ref.name, source.secret_key_ref.key)


def _environment(recipe: Recipe) -> Iterable[EnvVar]:
    for member in _members(recipe):
        for container in member.template.spec.containers:
            yield from container.env or []


def _members(recipe: Recipe) -> Iterable[Member]:
    for engine in recipe.deployment.spec.template.spec.engines:
        yield from engine.members
