"""The two real clusters: API, nodes, DRA, tokens, RBAC, controllers, logs."""

from __future__ import annotations

import base64
import json
import ssl
import time
import urllib.error
import urllib.request
from typing import Any

import pytest
import yaml

from sandbox import nodes
from sandbox.layout import CLUSTERS, Layout
from tests.sandbox.kubectl import Kubectl, eventually

pytestmark = [pytest.mark.sandbox, pytest.mark.timeout(180)]

# One L4 as the NVIDIA DRA driver publishes it: 23034Mi, not 24Gi.
L4 = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.nvidia.com}
spec:
  selectors:
  - cel: {expression: "device.driver == 'gpu.nvidia.com'"}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: gpu-1-l4}
spec:
  driver: gpu.nvidia.com
  nodeName: gpu-1
  pool: {name: gpu-1, generation: 1, resourceSliceCount: 1}
  devices:
  - name: gpu-0
    attributes:
      type: {string: gpu}
      productName: {string: NVIDIA L4}
    capacity:
      memory: {value: 23034Mi}
"""
CLAIMED = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {{name: {name}}}
spec:
  devices:
    requests:
    - name: gpu
      exactly:
        deviceClassName: gpu.nvidia.com
        selectors:
        - cel:
            expression: device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('{memory}')) >= 0
---
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  tolerations: [{{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}}]
  resourceClaims: [{{name: gpu, resourceClaimName: {name}}}]
  containers:
  - name: engine
    image: example.org/engine
    resources: {{claims: [{{name: gpu}}]}}
"""
# Bound by hand: nothing but kwok and the runner (which does not run here) could act on it.
BOUND = """
apiVersion: v1
kind: Pod
metadata: {name: bound}
spec: {nodeName: system-1, containers: [{name: a, image: example.org/a}]}
"""
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: job, namespace: team}
spec:
  template:
    spec: {restartPolicy: Never, containers: [{name: a, image: example.org/a}]}
"""
READER = """
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: default}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{kind: ServiceAccount, name: reader, namespace: default}]
"""


@pytest.fixture
def workload(clusters: Layout) -> Kubectl:
    return Kubectl(clusters)


def test_both_clusters_answer_and_their_nodes_are_ready(clusters: Layout) -> None:
    eventually(lambda: len(nodes.ready_nodes(clusters)) == 3)
    for context in CLUSTERS:
        kubectl = Kubectl(clusters, context)
        assert json.loads(kubectl("version", "-o", "json"))["serverVersion"]["gitVersion"] == "v1.36.3"
        assert kubectl.names("nodes") == [spec.name for spec in nodes.NODES[context]]
    gpu = Kubectl(clusters).get("node", "gpu-1")
    assert gpu["spec"]["taints"] == [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
    assert gpu["metadata"]["labels"]["nvidia.com/gpu.present"] == "true"
    assert gpu["status"]["nodeInfo"]["kubeletVersion"] == "v1.36.3"


def test_a_claim_is_allocated_on_the_l4_when_its_selector_fits_and_only_then(workload: Kubectl) -> None:
    workload.apply(L4)
    workload.apply(CLAIMED.format(name="fits", memory="20Gi"))
    assert eventually(lambda: workload.get("pod", "fits")["spec"].get("nodeName")) == "gpu-1"
    allocation = workload.get("resourceclaim", "fits")["status"]["allocation"]
    assert [item["device"] for item in allocation["devices"]["results"]] == ["gpu-0"]
    workload("delete", "pod,resourceclaim", "fits", "--force")

    workload.apply(CLAIMED.format(name="too-large", memory="24Gi"))

    def refusal() -> str:
        conditions = workload.get("pod", "too-large").get("status", {}).get("conditions", [])
        return next((str(item["message"]) for item in conditions if item.get("reason") == "Unschedulable"), "")

    assert "cannot allocate all claims" in eventually(refusal)
    workload("delete", "pod,resourceclaim", "too-large", "--force")


def test_kwok_leaves_pods_alone(workload: Kubectl) -> None:
    workload.apply(BOUND)
    time.sleep(2)  # kwok's own stages would have made it run within one
    status = workload.get("pod", "bound")["status"]
    assert (status["phase"], status.get("podIP"), status.get("containerStatuses")) == ("Pending", None, None)
    workload("delete", "pod", "bound", "--force")


def test_a_pods_log_is_served_the_one_before_too_and_goes_with_the_pod(clusters: Layout, workload: Kubectl) -> None:
    workload.apply(BOUND)
    uid = workload.get("pod", "bound")["metadata"]["uid"]
    container: dict[str, Any] = {
        "name": "a",
        "image": "example.org/a",
        "imageID": "",
        "ready": True,
        "restartCount": 1,
        "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
        "lastState": {"terminated": {"exitCode": 1, "containerID": "sandbox://0"}},
    }
    workload.set_status("pod", "bound", {"phase": "Running", "containerStatuses": [container]})
    before, now = (clusters.container_log("default", "bound", uid, "a", restart) for restart in (0, 1))
    now.parent.mkdir(parents=True)
    for log in (before, now):
        log.write_text(f"2026-01-01T00:00:00.000000001Z stdout F {log.name}\n")
    workload.apply(yaml.safe_dump(nodes.logs_manifest("default", "bound", uid, [("a", now, before)])))
    eventually(lambda: workload.run("logs", "bound").stdout == "1.log\n")
    assert workload("logs", "bound", "--previous") == "0.log\n"
    workload("delete", "pod", "bound", "--force")
    eventually(lambda: not workload.names("logs.kwok.x-k8s.io"))


def test_a_service_accounts_token_is_issued_and_bound_by_rbac(clusters: Layout, workload: Kubectl) -> None:
    workload("create", "serviceaccount", "reader")
    token = workload("create", "token", "reader").strip()

    def list_configmaps() -> int:
        return api(clusters, token, "/api/v1/namespaces/default/configmaps")

    assert list_configmaps() == 403
    workload.apply(READER)
    eventually(lambda: list_configmaps() == 200)
    assert api(clusters, token, "/api/v1/namespaces/default/pods") == 403
    assert api(clusters, "not-a-token", "/api/v1/namespaces/default/configmaps") == 401


def api(layout: Layout, token: str, path: str) -> int:
    """Status code of a request as a pod makes it: with the token and the authority of its service account's folder."""
    config = yaml.safe_load(layout.workload.kubeconfig.read_text())
    authority = base64.b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"]).decode()
    request = urllib.request.Request(layout.workload.server + path, headers={"Authorization": f"Bearer {token}"})
    try:
        context = ssl.create_default_context(cadata=authority)
        with urllib.request.urlopen(request, context=context, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_controllers_run_jobs_collect_garbage_and_empty_namespaces(workload: Kubectl) -> None:
    workload("create", "namespace", "team")
    eventually(lambda: workload.names("serviceaccounts", "--namespace=team"))
    eventually(lambda: "kube-root-ca.crt" in workload.names("configmaps", "--namespace=team"))
    workload.apply(JOB)
    (pod,) = eventually(lambda: workload.names("pods", "--namespace=team"))
    scheduled = eventually(lambda: workload.get("pod", pod, "--namespace=team")["spec"].get("nodeName"))
    assert scheduled == "system-1"  # the other one has the GPU's taint
    # Saying that the container ended is the runner's part; the rest is the real Job controller's.
    ended = {"name": "a", "image": "", "imageID": "", "ready": False, "restartCount": 0}
    ended_status = {**ended, "state": {"terminated": {"exitCode": 0}}}
    workload.set_status("pod", pod, {"phase": "Succeeded", "containerStatuses": [ended_status]}, "team")
    eventually(lambda: workload.get("job", "job", "--namespace=team")["status"].get("succeeded") == 1)
    workload("delete", "job", "job", "--namespace=team", "--wait=false")
    eventually(lambda: not workload.names("pods", "--namespace=team"))
    workload("delete", "namespace", "team", "--wait=false")
    eventually(lambda: "team" not in workload.names("namespaces"))
