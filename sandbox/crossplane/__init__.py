"""Crossplane 2.3.4 and provider-kubernetes 1.2.1 as processes beside the control plane, set up as Modelplane v0.3.1
would be.

Real: Crossplane's core controllers (composite resources, Pipeline compositions, Usages with their admission webhook),
its CRDs and its certificate authority, made by its own `core init`; provider-kubernetes' controllers and CRDs. Both are
their upstream code behind a main program of ours (sandbox/go), which moves their listeners to loopback.

Played: Modelplane. Its XRDs are made from this project's types, its compositions call one function process
(``sandbox.functions``). The package objects are records: Configuration `modelplane`, Function and FunctionRevision are
paused, nothing was pulled, and their conditions were written here. Deployment `crossplane` in crossplane-system has no
replicas: it only names the version that runs as a process. Crossplane and the provider act as cluster admin: missing
RBAC rules do not show here.

Not there: provider-helm, the cloud providers, the RBAC manager, package installation.
"""

from __future__ import annotations

from sandbox.crossplane.install import ensure
from sandbox.crossplane.process import functions_certificates, processes

__all__ = ["ensure", "functions_certificates", "processes"]
