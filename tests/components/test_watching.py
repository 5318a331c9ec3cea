"""What is declared when the config asks for a schedule and a PodMonitor: whole manifests, rights, order."""

from __future__ import annotations

import json

import pytest

from components.gates.validation_job import job_manifests
from tests.components.recorder import Ran, run_program
from tests.components.test_program import CONFIG, ENCRYPTED, reaches

ASKED = {
    "speculation:validation": {"schedule": "7 * * * *"},
    "speculation:monitoring": {"podMonitor": True},
    "speculation:timeouts": {"validation": "5m"},
}


@pytest.fixture(scope="module")
def ran() -> Ran:
    return run_program(CONFIG, ENCRYPTED)


@pytest.fixture(scope="module")
def watched() -> Ran:
    found = run_program({**CONFIG, **{key: json.dumps(value) for key, value in ASKED.items()}}, ENCRYPTED)
    assert found.error == ""
    return found


def test_nothing_of_it_is_there_unless_asked_for(ran: Ran, watched: Ran) -> None:
    more = {r.name for r in watched.resources} - {r.name for r in ran.resources}
    assert more == {
        "validation-reporter",
        "validation-reporter-binding",
        "validation-schedule-input",
        "validation-schedule",
        "monitoring",
        "monitoring-kind",
        "monitoring-engines",
    }


def test_the_cron_job_runs_what_the_job_runs(watched: Ran) -> None:
    _, job = job_manifests(watched.named("validation-run").inputs, "r")
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert watched.named("validation-schedule").inputs == {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "speculation-validation", "namespace": "speculation-validation"},
        "spec": {
            "schedule": "7 * * * *",
            "timeZone": "Etc/UTC",
            "concurrencyPolicy": "Forbid",
            "startingDeadlineSeconds": 200,
            "successfulJobsHistoryLimit": 1,
            "failedJobsHistoryLimit": 3,
            "jobTemplate": {
                "spec": {
                    "backoffLimit": 0,
                    "activeDeadlineSeconds": 300,
                    "template": {
                        "spec": {
                            **pod,
                            "containers": [
                                {
                                    **container,
                                    "command": [
                                        "python",
                                        "/opt/validation/validation.pyz",
                                        "watch",
                                        "speculation-validation",
                                    ],
                                }
                            ],
                            "volumes": [
                                {"name": "input", "configMap": {"name": "speculation-validation-schedule"}},
                                pod["volumes"][1],
                            ],
                        }
                    },
                }
            },
        },
    }


def test_its_input_is_the_jobs_with_a_place_of_its_own(watched: Ran) -> None:
    found = watched.named("validation-schedule-input").inputs
    document = json.loads(found.pop("data")["input.json"])
    assert found == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "speculation-validation-schedule", "namespace": "speculation-validation"},
    }
    assert document == {
        **json.loads(watched.named("validation-run").inputs["job"]),
        "run": "scheduled",
        "result": {"namespace": "speculation-validation", "config_map": "speculation-verdict-latest"},
    }


def test_it_may_write_events_and_look_at_its_own_cron_job(watched: Ran) -> None:
    metadata = {"name": "speculation-validation-reporter", "namespace": "speculation-validation"}
    assert watched.named("validation-reporter").inputs == {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": metadata,
        "rules": [
            {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
            {
                "apiGroups": ["batch"],
                "resources": ["cronjobs"],
                "resourceNames": ["speculation-validation"],
                "verbs": ["get"],
            },
        ],
    }
    assert watched.named("validation-reporter-binding").inputs == {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": metadata,
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "Role",
            "name": "speculation-validation-reporter",
        },
        "subjects": [
            {
                "kind": "ServiceAccount",
                "name": "speculation-validation",
                "namespace": "speculation-validation",
            }
        ],
    }


def test_it_begins_after_the_first_run_right_or_wrong(watched: Ran) -> None:
    before = reaches(watched, "validation-schedule")
    assert "validation-run" in before and "validation-verdict" not in before


def test_the_pod_monitor_waits_for_its_kind_and_goes_before_the_serving_stack(watched: Ran) -> None:
    monitor = watched.named("monitoring-engines")
    assert monitor.provider == "workload"
    assert {"monitoring-kind", "platform-ready", "platform-cluster"} <= reaches(watched, "monitoring-engines")
    assert monitor.inputs == {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": {"name": "speculation-engines", "namespace": "default"},
        "spec": {
            "selector": {
                "matchExpressions": [{"key": "modelplane.ai/serving", "operator": "In", "values": ["model-1a2b3"]}]
            },
            "podMetricsEndpoints": [{"targetPort": 8000, "path": "/metrics", "interval": "30s"}],
        },
    }
