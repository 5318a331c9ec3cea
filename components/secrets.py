"""The Secrets that a recipe's engines read, from the configuration."""

from __future__ import annotations

from pulumi import Input, Output

from components.model import ImagePullSecret
from recipes import Recipe
from stacks.contradictions import foreign_pull_secrets, foreign_references, token_references
from stacks.schema import Secrets


def engine_secrets(recipe: Recipe, secrets: Secrets) -> dict[str, dict[str, Input[str]]]:
    """Secret name -> key -> value: the Hugging Face token under every name by which the recipe refers to it."""
    found: dict[str, dict[str, Input[str]]] = {}
    if secrets.hugging_face_token is not None:
        for name, key in token_references(recipe):
            found.setdefault(name, {})[key] = Output.secret(secrets.hugging_face_token)
    return found


def image_pull_secrets(secrets: Secrets) -> dict[str, ImagePullSecret]:
    """Secret name -> registry credentials."""
    return {
        name: ImagePullSecret(entry.registry, entry.username, Output.secret(entry.password))
        for name, entry in secrets.image_pull.items()
    }


def foreign_secrets(recipe: Recipe, secrets: Secrets) -> list[dict[str, str]]:
    """[{name, key}] of the Secrets that the recipe reads and this stack does not make; key "": any."""
    return [
        *({"name": name, "key": key} for name, key in foreign_references(recipe, secrets)),
        *({"name": name, "key": ""} for name in foreign_pull_secrets(recipe, secrets)),
    ]
