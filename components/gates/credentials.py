"""How a client shows who it is: a kubeconfig's client certificates and exec plugins; and the error of each request."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import tempfile
from typing import Any

from components.gates.errors import KubeError

# An exec plugin may open a browser or refresh a token over the network.
EXEC_SECONDS = 60.0

Manifest = dict[str, Any]


def load_certificate(context: ssl.SSLContext, certificate: str, key: str, server: str) -> None:
    """Give the context a client certificate and key (PEM). server: for the error."""
    # The ssl module takes a client certificate only from a file: one that nobody else can read, and that is gone at
    # once.
    descriptor, name = tempfile.mkstemp(prefix="client-", suffix=".pem")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{certificate.rstrip()}\n{key}")
        context.load_cert_chain(name)
    except ssl.SSLError:
        raise KubeError(f"the kubeconfig for {server} has no valid client certificate and key", fatal=True) from None
    finally:
        os.unlink(name)  # noqa: PTH108 - mkstemp gives a plain name


def exec_credential(plugin: Manifest) -> Manifest:
    """The status of the ExecCredential that a plugin prints: token, or clientCertificateData and clientKeyData."""
    command = str(plugin["command"])
    version = str(plugin.get("apiVersion") or "client.authentication.k8s.io/v1")
    environment = {**os.environ, **{item["name"]: item["value"] for item in plugin.get("env") or []}}
    environment["KUBERNETES_EXEC_INFO"] = json.dumps(
        {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}
    )
    try:
        done = subprocess.run(  # the user's own kubeconfig names it
            [command, *(plugin.get("args") or [])],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=EXEC_SECONDS,
            check=False,
        )
    except FileNotFoundError:
        raise KubeError(f"the kubeconfig's exec plugin {command} is not installed", fatal=True) from None
    except subprocess.TimeoutExpired:
        raise KubeError(
            f"the kubeconfig's exec plugin {command} gave no credential within {EXEC_SECONDS:.0f} s"
        ) from None
    if done.returncode != 0:
        first = next(iter(done.stderr.strip().splitlines()), f"exit {done.returncode}")
        raise KubeError(f"the kubeconfig's exec plugin {command} failed: {first}")
    try:
        status: Manifest = json.loads(done.stdout)["status"]
    except (ValueError, KeyError):
        raise KubeError(f"the kubeconfig's exec plugin {command} printed no ExecCredential", fatal=True) from None
    return status
