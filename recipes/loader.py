"""From a recipe's name or file to what can be deployed, with everything there is to say about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.findings import Finding, Problems, Severity, errors
from modelplane import names
from modelplane.kinds import ModelDeployment, ModelService, ObjectMeta, Resource, subject_of
from modelplane.kinds.model_service import EndpointGroup, EndpointSelector, ModelServiceSpec
from modelplane.manifests import Loaded, load_text
from modelplane.releases import Release, parse_release
from recipes.checks import check_contents, check_deployment, check_pair
from recipes.recipe import Recipe

FOLDER = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Checked:
    """A recipe as far as it could be read: manifests in the form of v0.3.1 and all findings, in the file's order.

    recipe is None exactly when a finding is an error.
    """

    path: Path
    manifests: tuple[dict[str, Any], ...]
    findings: tuple[Finding, ...]
    recipe: Recipe | None

    @property
    def deployable(self) -> bool:
        """Whether no finding is an error."""
        return self.recipe is not None


def recipe_names() -> tuple[str, ...]:
    """The recipes that come with the project."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))


def recipe_path(name_or_path: str | Path) -> Path:
    """The file of a recipe: one of ours by its name, or any path. Problems when there is no such file."""
    text = str(name_or_path)
    own = FOLDER / f"{text}.yaml"
    if text in recipe_names():
        return own
    path = Path(text)
    if path.is_file():
        return path
    why = "is a folder" if path.is_dir() else "there is no such file, and no recipe of this name"
    raise Problems([Finding.error("recipe", text, why, f"give a path, or one of {', '.join(recipe_names())}")])


def check_recipe(name_or_path: str | Path, release: str | Release | None = None) -> Checked:
    """Everything about a recipe. release: the Modelplane release its manifests were written for, when that is known;
    without it their shape tells. Problems when there is nothing to check: no file, an unknown or refused release.
    """
    written_for = None if release is None else parse_release(str(release))
    path = recipe_path(name_or_path)
    try:
        loaded = load_text(path.read_text(encoding="utf-8"), written_for, str(path))
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "is not UTF-8 text"
        raise Problems([Finding.error("recipe", str(path), f"cannot be read: {why}", "give another file")]) from None
    return _checked(path, loaded)


def load_recipe(name_or_path: str | Path, release: str | Release | None = None) -> Recipe:
    """A recipe that can be deployed; Problems with all errors otherwise. Its findings are warnings and remarks."""
    checked = check_recipe(name_or_path, release)
    if checked.recipe is None:
        raise Problems(errors(checked.findings))
    return checked.recipe


def _checked(path: Path, loaded: Loaded) -> Checked:
    findings = list(loaded.findings)
    if not errors(findings):  # otherwise what is missing may be what could not be read
        findings += check_contents(loaded.objects, loaded.foreign)
    manifests = tuple(found.to_manifest() for found in loaded.objects)
    deployments = [found for found in loaded.objects if isinstance(found, ModelDeployment)]
    services = [found for found in loaded.objects if isinstance(found, ModelService)]
    for found, translation in zip(loaded.objects, loaded.translations, strict=True):
        if isinstance(found, ModelDeployment):
            findings += [translation.in_file(finding) for finding in _named(found, check_deployment(found))]
    if len(deployments) != 1 or len(services) > 1:
        return Checked(path, manifests, tuple(findings), None)
    (deployment,) = deployments
    if not services and not errors(findings):
        services = [_service_for(deployment)]
        why = "is not in the file; it is added with the deployment's name"
        findings.append(Finding(Severity.INFO, subject_of(services[0].to_manifest()), None, why))
        manifests += (services[0].to_manifest(),)
    for service in services:
        findings += _named(service, check_pair(deployment, service))
    if errors(findings):
        return Checked(path, manifests, tuple(findings), None)
    return Checked(path, manifests, tuple(findings), Recipe(path, deployment, services[0], tuple(findings)))


def _named(found: Resource, findings: Iterable[Finding]) -> list[Finding]:
    """Findings with the object before their path."""
    subject = subject_of(found.to_manifest())
    return [replace(finding, path=f"{subject}: {finding.path}") for finding in findings]


def _service_for(deployment: ModelDeployment) -> ModelService:
    selector = EndpointSelector(match_labels={names.DEPLOYMENT_LABEL: deployment.name})
    return ModelService(
        metadata=ObjectMeta(name=deployment.name, namespace=deployment.namespace),
        spec=ModelServiceSpec(endpoints=[EndpointGroup(selector=selector)]),
    )
