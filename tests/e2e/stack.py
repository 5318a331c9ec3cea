"""A stack of a workplace, with the configuration that a test gives it, driven with plain `pulumi`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.workplace import Finished, Running, Workplace

TRIAL = "trial.yaml"
Manifests = Sequence[Mapping[str, Any]]


class Stack:
    """configuration: the committed one of `local`, until a test changes it; every change is of the whole of it."""

    def __init__(self, place: Workplace, name: str = "local") -> None:
        self.place, self.name = place, name
        self._file = place.folder / f"stacks/Pulumi.{name}.yaml"
        self._committed = (place.folder / "stacks/Pulumi.local.yaml").read_text()
        self("stack", "init", name, *([] if name == "local" else ["--no-select"]))

    def __call__(self, *arguments: str) -> str:
        """A command that must succeed; its output."""
        done = self.place.pulumi(*arguments).end()
        assert done.status == 0, done.output
        return done.output

    def restore(self) -> None:
        """The configuration as committed."""
        self._file.write_text(self._committed)

    def configure(self, recipe: str | Manifests, **sections: object) -> None:
        """A recipe by its name, or the manifests of a user's own file; further keys of namespace speculation."""
        document = yaml.safe_load(self._committed)
        if not isinstance(recipe, str):
            (self.place.folder / TRIAL).write_text(yaml.safe_dump_all(recipe, sort_keys=False))
            recipe = TRIAL
        own = {"recipe": recipe, **sections}
        document["config"] |= {f"speculation:{key}": value for key, value in own.items()}
        self._file.write_text(yaml.safe_dump(document, sort_keys=False))

    @property
    def configuration(self) -> str:
        return self._file.read_text()

    def start_up(self) -> Running:
        return self.place.pulumi("up", "--stack", self.name, "--yes", "--skip-preview", "--suppress-outputs")

    def up(self) -> Finished:
        """An `up` that must succeed."""
        done = self.start_up().end()
        assert done.status == 0, done.output
        return done

    def failing_up(self) -> Finished:
        """An `up` that must fail, without a traceback."""
        return refused(self.start_up().end())

    def failing_preview(self) -> Finished:
        return refused(self.place.pulumi("preview", "--stack", self.name).end())

    def outputs(self, *flags: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self("stack", "output", "--stack", self.name, "--json", *flags))
        return found

    def verdict(self) -> dict[str, Any]:
        """As `pulumi stack output validation` shows it, also after a failed `up`."""
        found: dict[str, Any] = json.loads(self("stack", "output", "validation", "--stack", self.name))
        return found

    def exported(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self("stack", "export", "--stack", self.name))
        return found

    def destroy(self) -> None:
        self("destroy", "--stack", self.name, "--yes", "--skip-preview")


def refused(done: Finished) -> Finished:
    """A command that failed as it should: with lines for a person, not with frames of a program."""
    assert done.status != 0, done.output
    assert "Traceback" not in done.output, done.output
    return done


def recipe_of(place: Workplace, name: str = "qwen3-8b-spec") -> list[dict[str, Any]]:
    """The manifests of a shipped recipe, to be changed."""
    return list(yaml.safe_load_all((place.folder / "recipes" / f"{name}.yaml").read_text()))


def container_of(manifests: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Its engine's container."""
    found: dict[str, Any] = manifests[0]["spec"]["template"]["spec"]["engines"][0]["members"][0]["template"]["spec"][
        "containers"
    ][0]
    return found


def faulty(place: Workplace, **fault: object) -> list[dict[str, Any]]:
    """The seed's recipe with a fake engine that behaves as FAKE_ENGINE says (sandbox/engines/fake)."""
    manifests = recipe_of(place)
    container_of(manifests)["env"] = [{"name": "FAKE_ENGINE", "value": json.dumps(fault)}]
    return manifests


def logs_folder(folder: Path) -> list[str]:
    return [path.read_text(errors="replace") for path in sorted(folder.glob("*.log"))]
