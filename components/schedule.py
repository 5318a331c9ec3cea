"""The validation on a schedule: a CronJob that runs the same program on the same input, and what it may write."""

from __future__ import annotations

from typing import Any

from pulumi import Output

from components.gates.validation_job import input_data, pod_spec

# The name of the CronJob, of its input, and of its right to write Events.
CRON_JOB, INPUT, REPORTER = (
    "speculation-validation",
    "speculation-validation-schedule",
    "speculation-validation-reporter",
)
# The ConfigMap with the verdict of the newest run.
LATEST = "speculation-verdict-latest"
# What a verdict of this schedule gives as its run.
RUN = "scheduled"
# Enough to see that it works, and what was wrong the last times (their logs are kept with them).
SUCCESSES_KEPT, FAILURES_KEPT = 1, 3
# A controller that was away for longer waits for the next turn; without a limit it would count what it has missed, and
# give up at 100.
LATE_SECONDS = 200


def manifests(
    schedule: str, namespace: str, *, account: str, image: str, program: str, seconds: int, job: Output[str]
) -> dict[str, dict[str, Any]]:
    """Resource name suffix -> manifest. account, image, program: as of the Job; seconds: for one run; job: its input
    without run and result.
    """
    return {
        **reporter_rights(namespace, account),
        "schedule-input": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": INPUT, "namespace": namespace},
            "data": job.apply(lambda known: input_data(known, RUN, namespace, LATEST)),
        },
        "schedule": cron_job(
            schedule, namespace, pod_spec(account, image, program, INPUT, ("watch", CRON_JOB)), seconds
        ),
    }


def cron_job(schedule: str, namespace: str, pod: dict[str, Any], seconds: int) -> dict[str, Any]:
    """The CronJob. pod: its pods' spec; seconds: for one run."""
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": CRON_JOB, "namespace": namespace},
        "spec": {
            "schedule": schedule,
            # The controller's own zone is whatever its host has.
            "timeZone": "Etc/UTC",
            "concurrencyPolicy": "Forbid",
            "startingDeadlineSeconds": LATE_SECONDS,
            "successfulJobsHistoryLimit": SUCCESSES_KEPT,
            "failedJobsHistoryLimit": FAILURES_KEPT,
            "jobTemplate": {
                # A second try would hide a failure that comes and goes.
                "spec": {"backoffLimit": 0, "activeDeadlineSeconds": seconds, "template": {"spec": pod}}
            },
        },
    }


def reporter_rights(namespace: str, account: str) -> dict[str, dict[str, Any]]:
    """Resource name suffix -> manifest: Events may be written, and the CronJob looked up that they belong to."""
    rbac = "rbac.authorization.k8s.io"
    metadata = {"name": REPORTER, "namespace": namespace}
    rules = [
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
        {"apiGroups": ["batch"], "resources": ["cronjobs"], "resourceNames": [CRON_JOB], "verbs": ["get"]},
    ]
    return {
        "reporter": {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": metadata, "rules": rules},
        "reporter-binding": {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": REPORTER},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
        },
    }
