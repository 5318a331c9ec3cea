"""InferenceClass: a description, accepted as it is; it composes nothing."""

from __future__ import annotations

from sandbox.functions.model import Desired, Observed, Settings


def compose(observed: Observed, settings: Settings) -> Desired:  # noqa: ARG001 (one signature for all kinds)
    desired = Desired(composite_ready=True)
    desired.holds("Accepted", "Available")
    return desired
