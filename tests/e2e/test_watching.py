"""A running stack watched: checked without `up`, on a schedule with Job and Event, and scraped by a PodMonitor."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.e2e.clusters import engine_pods, inventory
from tests.e2e.stack import Stack, faulty
from tests.e2e.workplace import Finished, Workplace, eventually
from tests.sandbox.kubectl import Kubectl

pytestmark = [pytest.mark.sandbox, pytest.mark.timeout(400)]

NAMESPACE = "speculation-validation"
EVERY_MINUTE = {"validation": {"schedule": "* * * * *"}, "monitoring": {"podMonitor": True}}
# The next full minute, and a run on a busy machine.
TURN_SECONDS = 150.0


def check(place: Workplace, *arguments: str) -> Finished:
    """`python -m validation check` in the sandbox's shell."""
    return place.shell(f"exec .venv/bin/python -m validation check --stack local {' '.join(arguments)}").end()


def jobs(place: Workplace) -> list[dict[str, Any]]:
    """The CronJob's Jobs that have ended."""
    found = Kubectl(place.layout).get("jobs", "-n", NAMESPACE)["items"]
    return [job for job in found if job["metadata"].get("ownerReferences") and job["status"].get("conditions")]


def test_a_check_says_what_up_said_and_leaves_nothing(stack: Stack, place: Workplace) -> None:
    # Another image for the Job: whatever the stack was before, this `up` validates.
    stack.configure("qwen3-8b-spec", validation={"image": "python:3.12-slim"})
    told = stack.up().output
    assert "OK: speculating (declared: speculating)." in told
    verdict, before = stack.verdict(), inventory(place.layout)
    done = check(place, "--html", "page.html")
    assert done.status == 0, done.output
    assert "OK: speculating (declared: speculating)." in done.output
    assert "OK: speculating" in (place.folder / "page.html").read_text()
    # Its pod goes after its Job, by the garbage collector.
    eventually(lambda: inventory(place.layout) == before)
    assert re.search(r"Resources:\s+\d+ unchanged\s+Duration", stack.up().output)
    assert stack.verdict() == verdict


def test_the_schedule_judges_and_the_pod_monitor_names_the_engines(stack: Stack, place: Workplace) -> None:
    stack.configure("qwen3-8b-spec", **EVERY_MINUTE)
    stack.up()
    (pod,) = engine_pods(place.layout)
    monitor = Kubectl(place.layout).get("podmonitor", "speculation-engines")
    (expression,) = monitor["spec"]["selector"]["matchExpressions"]
    assert pod["metadata"]["labels"][expression["key"]] in expression["values"]
    eventually(lambda: jobs(place), TURN_SECONDS)
    (condition,) = (c for c in jobs(place)[0]["status"]["conditions"] if c["type"] in ("Complete", "Failed"))
    assert condition["type"] == "Complete"
    latest = Kubectl(place.layout).get("configmap", "speculation-verdict-latest", "-n", NAMESPACE)
    assert json.loads(latest["data"]["verdict.json"])["ok"] is True


def test_a_wrong_verdict_fails_the_job_the_check_and_is_an_event(stack: Stack, place: Workplace) -> None:
    stack.configure(faulty(place, never_draft=True), **EVERY_MINUTE)
    stack.failing_up()
    done = check(place)
    assert done.status == 1, done.output
    assert done.lines[-1] == "error: on-but-inert, where speculating is declared"

    def events() -> list[dict[str, Any]]:
        found = Kubectl(place.layout).get("events", "-n", NAMESPACE)["items"]
        return [event for event in found if event["reason"] == "OnButInert"]

    eventually(events, TURN_SECONDS)
    (cron_job,) = Kubectl(place.layout).get("cronjobs", "-n", NAMESPACE)["items"]
    involved = events()[0]["involvedObject"]
    assert (involved["kind"], involved["uid"]) == ("CronJob", cron_job["metadata"]["uid"])
    eventually(lambda: [job for job in jobs(place) if job["status"].get("failed")])


def test_without_them_nothing_of_them_stays(stack: Stack, place: Workplace, untouched: set[str]) -> None:
    stack.configure("qwen3-8b-spec")
    stack.up()
    kubectl = Kubectl(place.layout)
    assert kubectl.get("cronjobs,podmonitors", "--all-namespaces")["items"] == []
    # The garbage collector takes Jobs and ConfigMap along.
    eventually(lambda: jobs(place) == [])
    eventually(lambda: "speculation-verdict-latest" not in kubectl("get", "configmaps", "-n", NAMESPACE))
    stack.destroy()
    assert inventory(place.layout) == untouched
