"""The last resource of the stack: it fails `up` when the validation's verdict is not what the recipe declares."""

from __future__ import annotations

from components.gates.gate import Gate, Properties
from components.gates.waiting import GateError, Run, sentence


class VerdictGate(Gate):
    """Inputs: ok, sentence. A leaf, so that the verdict itself is recorded and exported although this fails."""

    def identity(self, inputs: Properties) -> str:
        return "verdict"

    def create(self, inputs: Properties, run: Run) -> dict[str, object]:
        if inputs["ok"] is not True:
            remedy = "`pulumi stack output validation` shows the witnesses; the next `pulumi up` validates again"
            raise GateError(sentence(str(inputs["sentence"]), "", remedy))
        return {}
