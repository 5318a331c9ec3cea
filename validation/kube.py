"""The few calls of the Kubernetes API that the Job makes, as the pod's ServiceAccount, with the standard library.

Every failure is an ApiError of one line that says what could not be done, why, and what is missing.
"""

from __future__ import annotations

import json
import os
import ssl
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Where the kubelet mounts the ServiceAccount's token and the cluster's CA.
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
# The API server answers these calls from memory; a slower one is not reachable.
_TIMEOUT_S = 15.0
# Field manager of what the Job writes.
_MANAGER = "speculation-validation"
# All start-up lines are in the first 100 kB of a real log; the rest of the budget is for chatty plugins.
LOG_HEAD_BYTES = 1 << 20
# The last periodic lines and a traceback.
LOG_TAIL_LINES = 500
_LOG_TAIL_BYTES = 1 << 20


class ApiError(Exception):
    """The API server refused or could not be reached. status: HTTP status, 0 when there was no answer."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Log:
    """A container's log: its start, and its end when it is longer. complete: start and end are all of it."""

    head: str
    tail: str
    complete: bool

    @property
    def text(self) -> str:
        """Start and end, with a line between them where something is left out."""
        return self.head if self.complete else f"{self.head}\n[…]\n{self.tail}"


class Kube:
    """A client of one API server. The token is read again for each call, since the kubelet renews it."""

    def __init__(self, url: str, service_account: Path = SERVICE_ACCOUNT) -> None:
        self.url = url.rstrip("/")
        self._token_file = service_account / "token"
        ca_file = service_account / "ca.crt"
        context = None
        if self.url.startswith("https:"):
            try:
                context = ssl.create_default_context(cafile=str(ca_file))
            except OSError as problem:  # ssl.SSLError is one
                message = f"cannot read the cluster's CA from {ca_file}: {problem.strerror or problem}"
                raise ApiError(message) from problem
            # A managed cluster's authority may lack extensions that Python 3.13 asks for by default
            # (kubernetes-client/python issue 2394).
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]  # never through a proxy
        if context:
            handlers.append(urllib.request.HTTPSHandler(context=context))
        self._opener = urllib.request.build_opener(*handlers)

    @classmethod
    def in_cluster(cls, service_account: Path = SERVICE_ACCOUNT) -> Kube:
        """The client for the cluster that this pod runs in."""
        host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        if not host:
            raise ApiError("KUBERNETES_SERVICE_HOST is not set: this is not a pod of a Kubernetes cluster")
        return cls(f"https://{f'[{host}]' if ':' in host else host}:{port}", service_account)

    def list_pods(self, namespace: str, selector: str) -> list[dict[str, Any]]:
        """The pods of a namespace that a label selector matches."""
        path = f"/api/v1/namespaces/{namespace}/pods?{urllib.parse.urlencode({'labelSelector': selector})}"
        body = self._call("GET", path, f"list pods in namespace {namespace}", f"list pods in namespace {namespace}")
        items = _json_object(body, "the pod list").get("items")
        return [item for item in items or [] if isinstance(item, dict)]

    def pod_log(self, namespace: str, pod: str, container: str, *, previous: bool = False) -> Log:
        """The start of a container's log, and its end when it is longer than LOG_HEAD_BYTES."""
        head = self._log(namespace, pod, container, previous=previous, limitBytes=LOG_HEAD_BYTES)
        if len(head) < LOG_HEAD_BYTES:
            return Log(head.decode("utf-8", "replace"), "", complete=True)
        limits = {"tailLines": LOG_TAIL_LINES, "limitBytes": _LOG_TAIL_BYTES}
        tail = self._log(namespace, pod, container, previous=previous, **limits)
        return Log(head.decode("utf-8", "replace"), tail.decode("utf-8", "replace"), complete=False)

    def config_map(self, namespace: str, name: str) -> dict[str, str]:
        """The text data of a ConfigMap, empty when there is none."""
        path = f"/api/v1/namespaces/{namespace}/configmaps/{name}"
        try:
            body = self._call(
                "GET", path, f"read ConfigMap {namespace}/{name}", f"get configmaps in namespace {namespace}"
            )
        except ApiError as problem:
            if problem.status == 404:
                return {}
            raise
        data = _json_object(body, f"ConfigMap {namespace}/{name}").get("data")
        return {key: value for key, value in data.items() if isinstance(value, str)} if isinstance(data, dict) else {}

    def apply_config_map(self, namespace: str, name: str, data: dict[str, str], labels: dict[str, str]) -> None:
        """Create the ConfigMap or set these keys and labels of it (server-side apply)."""
        document = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": namespace, "labels": labels},
            "data": data,
        }
        query = urllib.parse.urlencode({"fieldManager": _MANAGER, "force": "true"})
        self._call(
            "PATCH",
            f"/api/v1/namespaces/{namespace}/configmaps/{name}?{query}",
            f"write ConfigMap {namespace}/{name}",
            f"create and patch configmaps in namespace {namespace}",
            json.dumps(document).encode(),  # JSON is YAML
        )

    def _log(self, namespace: str, pod: str, container: str, *, previous: bool, **limits: int) -> bytes:
        query: dict[str, str | int] = {"container": container, **limits}
        if previous:
            query["previous"] = "true"
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/log?{urllib.parse.urlencode(query)}"
        action = f"read the {'previous ' if previous else ''}log of container {container} of pod {namespace}/{pod}"
        return self._call("GET", path, action, f"get pods/log in namespace {namespace}")

    def _call(self, method: str, path: str, action: str, permission: str, body: bytes | None = None) -> bytes:
        request = urllib.request.Request(self.url + path, data=body, method=method)
        try:
            token = self._token_file.read_text().strip()
        except OSError as problem:
            message = f"cannot {action}: no ServiceAccount token in {self._token_file}: {problem.strerror}"
            raise ApiError(message) from problem
        request.add_header("Authorization", f"Bearer {token}")
        if body is not None:
            request.add_header("Content-Type", "application/apply-patch+yaml")
        try:
            with self._opener.open(request, timeout=_TIMEOUT_S) as response:
                return bytes(response.read())
        except urllib.error.HTTPError as problem:
            raise ApiError(_refusal(problem, action, permission), problem.code) from problem
        except OSError as problem:
            reason = problem.reason if isinstance(problem, urllib.error.URLError) else problem
            raise ApiError(f"cannot {action}: {self.url} does not answer: {reason}") from problem


def _refusal(problem: urllib.error.HTTPError, action: str, permission: str) -> str:
    if problem.code == 401:
        return f"cannot {action}: the API server does not accept the ServiceAccount's token (401)"
    if problem.code == 403:
        return f"cannot {action}: the ServiceAccount lacks the permission to {permission} (403)"
    try:
        message = str(_json_object(problem.read(), "the answer").get("message", ""))
    except (ApiError, OSError):
        message = ""
    return f"cannot {action}: {message or problem.reason} ({problem.code})"


def _json_object(body: bytes, what: str) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except ValueError as problem:
        raise ApiError(f"{what} is not JSON: {problem}") from problem
    if not isinstance(document, dict):
        raise ApiError(f"{what} is not a JSON object")
    return document
