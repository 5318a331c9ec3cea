"""Every path, port and URL of the sandbox, in one place.

All processes of the sandbox read the same layout from the environment:

* ``SANDBOX_HOME``: state directory (default: ``.sandbox`` beside the program);
* ``SANDBOX_PORT_BASE``: first port of the range (default 18000; ports up to +49 are used);
* ``SPECULATION_CACHE``: what outlives a sandbox, such as built binaries, Python environments and models
  (default: ``$XDG_CACHE_HOME/speculation-sandbox``).

Every address is on loopback.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

ClusterName = Literal["control-plane", "workload"]
CLUSTERS: tuple[ClusterName, ...] = ("control-plane", "workload")
LOOPBACK = "127.0.0.1"
# Above the registered services that developers run (8080, 9090...), below the kernel's ephemeral range (32768 and up).
DEFAULT_PORT_BASE = 18000
PORTS_USED = 50

# Offsets inside one cluster's decade of ports: control-plane +0, workload +10.
_CLUSTER_DECADE: dict[ClusterName, int] = {"control-plane": 0, "workload": 10}


@dataclass(frozen=True)
class ClusterLayout:
    """Paths and ports of one cluster."""

    name: ClusterName
    home: Path
    port_base: int

    @property
    def _decade(self) -> int:
        return self.port_base + _CLUSTER_DECADE[self.name]

    @property
    def etcd_port(self) -> int:
        return self._decade + 1

    @property
    def etcd_peer_port(self) -> int:
        return self._decade + 2

    @property
    def apiserver_port(self) -> int:
        return self._decade + 3

    @property
    def controller_manager_port(self) -> int:
        return self._decade + 4

    @property
    def scheduler_port(self) -> int:
        return self._decade + 5

    @property
    def kubelet_port(self) -> int:
        """kwok's kubelet endpoint (HTTPS), which serves ``kubectl logs``."""
        return self._decade + 6

    @property
    def server(self) -> str:
        """URL of the API server."""
        return f"https://{LOOPBACK}:{self.apiserver_port}"

    @property
    def etcd_url(self) -> str:
        return f"https://{LOOPBACK}:{self.etcd_port}"

    @property
    def kubeconfig(self) -> Path:
        """Cluster admin's kubeconfig, self-contained (CA, certificate and key as data)."""
        return self.home / f"{self.name}.kubeconfig"

    @property
    def pki(self) -> Path:
        return self.home / "pki" / self.name

    @property
    def data(self) -> Path:
        return self.home / "data" / self.name

    @property
    def etcd_data(self) -> Path:
        return self.data / "etcd"

    @property
    def config(self) -> Path:
        """Generated configuration files (kwok's, component kubeconfigs)."""
        return self.home / "config" / self.name


@dataclass(frozen=True)
class Layout:
    """Paths and ports of one sandbox."""

    home: Path
    cache: Path
    repository: Path
    port_base: int = DEFAULT_PORT_BASE

    @classmethod
    def from_env(cls, env: Mapping[str, str] | None = None) -> Layout:
        """The layout that the environment names. ValueError, one line, when SANDBOX_PORT_BASE is not a usable port."""
        env = os.environ if env is None else env
        repository = Path(__file__).resolve().parent.parent
        home = Path(env.get("SANDBOX_HOME") or repository / ".sandbox").expanduser().absolute()
        xdg = Path(env.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
        cache = Path(env.get("SPECULATION_CACHE") or xdg / "speculation-sandbox").expanduser().absolute()
        return cls(home, cache, repository, _port_base(env.get("SANDBOX_PORT_BASE", "")))

    def env(self) -> dict[str, str]:
        """Environment variables from which another process reads this same layout."""
        return {
            "SANDBOX_HOME": str(self.home),
            "SANDBOX_PORT_BASE": str(self.port_base),
            "SPECULATION_CACHE": str(self.cache),
        }

    def cluster(self, name: ClusterName) -> ClusterLayout:
        return ClusterLayout(name, self.home, self.port_base)

    @property
    def control_plane(self) -> ClusterLayout:
        return self.cluster("control-plane")

    @property
    def workload(self) -> ClusterLayout:
        return self.cluster("workload")

    # --- gateways (stand-ins, one process) ---

    @property
    def control_plane_gateway_port(self) -> int:
        """What a ModelService's status.address names: ``http://127.0.0.1:<port>/<namespace>/<service>``."""
        return self.port_base + 20

    @property
    def workload_gateway_port(self) -> int:
        return self.port_base + 21

    # --- Crossplane and what belongs to it ---

    @property
    def functions_port(self) -> int:
        """gRPC (mTLS) of the composition functions."""
        return self.port_base + 30

    @property
    def crossplane_metrics_port(self) -> int:
        return self.port_base + 31

    @property
    def crossplane_health_port(self) -> int:
        return self.port_base + 32

    @property
    def provider_metrics_port(self) -> int:
        return self.port_base + 33

    @property
    def provider_health_port(self) -> int:
        return self.port_base + 34

    @property
    def crossplane_webhook_port(self) -> int:
        """Admission of deletions that a Usage may forbid."""
        return self.port_base + 35

    # --- state directory ---

    @property
    def logs(self) -> Path:
        return self.home / "logs"

    def log(self, process: str) -> Path:
        """Log file of a supervised process."""
        return self.logs / f"{process}.log"

    @property
    def processes(self) -> Path:
        """One JSON record for each started process: pid, /proc start time, argv, digest."""
        return self.home / "processes"

    @property
    def lock(self) -> Path:
        return self.home / "lock"

    @property
    def env_file(self) -> Path:
        """Shell file for ``. .sandbox/env``."""
        return self.home / "env"

    @property
    def ports_file(self) -> Path:
        return self.home / "ports.json"

    @property
    def engine_file(self) -> Path:
        """Holds ``real`` or ``fake``: what vLLM's CPU image is in this sandbox."""
        return self.home / "engine"

    @property
    def bin(self) -> Path:
        """What a person has first on PATH in the sandbox's shell: pulumi, its hosts, kubectl."""
        return self.home / "bin"

    @property
    def tools(self) -> Path:
        """A link to the chosen binary of each tool."""
        return self.home / "tools"

    @property
    def kubeconfig(self) -> Path:
        """Both clusters as contexts ``control-plane`` (current) and ``workload``."""
        return self.home / "kubeconfig"

    @property
    def pki(self) -> Path:
        return self.home / "pki"

    @property
    def pods(self) -> Path:
        return self.home / "pods"

    def pod(self, namespace: str, name: str, uid: str) -> Path:
        """Directory of one pod: its volumes and, per container, ``<container>/<restart>.log`` in CRI format."""
        return self.pods / f"{namespace}_{name}_{uid}"

    def container_log(self, namespace: str, name: str, uid: str, container: str, restart: int) -> Path:
        return self.pod(namespace, name, uid) / container / f"{restart}.log"

    @property
    def pulumi_home(self) -> Path:
        return self.home / "pulumi" / "home"

    @property
    def pulumi_backend(self) -> Path:
        """Root of the file backend (the CLI keeps its state in ``.pulumi`` below it)."""
        return self.home / "pulumi" / "state"

    # --- cache directory ---

    @property
    def binaries(self) -> Path:
        """Built binaries: ``<tool>-<content address>/<binary>``."""
        return self.cache / "bin"

    @property
    def models(self) -> Path:
        return self.cache / "models"

    def vllm(self, version: str) -> Path:
        """Python environment of the CPU engine of one version."""
        return self.cache / f"vllm-{version}"

    @property
    def ports(self) -> dict[str, int]:
        """Every port by name, as written to ports.json."""
        ports = {
            "control-plane-gateway": self.control_plane_gateway_port,
            "workload-gateway": self.workload_gateway_port,
            "functions": self.functions_port,
            "crossplane-metrics": self.crossplane_metrics_port,
            "crossplane-health": self.crossplane_health_port,
            "provider-metrics": self.provider_metrics_port,
            "provider-health": self.provider_health_port,
            "crossplane-webhooks": self.crossplane_webhook_port,
        }
        for name in CLUSTERS:
            cluster = self.cluster(name)
            ports |= {
                f"{name}-etcd": cluster.etcd_port,
                f"{name}-etcd-peer": cluster.etcd_peer_port,
                f"{name}-apiserver": cluster.apiserver_port,
                f"{name}-controller-manager": cluster.controller_manager_port,
                f"{name}-scheduler": cluster.scheduler_port,
                f"{name}-kubelet": cluster.kubelet_port,
            }
        return ports


def _port_base(text: str) -> int:
    if not text:
        return DEFAULT_PORT_BASE
    if not text.isdigit() or not 1024 <= int(text) <= 65535 - PORTS_USED:
        raise ValueError(
            f"error: SANDBOX_PORT_BASE: {text!r}: not the first of {PORTS_USED} unprivileged ports; "
            f"give a number between 1024 and {65535 - PORTS_USED}, or unset it for {DEFAULT_PORT_BASE}"
        )
    return int(text)
