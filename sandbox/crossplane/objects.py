"""What is applied to the control plane so that Crossplane runs Modelplane's kinds: pure manifests."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

from modelplane.names import SYSTEM_NAMESPACE
from modelplane.xrd import xrd
from sandbox.crossplane.api import Manifest
from sandbox.functions.server import COMPOSE

NAMESPACE = "crossplane-system"
CROSSPLANE_VERSION = "v2.3.4"
MODELPLANE_PACKAGE = "xpkg.upbound.io/modelplane/modelplane:v0.3.1"
FUNCTION = "modelplane-functions"
FUNCTION_PACKAGE = f"sandbox.local/{FUNCTION}:v0.3.1"
# Package objects are records: the package manager must neither pull nor judge them.
_PAUSED = {"crossplane.io/paused": "true"}
_PACKAGE_API = "pkg.crossplane.io/v1"


def namespaces() -> list[Manifest]:
    names = (NAMESPACE, SYSTEM_NAMESPACE)
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names]


def definitions() -> list[Manifest]:
    """XRDs of every kind that a function composes."""
    return [xrd(kind) for kind in COMPOSE]


def compositions() -> list[Manifest]:
    """One for each XRD, by the names that Modelplane's package has."""
    found = []
    for definition in definitions():
        spec, version = definition["spec"], definition["spec"]["versions"][0]["name"]
        composite = {"apiVersion": f"{spec['group']}/{version}", "kind": spec["names"]["kind"]}
        step = {"step": "compose", "functionRef": {"name": FUNCTION}}
        found.append(
            {
                "apiVersion": "apiextensions.crossplane.io/v1",
                "kind": "Composition",
                "metadata": {"name": definition["metadata"]["name"]},
                "spec": {"compositeTypeRef": composite, "mode": "Pipeline", "pipeline": [step]},
            }
        )
    return found


def function() -> list[Manifest]:
    """The one function that all compositions call."""
    return [
        {
            "apiVersion": _PACKAGE_API,
            "kind": "Function",
            "metadata": {"name": FUNCTION, "annotations": _PAUSED},
            "spec": {"package": FUNCTION_PACKAGE, "packagePullPolicy": "Never"},
        },
        {
            "apiVersion": _PACKAGE_API,
            "kind": "FunctionRevision",
            "metadata": {
                "name": f"{FUNCTION}-1",
                "labels": {"pkg.crossplane.io/package": FUNCTION},
                "annotations": _PAUSED,
            },
            "spec": {"image": FUNCTION_PACKAGE, "revision": 1, "desiredState": "Active", "packagePullPolicy": "Never"},
        },
    ]


def function_endpoint(port: int) -> Manifest:
    """The status by which Crossplane finds the function's process."""
    return {
        "apiVersion": _PACKAGE_API,
        "kind": "FunctionRevision",
        "metadata": {"name": f"{FUNCTION}-1"},
        "status": {
            "endpoint": f"dns:///127.0.0.1:{port}",
            "capabilities": ["composition"],
            "conditions": _conditions(
                ("RevisionHealthy", "HealthyPackageRevision"), ("RuntimeHealthy", "HealthyRuntime")
            ),
        },
    }


def crossplane_record() -> Manifest:
    """A Deployment without replicas that names the Crossplane version, where readers look for it."""
    labels = {
        "app": "crossplane",
        "app.kubernetes.io/name": "crossplane",
        "app.kubernetes.io/version": CROSSPLANE_VERSION,
    }
    container = {"name": "crossplane", "image": f"xpkg.crossplane.io/crossplane/crossplane:{CROSSPLANE_VERSION}"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "crossplane", "namespace": NAMESPACE, "labels": labels},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "crossplane"}},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def configuration(digest: str) -> Manifest:
    """The record of Modelplane's package. digest: of all that was installed with it."""
    return {
        "apiVersion": _PACKAGE_API,
        "kind": "Configuration",
        "metadata": {"name": "modelplane", "annotations": {**_PAUSED, DIGEST: digest}},
        "spec": {"package": MODELPLANE_PACKAGE, "packagePullPolicy": "Never"},
    }


DIGEST = "sandbox/installed"


def package_statuses() -> list[Manifest]:
    """What the package manager would say of packages that it had installed."""
    packages = (("Configuration", "modelplane", MODELPLANE_PACKAGE), ("Function", FUNCTION, FUNCTION_PACKAGE))
    return [
        {
            "apiVersion": _PACKAGE_API,
            "kind": kind,
            "metadata": {"name": name},
            "status": {
                "currentIdentifier": package,
                "conditions": _conditions(
                    ("Installed", "ActivePackageRevision"), ("Healthy", "HealthyPackageRevision")
                ),
            },
        }
        for kind, name, package in packages
    ]


def usage_webhook(port: int, ca_pem: bytes) -> Manifest:
    """Crossplane's own webhook that refuses to delete what a Usage protects, by URL instead of by Service."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "crossplane-no-usages"},
        "webhooks": [
            {
                "name": "nousages.protection.crossplane.io",
                "admissionReviewVersions": ["v1"],
                "clientConfig": {
                    "url": f"https://127.0.0.1:{port}/validate-no-usages",
                    "caBundle": base64.b64encode(ca_pem).decode(),
                },
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "objectSelector": {"matchLabels": {"crossplane.io/in-use": "true"}},
                "rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["DELETE"], "resources": ["*"]}],
            }
        ],
    }


def _conditions(*true: tuple[str, str]) -> list[Manifest]:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return [{"type": type_, "status": "True", "reason": reason, "lastTransitionTime": now} for type_, reason in true]
