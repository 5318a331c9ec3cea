"""One Kubernetes object as a Pulumi resource, from its manifest.

The typed classes of pulumi_kubernetes cost each preview 0.6 s of imports, and its CustomResource knows only `spec`;
this takes any object.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import pulumi
from pulumi import ResourceOptions


class KubernetesObject(pulumi.CustomResource):
    """manifest: whole, with apiVersion, kind and metadata.name; values may be Outputs. opts must name the provider."""

    def __init__(self, name: str, manifest: Mapping[str, Any], opts: ResourceOptions) -> None:
        if opts.provider is None:
            raise ValueError(
                f"{name}: a Kubernetes object needs an explicit provider, or it goes to whatever cluster is current"
            )
        group = manifest["apiVersion"] if "/" in manifest["apiVersion"] else f"core/{manifest['apiVersion']}"
        # An untyped resource carries no plugin version of its own.
        opts = ResourceOptions.merge(opts, ResourceOptions(version=version("pulumi-kubernetes")))
        super().__init__(f"kubernetes:{group}:{manifest['kind']}", name, dict(manifest), opts)
