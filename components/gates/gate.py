"""What one kind of gate implements; the provider (provider.py) does the rest of Pulumi's protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from components.gates.waiting import Run

# Pulumi's wire value for "not known before `up`".
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"

Properties = Mapping[str, Any]
# Takes one line for the user.
Say = Callable[[str], None]


def unheard(line: str) -> None:
    """A Say that nobody listens to."""


class Gate:
    """One kind of resource. Inputs and outputs are plain JSON values; a value that a preview cannot know yet is
    UNKNOWN.

    kubeconfig inputs (their names end in "kubeconfig") may change at any time, since tokens rotate: that updates the
    state, because a destroy works with what is there, and never replaces anything.
    """

    # Output names beside the inputs.
    outputs: tuple[str, ...] = ()
    # Inputs whose change means another resource: the new one is made, then the old one deleted.
    replaces: tuple[str, ...] = ()

    def problems(
        self, inputs: Properties, old_inputs: Properties, old_outputs: Properties, warn: Say = unheard
    ) -> list[str]:
        """What is wrong, a sentence each; it fails the preview. inputs may hold UNKNOWN; the old ones are empty before
        the first create; warn: takes what a person should know and is no reason to stop.
        """
        return []

    def changed(self, old_inputs: Properties, old_outputs: Properties, inputs: Properties) -> list[str]:
        """Names of the inputs that make an update necessary."""
        return sorted(key for key in {*old_inputs, *inputs} if old_inputs.get(key) != inputs.get(key))

    def identity(self, inputs: Properties) -> str:
        """The resource's id, the same for the same inputs."""
        return str(inputs.get("name") or type(self).__name__)

    def preview(self, inputs: Properties, old_outputs: Properties | None) -> dict[str, object]:
        """The outputs as far as a preview can know them."""
        return dict.fromkeys(self.outputs, UNKNOWN)

    def create(self, inputs: Properties, run: Run) -> dict[str, object]:
        """Do it; returns the outputs. Raises GateError."""
        raise NotImplementedError

    def update(self, inputs: Properties, old_outputs: Properties, run: Run) -> dict[str, object]:
        """As create, on a resource that exists. Raises GateError."""
        return self.create(inputs, run)

    def delete(self, properties: Properties, run: Run) -> None:
        """Undo it, also when the program is gone. properties: inputs and outputs. Raises GateError."""


def known(*values: object) -> bool:
    """Whether none of the values (looked into one level deep) is UNKNOWN."""
    for value in values:
        inner = value if isinstance(value, list) else [value]
        if UNKNOWN in inner:
            return False
    return True
