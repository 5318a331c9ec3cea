"""The configuration of a stack, read once into frozen values; everything that is wrong with it is reported at once, a
line each.

`python -m stacks.settings > docs/configuration.md` writes the reference of all keys.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from engine.findings import Finding, Problems, errors
from stacks.contradictions import recipe_findings, schedule_findings
from stacks.kubeconfig import Kubeconfig, read_kubeconfig, read_kubeconfig_file, self_contained
from stacks.problems import section_findings, unknown_key
from stacks.schema import (
    SECTIONS,
    TEXT_KEYS,
    ClusterAccess,
    Existing,
    Monitoring,
    Platform,
    Secrets,
    Section,
    Target,
    Timeouts,
    ValidationSection,
)

if TYPE_CHECKING:
    from recipes import Recipe

NAMESPACE = "speculation"
ROOT = Path(__file__).resolve().parent.parent
S = TypeVar("S", bound=Section)
TARGETS: dict[str, Target] = {"existing": "existing"}


@dataclass(frozen=True)
class Settings:
    """A stack's configuration, complete and free of contradictions.

    control_plane, workload: of target `existing`; warnings: what does not stop the deployment but should be said.
    """

    target: Target
    control_plane: Kubeconfig
    workload: Kubeconfig
    recipe: Recipe
    platform: Platform
    secrets: Secrets
    validation: ValidationSection
    monitoring: Monitoring
    timeouts: Timeouts
    warnings: tuple[Finding, ...]


def load_settings() -> Settings:
    """The settings of the running Pulumi program. Raises Problems."""
    from pulumi.runtime import config  # noqa: PLC0415 - the reference and the tests need no Pulumi

    values = {**config.get_config_env(), **config.CONFIG.get()}
    encrypted = {key for key in values if config.is_config_secret(key)} | set(config.get_config_secret_keys_env())
    return parse_settings(values, encrypted)


def parse_settings(values: Mapping[str, Any], encrypted: Collection[str] = (), root: Path = ROOT) -> Settings:
    """values: every config key of the stack with its text (an object as JSON); encrypted: keys stored as secrets;
    root: the project.

    Raises Problems with all errors.
    """
    own = {key.split(":", 1)[1]: value for key, value in values.items() if key.startswith(f"{NAMESPACE}:")}
    secret = {key.split(":", 1)[1] for key in encrypted if key.startswith(f"{NAMESPACE}:")}
    reader = _Reader(own, secret, root)
    target = reader.target()
    existing = reader.section("existing", Existing) if target == "existing" or "existing" in own else None
    platform = reader.section("platform", Platform)
    secrets = reader.section("secrets", Secrets)
    validation = reader.section("validation", ValidationSection)
    monitoring = reader.section("monitoring", Monitoring)
    timeouts = reader.section("timeouts", Timeouts)
    control_plane = reader.kubeconfig("controlPlane", existing.control_plane) if existing else None
    workload = reader.kubeconfig("workload", existing.workload) if existing else None
    if workload is not None:
        reader.findings += self_contained(workload, reader.path("existing.workload"))
    recipe = reader.recipe()
    if recipe is not None and platform is not None and secrets is not None:
        reader.findings += recipe_findings(recipe, platform, secrets)
    if validation is not None:
        reader.findings += schedule_findings(validation)
    reader.unknown_keys()
    reader.plain_secrets(existing, secrets)
    if errors(reader.findings):
        raise Problems(errors(reader.findings))
    found = (target, control_plane, workload, recipe, platform, secrets, validation, monitoring, timeouts)
    if None in found:  # each None has added its finding above
        raise AssertionError(f"a part of the configuration is missing without a finding: {found}")
    return Settings(*found, warnings=tuple(reader.findings))  # type: ignore[arg-type]


class _Reader:
    """Reads the keys one by one and collects what is wrong with them."""

    def __init__(self, values: Mapping[str, Any], encrypted: Collection[str], root: Path) -> None:
        self._values = values
        self._encrypted = encrypted
        self._root = root
        self.findings: list[Finding] = []

    def path(self, key: str) -> str:
        return f"{NAMESPACE}:{key}"

    def target(self) -> Target | None:
        value = self._text("target")
        if value is not None and value not in TARGETS:
            self._error(
                "target", self._shown("target", value), "is not a target of this stack", f"use {', '.join(TARGETS)}"
            )
            return None
        return TARGETS[value] if value is not None else None

    def recipe(self) -> Recipe | None:
        from recipes import load_recipe  # noqa: PLC0415 - only this needs Modelplane's kinds

        name = self._text("recipe")
        if name is None:
            return None
        file = self._root / name
        try:
            recipe: Recipe = load_recipe(str(file) if file.is_file() else name)
        except Problems as problems:
            # A file that cannot be read is this key's fault; what is wrong inside has its own path.
            own = self.path("recipe")
            self.findings += [replace(f, path=own) if f.path == "recipe" else f for f in problems.findings]
            return None
        self.findings += recipe.findings
        return recipe if not errors(recipe.findings) else None

    def section(self, key: str, model: type[S]) -> S | None:
        value = self._values.get(key)
        if value is None and any(field.is_required() for field in model.model_fields.values()):
            self._error(
                key, None, "is missing", f"target existing needs it: set {self.path(key)} in Pulumi.<stack>.yaml"
            )
            return None
        try:
            document = {} if value is None else json.loads(value) if isinstance(value, str) else value
        except ValueError:
            document = value
        if not isinstance(document, dict):
            remedy = f"set its keys with `pulumi config set --path {self.path(key)}.KEY VALUE`"
            self._error(key, None, "must be an object", remedy)
            return None
        try:
            return model.model_validate(document)
        except ValidationError as error:
            self.findings += section_findings(self.path(key), model, error, encrypted=key in self._encrypted)
            return None

    def kubeconfig(self, which: str, access: ClusterAccess) -> Kubeconfig | None:
        key = f"existing.{which}"
        if (access.kubeconfig is None) == (access.kubeconfig_file is None):
            given = (
                "both kubeconfig and kubeconfigFile" if access.kubeconfig else "neither kubeconfig nor kubeconfigFile"
            )
            self._error(key, None, f"has {given}", "give one of them")
            return None
        if access.kubeconfig is not None:
            found = read_kubeconfig(access.kubeconfig, access.context, self.path(f"{key}.kubeconfig"))
        else:
            name, path = str(access.kubeconfig_file), self.path(f"{key}.kubeconfigFile")
            found = read_kubeconfig_file(name, self._root, access.context, path)
        if isinstance(found, Finding):
            self.findings.append(found)
            return None
        return found

    def unknown_keys(self) -> None:
        known = {*TEXT_KEYS, *SECTIONS}
        for key in sorted(set(self._values) - known):
            head = re.split(r"[.\[]", key, maxsplit=1)[0]
            if head in known and head != key:
                remedy = (
                    f"it was set without --path: `pulumi config rm {self.path(key)}`, then `pulumi "
                    "config set --path` it again"
                )
                self._error(key, None, "is not a key of this stack", remedy)
            else:
                self.findings.append(unknown_key(self.path(key), key, known))

    def plain_secrets(self, existing: Existing | None, secrets: Secrets | None) -> None:
        given = {}
        if existing is not None:
            given["existing.controlPlane.kubeconfig"] = existing.control_plane.kubeconfig
            given["existing.workload.kubeconfig"] = existing.workload.kubeconfig
        if secrets is not None:
            given["secrets.huggingFaceToken"] = secrets.hugging_face_token
            given |= {
                f"secrets.imagePull.{name}.password": entry.password for name, entry in secrets.image_pull.items()
            }
        for key, value in given.items():
            if value is not None and key.split(".")[0] not in self._encrypted:
                remedy = f"`pulumi config set --secret --path {self.path(key)}`"
                self.findings.append(Finding.warning(self.path(key), None, "is stored in plain text", remedy))

    def _text(self, key: str) -> str | None:
        value = self._values.get(key)
        if value is None or value == "":
            self._error(key, None, "is missing", TEXT_KEYS[key].rstrip("."))
            return None
        return str(value)

    def _shown(self, key: str, value: str) -> str | None:
        return None if key in self._encrypted else value

    def _error(self, key: str, value: object, why: str, remedy: str) -> None:
        self.findings.append(Finding.error(self.path(key), value, why, remedy))


if __name__ == "__main__":
    from stacks.reference import configuration_reference

    sys.stdout.write(configuration_reference())
