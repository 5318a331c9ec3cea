"""Setting up Crossplane and Modelplane's kinds on a running control plane: all steps are repeatable, what is there is
left alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import time
from collections.abc import Iterable

import yaml

from engine.findings import Finding, Problems, Severity
from sandbox.binaries import assets, installed
from sandbox.crossplane import objects
from sandbox.crossplane.api import Api, ApiError, Manifest
from sandbox.crossplane.certificates import ensure_server, write_secret
from sandbox.crossplane.process import CLIENT_SECRET, client_certificates, functions_certificates, webhook_certificates
from sandbox.layout import Layout

_CA_SECRET = "crossplane-root-ca"
# Fresh CRDs take a moment until they are served. Seconds.
_SERVED_WITHIN = 30
# core init takes 2 s; on a machine that builds something at the same time, many times that.
_INIT_SECONDS = 120


def ensure(layout: Layout) -> bool:
    """Install what is missing or changed. True when something was. Needs the control plane's API server.

    Problems, one line, when Crossplane's own initialisation or the API server refuses.
    """
    try:
        with Api(layout.control_plane) as api:
            wanted = _digest(layout)
            done = _installed_digest(api) == wanted
            if not done:
                _initialise(api, layout)
            _certificates(api, layout)
            if not done:
                _install(api, layout, wanted)
            return not done
    except ApiError as error:
        why, remedy = str(error), "`make down` and try again; the control plane's log says more"
        raise Problems([Finding(Severity.ERROR, "Crossplane set-up", None, why, remedy)]) from error


def _digest(layout: Layout) -> str:
    """Of everything that is installed; the certificate authority is made once with the cluster."""
    parts = [
        installed(layout, "crossplane"),
        installed(layout, "provider-kubernetes"),
        json.dumps([objects.definitions(), objects.compositions(), objects.function(), objects.crossplane_record()]),
        str(layout.functions_port),
        str(layout.crossplane_webhook_port),
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def _installed_digest(api: Api) -> str | None:
    try:
        found = api.get("Configuration", "pkg.crossplane.io/v1", "modelplane")
    except ApiError:
        return None
    annotations: dict[str, str] = (found or {}).get("metadata", {}).get("annotations", {})
    return annotations.get(objects.DIGEST)


def _initialise(api: Api, layout: Layout) -> None:
    """Crossplane's own `core init`: its CRDs, its certificate authority, the client certificate."""
    for namespace in objects.namespaces():
        api.apply(namespace)
    argv = [installed(layout, "crossplane"), "core", "init"]
    env = {
        **os.environ,
        "KUBECONFIG": str(layout.control_plane.kubeconfig),
        "CRDS_PATH": str(assets(layout, "crossplane", "crds")),
        "TLS_CA_SECRET_NAME": _CA_SECRET,
        "TLS_CLIENT_SECRET_NAME": CLIENT_SECRET,
        # Its webhooks are reached through a Service, which a process does not have: `usage_webhook` takes their place.
        "ENABLE_WEBHOOKS": "false",
    }
    deadline = time.monotonic() + _INIT_SECONDS
    while why := _run(argv, env):
        # It does not wait until the CRDs that it has just applied are served.
        if "no matches for kind" not in why or time.monotonic() > deadline:
            raise Problems([_init_failed(why)])


def _run(argv: list[str], env: dict[str, str]) -> str | None:
    """Run to the end: None, or why it failed (its last line)."""
    try:
        done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=_INIT_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"no end after {_INIT_SECONDS} s"
    if done.returncode == 0:
        return None
    lines = done.stderr.strip().splitlines()
    return lines[-1] if lines else f"exit code {done.returncode}"


def _init_failed(why: str) -> Finding:
    return Finding(Severity.ERROR, "crossplane core init", None, why, "run the same command again")


def _certificates(api: Api, layout: Layout) -> None:
    """The files that the processes read."""
    authority, client = (api.get("Secret", "v1", name, objects.NAMESPACE) for name in (_CA_SECRET, CLIENT_SECRET))
    if authority is None or client is None:
        raise ApiError(f"Secrets {_CA_SECRET} and {CLIENT_SECRET} are not in {objects.NAMESPACE}")
    write_secret(client, client_certificates(layout))
    ensure_server(authority, functions_certificates(layout), "modelplane-functions")
    ensure_server(authority, webhook_certificates(layout), "crossplane-webhooks")


def _install(api: Api, layout: Layout, digest: str) -> None:
    for crd in _provider_crds(layout):
        api.apply(crd)
    _apply_when_served(api, [*objects.definitions(), *objects.compositions(), *objects.function()])
    api.apply(objects.function_endpoint(layout.functions_port), status=True)
    api.apply(objects.crossplane_record())
    ca = (functions_certificates(layout) / "ca.crt").read_bytes()
    api.apply(objects.usage_webhook(layout.crossplane_webhook_port, ca))
    # Last: its digest says that all the rest is there.
    api.apply(objects.configuration(digest))
    for status in objects.package_statuses():
        api.apply(status, status=True)


def _provider_crds(layout: Layout) -> list[Manifest]:
    """The namespaced kinds; the legacy cluster-scoped ones need a conversion webhook and have no use here."""
    found = []
    for path in sorted(assets(layout, "provider-kubernetes", "crds").glob("kubernetes.m.*.yaml")):
        found.append(yaml.load(path.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    return found


def _apply_when_served(api: Api, manifests: Iterable[Manifest]) -> None:
    deadline = time.monotonic() + _SERVED_WITHIN
    for manifest in manifests:
        while True:
            try:
                api.apply(manifest)
                break
            except ApiError as error:
                # "404 page not found" and the like: a CRD of a moment ago is not served yet.
                if ": 404:" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
