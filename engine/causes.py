"""The one table of known failure causes: of engine logs, of Kubernetes, of Modelplane and of the clouds.

Gates and the validation Job look up what they see here, so that a failure is reported as cause and remedy, and so
that nobody waits for what cannot come.
"""

from __future__ import annotations

from engine.cause import Cause, Where
from engine.causes_engine import ENGINE_CAUSES
from engine.causes_kubernetes import CLOUD_CAUSES, EVENT_CAUSES, POD_CAUSES
from engine.causes_modelplane import CONDITION_CAUSES
from engine.last_error import before_shutdown, engine_died, last_error, last_line

__all__ = ["TABLE", "Cause", "Where", "engine_died", "explain_log", "find_cause", "last_error", "last_line"]

TABLE: tuple[Cause, ...] = (*ENGINE_CAUSES, *EVENT_CAUSES, *POD_CAUSES, *CLOUD_CAUSES, *CONDITION_CAUSES)
# The row of those lines that only point at an error above them.
_ECHO = "engine-core-failed"
# An event says what a pod's state says, and an autoscaler's event what the cloud says.
_ALSO: dict[Where, tuple[Where, ...]] = {"event": ("pod", "cloud"), "pod": ("event",), "cloud": ("event",)}


def find_cause(text: str, where: Where | None = None) -> Cause | None:
    """The first cause that the text shows, its values filled in; None when none is known.

    where: look in this part of the table first, then in the parts that show the same messages; None: everywhere.
    """
    parts = (where, *_ALSO.get(where, ())) if where else ("engine log", "event", "pod", "cloud", "condition")
    for part in parts:
        for row in TABLE:
            if row.where == part and (found := row.found_in(text)):
                return found
    return None


def explain_log(log: str) -> tuple[str | None, Cause | None]:
    """The last error of an engine's log, and its cause: by that error, else by the whole log."""
    error = last_error(log)
    if error and (cause := find_cause(error, "engine log")):
        return error, cause
    cause = find_cause(before_shutdown(log), "engine log")
    # That something failed is no cause of an error that is known.
    return error, None if error and cause and cause.id == _ECHO else cause
