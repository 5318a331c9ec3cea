"""The binaries of the sandbox: one table of what each is built from, and which version on PATH is used instead."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

Version = tuple[int, ...]
WRAPPERS = Path(__file__).resolve().parent / "go"
_ROOT = WRAPPERS.parent.parent
KUBERNETES_VERSION = "v1.36.3"
PULUMI_VERSION = "v3.274.1"
# A tool that prints its version needs milliseconds; one that hangs is not used.
_VERSION_SECONDS = 10


@dataclass(frozen=True)
class OnPath:
    """When a binary found on PATH is used: its version v satisfies at_least <= v < below.

    version: arguments that make it print its version (the first x.y.z in the output counts).
    why: the reason of the range. beside: other programs that must lie in the same folder.
    """

    version: tuple[str, ...]
    at_least: Version
    below: Version
    why: str
    beside: tuple[str, ...] = ()

    def fits(self, program: Path) -> bool:
        """Whether this program is used."""
        if not all((program.parent / name).exists() for name in self.beside):
            return False
        found = printed_version(program, self.version)
        return found is not None and self.at_least <= found < self.below


@dataclass(frozen=True)
class Tool:
    """One binary.

    module: its wrapper module below sandbox/go; package: Go package to build there.
    seconds: cold build on 2 cores, each after those before it; only for the expected share.
    flags: what -ldflags says beside "-s -w" (a function, since one version is read from requirements.txt).
    assets: (name, Go module, folder in it) kept beside the binary.
    """

    name: str
    module: str
    package: str
    seconds: int
    flags: Callable[[], str] = str
    on_path: OnPath | None = None
    assets: tuple[tuple[str, str, str], ...] = ()


def provider_version() -> str:
    """The Pulumi Kubernetes provider's version: that of its SDK, which is how the engine matches the two."""
    text = (_ROOT / "requirements.txt").read_text()
    found = re.search(r"^pulumi-kubernetes==(\S+)$", text, re.MULTILINE)
    if found is None:
        raise ValueError("requirements.txt does not pin pulumi-kubernetes to one version")
    return found[1]


def _kubernetes_flags() -> str:
    # Clients refuse the unstamped "v0.0.0-master+$Format:%H$".
    _, minor, _ = KUBERNETES_VERSION.split(".")
    base, client = "k8s.io/component-base/version", "k8s.io/client-go/pkg/version"
    stamps = [f"{base}.gitVersion={KUBERNETES_VERSION}", f"{base}.gitMajor=1", f"{base}.gitMinor={minor}"]
    stamps += [f"{base}.gitTreeState=clean"]
    stamps += [f"{client}.gitVersion={KUBERNETES_VERSION}", f"{client}.gitMajor=1", f"{client}.gitMinor={minor}"]
    return " ".join(f"-X {stamp}" for stamp in stamps)


def _pulumi_flags() -> str:
    return f"-X github.com/pulumi/pulumi/sdk/v3/go/common/version.Version={PULUMI_VERSION}"


def _provider_flags() -> str:
    return f"-X main.version={provider_version()}"


_SERVER = OnPath(
    ("--version",), (1, 36, 0), (1, 37, 0), "the release whose behaviour was observed; all servers of one minor release"
)

# In the order in which they are built: the clusters are usable after kwok.
TOOLS: tuple[Tool, ...] = (
    Tool(
        "etcd",
        "etcd",
        "go.etcd.io/etcd/server/v3",
        50,
        on_path=OnPath(
            ("--version",),
            (3, 5, 8),
            (4, 0, 0),
            "RequestWatchProgress, without which kwok's nodes flap, came with 3.5.8",
        ),
    ),
    Tool("kube-apiserver", "kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver", 190, _kubernetes_flags, _SERVER),
    Tool(
        "kube-controller-manager",
        "kubernetes",
        "k8s.io/kubernetes/cmd/kube-controller-manager",
        50,
        _kubernetes_flags,
        _SERVER,
    ),
    Tool("kube-scheduler", "kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler", 5, _kubernetes_flags, _SERVER),
    Tool(
        "kubectl",
        "kubernetes",
        "k8s.io/kubernetes/cmd/kubectl",
        20,
        _kubernetes_flags,
        OnPath(("version", "--client"), (1, 35, 0), (1, 38, 0), "kubectl supports servers within one minor release"),
    ),
    Tool(
        "kwok",
        "kwok",
        "sigs.k8s.io/kwok/cmd/kwok",
        80,
        on_path=OnPath(
            ("--version",), (0, 7, 0), (0, 8, 0), "stages and Logs are v1alpha1: only this release was observed"
        ),
    ),
    Tool(
        # No program on PATH is used: what is installed as `crossplane` is its command-line client, not the core.
        "crossplane",
        "crossplane",
        ".",
        190,
        assets=(("crds", "github.com/crossplane/crossplane/v2", "cluster/crds"),),
    ),
    Tool(
        # Published as a package image only.
        "provider-kubernetes",
        "provider-kubernetes",
        ".",
        150,
        assets=(("crds", "github.com/crossplane-contrib/provider-kubernetes", "package/crds"),),
    ),
    Tool(
        "pulumi",
        "pulumi",
        "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi",
        310,
        _pulumi_flags,
        OnPath(
            ("version",),
            (3, 272, 0),
            (4, 0, 0),
            "requiredPulumiVersion of Pulumi.yaml; its own hosts for programs and dynamic resources",
            beside=("pulumi-language-python", "pulumi-resource-pulumi-python"),
        ),
    ),
    Tool("pulumi-resource-kubernetes", "pulumi-kubernetes", ".", 570, _provider_flags),
)


def tool(name: str) -> Tool:
    return next(found for found in TOOLS if found.name == name)


@cache
def printed_version(program: Path, arguments: tuple[str, ...]) -> Version | None:
    """The first x.y.z that a program prints for these arguments; None when it fails or prints none."""
    try:
        done = subprocess.run(
            [program, *arguments],
            capture_output=True,
            text=True,
            timeout=_VERSION_SECONDS,
            check=True,
            stdin=subprocess.DEVNULL,
            # No look at the network for another version.
            env=os.environ | {"PULUMI_SKIP_UPDATE_CHECK": "true", "GOTOOLCHAIN": "local"},
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r"(\d+)\.(\d+)\.(\d+)", done.stdout + done.stderr)
    return tuple(int(part) for part in found.groups()) if found else None
