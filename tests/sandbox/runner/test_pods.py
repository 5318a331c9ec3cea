"""Pods on real clusters (API server, scheduler, controllers), run by the runner."""

from __future__ import annotations

import os
import signal
import socket
import time
from typing import Any

import pytest
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.batch_v1 import Job
from lightkube.resources.core_v1 import Pod

from sandbox import clusters as cluster_processes
from sandbox import procfs, runner, supervisor
from sandbox.processes import records, stop
from tests.sandbox.runner.conftest import Cluster, open_to_the_world, runner_pid, until
from tests.sandbox.runner.pods import PYTHON, manifest

pytestmark = pytest.mark.sandbox

ASK_THE_API = """
import json, os, ssl, urllib.request
folder = "/var/run/secrets/kubernetes.io/serviceaccount"
token, namespace = (open(f"{folder}/{name}").read() for name in ("token", "namespace"))
context = ssl.create_default_context(cafile=f"{folder}/ca.crt")
server = f"https://{os.environ['KUBERNETES_SERVICE_HOST']}:{os.environ['KUBERNETES_SERVICE_PORT']}"
def ask(path):
    request = urllib.request.Request(server + path, headers={"Authorization": f"Bearer {token}"})
    return urllib.request.urlopen(request, context=context).read().decode()
pod = json.loads(ask(f"/api/v1/namespaces/{namespace}/pods/{os.environ['HOSTNAME']}"))
print("I am", pod["status"]["podIP"] == os.environ["POD_IP"], pod["metadata"]["name"] == os.environ["HOSTNAME"])
print("log", ask(f"/api/v1/namespaces/{namespace}/pods/talker/log").strip())
"""
READ_PODS = {"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get"]}
POD_IP = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}


def sleeping(seconds: str) -> list[int]:
    return [item.pid for item in procfs.stats() if item.alive and procfs.command(item.pid) == f"sleep {seconds}"]


def listening(address: str, port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((address, port)) == 0


def test_a_job_reads_its_token_asks_the_api_server_and_completes(cluster: Cluster) -> None:
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "r"},
        "rules": [READ_PODS],
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "r"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": cluster.namespace}],
    }
    cluster.create(role, binding, manifest("talker", {"command": ["sh", "-c", "echo said; exec sleep 300"]}))
    until(lambda: cluster.ready("talker"))
    template = manifest("x", {"command": ["python3", "-c", ASK_THE_API], "env": [POD_IP]}, restartPolicy="Never")[
        "spec"
    ]
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "asker"},
        "spec": {"template": {"spec": template}},
    }
    cluster.create(job)

    def complete() -> bool:
        status = cluster.client.get(Job, "asker", namespace=cluster.namespace).status
        return bool(status and status.succeeded == 1 and status.completionTime)

    until(complete)
    assert cluster.kubectl("logs", "job/asker") == "I am True True\nlog said\n"


def test_a_deployment_with_a_readiness_probe_becomes_available(cluster: Cluster) -> None:
    container = {
        # Binds every address, as servers do; both replicas take the same port.
        "command": ["sh", "-c", "sleep 1; exec python3 -m http.server 8000"],
        "readinessProbe": {"httpGet": {"path": "/", "port": 8000}, "initialDelaySeconds": 30, "periodSeconds": 10},
    }
    spec = {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": manifest("x", container)["spec"]},
    }
    cluster.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec})

    def available() -> bool:
        status = cluster.client.get(Deployment, "web", namespace=cluster.namespace).status
        return bool(status and status.availableReplicas == 2)

    until(available)
    addresses = {str(pod.status and pod.status.podIP) for pod in cluster.pods()}
    assert len(addresses) == 2 and all(address.startswith("127.") for address in addresses)
    assert all(listening(address, 8000) for address in addresses)
    assert open_to_the_world(8000) == []
    name = cluster.names()[0]
    reasons = {reason for _, reason, _ in cluster.events(name)}
    assert {"Pulled", "Created", "Started", "Unhealthy"} <= reasons
    cluster.client.delete(Deployment, "web", namespace=cluster.namespace)
    until(lambda: not cluster.pods() and not any(listening(address, 8000) for address in addresses))
    until(lambda: cluster.folders() == [])


def test_a_container_that_crashes_is_started_again_and_backs_off(cluster: Cluster) -> None:
    script = "echo run; echo no memory > /dev/termination-log; exit 3"
    cluster.create(manifest("crash", {"command": ["sh", "-c", script]}))
    until(lambda: "CrashLoopBackOff" in str(cluster.container("crash").get("state")))
    status = cluster.container("crash")
    end = status["lastState"]["terminated"]
    assert (end["exitCode"], end["reason"], end["message"]) == (3, "Error", "no memory\n")
    assert status["restartCount"] == 1
    uid = cluster.pod("crash").metadata.uid  # type: ignore[union-attr]
    pod = f"crash_{cluster.namespace}({uid})"
    assert status["state"]["waiting"]["message"] == f"back-off 5s restarting failed container=c0 pod={pod}"
    assert cluster.status("crash")["phase"] == "Running"
    until(
        lambda: (
            ("Warning", "BackOff", f"Back-off restarting failed container c0 in pod {pod}") in cluster.events("crash")
        )
    )
    assert cluster.kubectl("logs", "crash") == "run\n"
    assert cluster.kubectl("logs", "crash", "--previous") == "run\n"


def test_an_unknown_image_is_not_pulled(cluster: Cluster) -> None:
    image = "ghcr.io/example/engine:v1"
    cluster.create(manifest("unknown", {"image": image}))
    until(lambda: "ErrImagePull" in str(cluster.container("unknown").get("state")))
    until(lambda: "ImagePullBackOff" in str(cluster.container("unknown").get("state")))
    why = f'failed to pull and unpack image "{image}": not an image that the sandbox can stand in for'
    waiting = cluster.container("unknown")["state"]["waiting"]
    assert waiting["message"] == f'Back-off pulling image "{image}": ErrImagePull: {why}'
    assert cluster.status("unknown")["phase"] == "Pending"
    expected = {
        ("Normal", "Pulling", f'Pulling image "{image}"'),
        ("Warning", "Failed", f'Failed to pull image "{image}": {why}'),
        ("Warning", "Failed", "Error: ErrImagePull"),
        ("Normal", "BackOff", f'Back-off pulling image "{image}"'),
        ("Warning", "Failed", "Error: ImagePullBackOff"),
    }
    until(lambda: expected <= cluster.events("unknown"))


def test_a_container_waits_for_its_secret_and_then_runs(cluster: Cluster) -> None:
    reference = {"secretKeyRef": {"name": "hf", "key": "token"}}
    script = {
        "command": ["sh", "-c", "echo $TOKEN; exec sleep 300"],
        "env": [{"name": "TOKEN", "valueFrom": reference}],
    }
    cluster.create(manifest("gated", script))
    until(lambda: "CreateContainerConfigError" in str(cluster.container("gated").get("state")))
    waiting = cluster.container("gated")["state"]["waiting"]
    assert waiting == {"reason": "CreateContainerConfigError", "message": 'secret "hf" not found'}
    until(lambda: ("Warning", "Failed", 'Error: secret "hf" not found') in cluster.events("gated"))
    cluster.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hf"}, "stringData": {"token": "hf_x"}})
    until(lambda: cluster.ready("gated"))
    until(lambda: cluster.kubectl("logs", "gated") == "hf_x\n")


def test_a_missing_config_map_keeps_the_pod_from_its_volumes(cluster: Cluster) -> None:
    mount = {
        "volumeMounts": [{"name": "program", "mountPath": "/opt/validation"}],
        "command": ["ls", "/opt/validation"],
    }
    volumes = [{"name": "program", "configMap": {"name": "program"}}]
    cluster.create(manifest("job", mount, volumes=volumes, restartPolicy="Never"))
    why = 'MountVolume.SetUp failed for volume "program" : configmap "program" not found'
    until(lambda: ("Warning", "FailedMount", why) in cluster.events("job"))
    assert cluster.container("job")["state"] == {"waiting": {"reason": "ContainerCreating"}}
    cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "program"}, "data": {"main.py": ""}})
    until(lambda: cluster.status("job")["phase"] == "Succeeded")
    assert cluster.kubectl("logs", "job") == "main.py\n"


def test_deletion_gives_time_and_then_frees_address_process_and_directory(cluster: Cluster) -> None:
    stubborn = {"command": ["sh", "-c", "trap '' TERM; sleep 301.5 & echo $! ; while :; do sleep 0.2; done"]}
    cluster.create(manifest("stubborn", stubborn, terminationGracePeriodSeconds=2))
    until(lambda: cluster.ready("stubborn") and sleeping("301.5"))
    begun = time.monotonic()
    cluster.client.delete(Pod, "stubborn", namespace=cluster.namespace)
    assert cluster.pod("stubborn").metadata.deletionTimestamp  # type: ignore[union-attr]
    until(lambda: not cluster.pods())
    # Not before the grace period; a busy machine takes longer.
    assert time.monotonic() - begun > 1.5
    assert sleeping("301.5") == []
    until(lambda: cluster.folders() == [])


def test_a_pod_deleted_by_force_ends_at_once(cluster: Cluster) -> None:
    cluster.create(manifest("gone", {"command": ["sh", "-c", "trap '' TERM; sleep 302.5; sleep 302.5"]}))
    until(lambda: sleeping("302.5"))
    cluster.client.delete(Pod, "gone", namespace=cluster.namespace, grace_period=0)
    until(lambda: not sleeping("302.5") and cluster.folders() == [], seconds=5)


def test_init_containers_run_before_the_rest_and_share_its_volumes(cluster: Cluster) -> None:
    mounts = [{"name": "data", "mountPath": "/data"}]
    first = {"name": "first", "image": PYTHON, "command": ["sh", "-c", "echo made > /data/x"], "volumeMounts": mounts}
    then = {"command": ["cat", "/data/x"], "volumeMounts": mounts}
    volumes = [{"name": "data", "emptyDir": {}}]
    cluster.create(manifest("staged", then, initContainers=[first], volumes=volumes, restartPolicy="Never"))
    until(lambda: cluster.status("staged")["phase"] == "Succeeded")
    assert cluster.kubectl("logs", "staged") == "made\n"
    init = cluster.status("staged")["initContainerStatuses"][0]
    assert (init["ready"], init["state"]["terminated"]["reason"]) == (True, "Completed")


def test_a_job_pod_that_fails_is_failed_and_its_deadline_is_kept(cluster: Cluster) -> None:
    cluster.create(
        manifest("fails", {"command": ["sh", "-c", "echo last words >&2; exit 4"]}, restartPolicy="Never"),
        manifest("late", {"command": ["sleep", "303.5"]}, restartPolicy="Never", activeDeadlineSeconds=1),
        manifest("absent", {"command": ["no-such-program"]}, restartPolicy="Never"),
    )
    until(lambda: {cluster.status(name)["phase"] for name in ("fails", "late", "absent")} == {"Failed"})
    assert cluster.container("fails")["state"]["terminated"]["exitCode"] == 4
    assert cluster.status("late")["reason"] == "DeadlineExceeded"
    assert sleeping("303.5") == []
    end = cluster.container("absent")["state"]["terminated"]
    assert (end["exitCode"], end["reason"]) == (128, "StartError")
    assert 'exec: "no-such-program": executable file not found in $PATH' in end["message"]


def test_a_failing_liveness_probe_restarts_the_container(cluster: Cluster) -> None:
    probe = {"exec": {"command": ["test", "-e", "/dev/shm/alive"]}, "periodSeconds": 1, "failureThreshold": 1}
    memory: dict[str, Any] = {"volumes": [{"name": "m", "emptyDir": {}}], "terminationGracePeriodSeconds": 1}
    mounts = [{"name": "m", "mountPath": "/dev/shm"}]
    container = {"command": ["sleep", "304.5"], "livenessProbe": probe, "volumeMounts": mounts}
    cluster.create(manifest("sick", container, **memory))
    until(lambda: cluster.container("sick").get("restartCount", 0) >= 1)
    until(
        lambda: ("Normal", "Killing", "Container c0 failed liveness probe, will be restarted") in cluster.events("sick")
    )


def test_no_container_outlives_a_killed_runner_and_the_next_one_starts_them_anew(cluster: Cluster) -> None:
    layout = cluster.layout
    cluster.create(
        manifest("server", {"command": ["sleep", "305.5"]}),
        manifest("task", {"command": ["sleep", "306.5"]}, restartPolicy="Never"),
        manifest("deleted", {"command": ["sleep", "307.5"]}),
    )
    until(lambda: all(cluster.ready(name) for name in ("server", "task", "deleted")))
    before = sleeping("305.5")
    os.kill(runner_pid(layout), signal.SIGKILL)
    until(lambda: not any(sleeping(seconds) for seconds in ("305.5", "306.5", "307.5")), seconds=5)
    cluster.client.delete(Pod, "deleted", namespace=cluster.namespace)
    supervisor.up(layout, runner.processes(layout), lambda _: None)
    until(lambda: cluster.container("server")["restartCount"] == 1 and cluster.ready("server"))
    until(lambda: len(sleeping("305.5")) == 1)
    assert sleeping("305.5") != before
    unknown = cluster.container("server")["lastState"]["terminated"]
    assert (unknown["exitCode"], unknown["reason"]) == (137, "ContainerStatusUnknown")
    until(lambda: cluster.status("task")["phase"] == "Failed")
    until(lambda: cluster.names() == ["server", "task"])
    until(lambda: not any("_deleted_" in name for name in cluster.folders()))


def test_an_api_server_that_is_away_is_waited_for(cluster: Cluster) -> None:
    layout = cluster.layout
    cluster.create(manifest("task", {"command": ["sleep", "2"]}, restartPolicy="Never"))
    cluster.create(manifest("server", {"command": ["sleep", "308.5"]}))
    until(lambda: cluster.ready("task") and cluster.ready("server"))
    stop(layout, [records(layout)["workload-apiserver"]])
    time.sleep(3)
    assert len(sleeping("308.5")) == 1
    supervisor.up(layout, cluster_processes.processes(layout), lambda _: None)
    until(lambda: cluster.status("task")["phase"] == "Succeeded")
    cluster.create(manifest("later", {"command": ["true"]}, restartPolicy="Never"))
    until(lambda: cluster.status("later")["phase"] == "Succeeded")
    assert cluster.container("server")["restartCount"] == 0


def test_a_stopped_runner_ends_its_containers(cluster: Cluster) -> None:
    layout = cluster.layout
    cluster.create(manifest("server", {"command": ["sleep", "309.5"]}))
    until(lambda: cluster.ready("server"))
    stop(layout, [records(layout)["runner"]])
    assert sleeping("309.5") == []
    supervisor.up(layout, runner.processes(layout), lambda _: None)
    until(lambda: cluster.ready("server") and sleeping("309.5"))
