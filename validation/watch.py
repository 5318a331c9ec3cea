"""What a scheduled validation leaves behind: its verdict in a ConfigMap, and an Event of its CronJob for a wrong one.

The Event belongs to the CronJob, since that outlives the engine's pods and the Jobs, and `kubectl describe` shows it
there. The ConfigMap goes with the CronJob.
"""

from __future__ import annotations

from validation.kube import Kube
from validation.settings import ResultPlace
from validation.verdict import RESULT_KEY, Verdict

# The API server refuses longer messages of an Event (bytes).
_MESSAGE_LIMIT = 1024
_COMPONENT = "speculation-validation"


def report(verdict: Verdict, kube: Kube, place: ResultPlace, cron_job: str) -> None:
    """Record a verdict. Raises ApiError."""
    owner = kube.cron_job(place.namespace, cron_job)
    kube.apply_config_map(place.namespace, place.config_map, {RESULT_KEY: verdict.to_json()}, {}, owner=owner)
    if not verdict.ok:
        event = {
            "metadata": {"generateName": f"{cron_job}.", "namespace": place.namespace},
            "involvedObject": {**owner, "namespace": place.namespace},
            "type": "Warning",
            "reason": reason(verdict),
            "message": message(verdict),
            "source": {"component": _COMPONENT},
            "firstTimestamp": verdict.ended,
            "lastTimestamp": verdict.ended,
            "count": 1,
        }
        kube.create_event(place.namespace, event)


def reason(verdict: Verdict) -> str:
    """One word, as Events have it: OnButInert."""
    return "".join(part.capitalize() for part in verdict.verdict.split("-"))


def message(verdict: Verdict) -> str:
    """The verdict in one sentence that fits an Event."""
    text = f"declared: {verdict.declared}; found: {verdict.verdict}. {verdict.sentence}".encode()
    return text[:_MESSAGE_LIMIT].decode("utf-8", "ignore")
