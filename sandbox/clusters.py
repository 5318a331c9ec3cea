"""The two clusters: real etcd, kube-apiserver, kube-controller-manager and kube-scheduler, all on loopback.

Real: the API, RBAC, admission, tokens of service accounts, DRA (resource.k8s.io/v1) and every controller named below.
Left out: a cluster network (no kube-proxy, no DNS), storage, API aggregation; webhooks are reached by URL only.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from sandbox import pki, state
from sandbox.binaries import installed
from sandbox.kubeconfig import kubeconfig
from sandbox.layout import CLUSTERS, LOOPBACK, ClusterLayout, ClusterName, Layout
from sandbox.probes import https_ok
from sandbox.processes import Process

# Disjoint, so that an address tells which cluster it is of.
SERVICE_RANGE: dict[ClusterName, str] = {"control-plane": "10.96.0.0/16", "workload": "10.97.0.0/16"}
# Every controller but those that have nothing to do here.
_CONTROLLERS = (
    "*",
    # A pod's address is a loopback address, which an EndpointSlice refuses: these would fail for each Service, without
    # end. The gateway stand-in looks at the pods themselves.
    "-endpoints-controller",
    "-endpointslice-controller",
    "-endpointslice-mirroring-controller",
    # No metrics API, no storage, no kubelet certificates to sign, no load balancer.
    "-horizontal-pod-autoscaler-controller",
    "-persistentvolume-attach-detach-controller",
    "-persistentvolume-binder-controller",
    "-persistentvolume-expander-controller",
    "-certificatesigningrequest-approving-controller",
    "-certificatesigningrequest-signing-controller",
    "-certificatesigningrequest-cleaner-controller",
    "-service-lb-controller",
    "-cloud-node-lifecycle-controller",
    "-node-route-controller",
)
# A machine that builds or loads a model on all cores delays heartbeats; that is no dead node. (Default: 50 s.)
_NODE_GRACE = "120s"


def prepare(layout: Layout) -> None:
    """Certificates and kubeconfigs of both clusters. Data without its certificates is useless and is removed."""
    for name in CLUSTERS:
        cluster = layout.cluster(name)
        if not cluster.pki.is_dir():
            shutil.rmtree(cluster.data, ignore_errors=True)
        pki.ensure(cluster.pki)
        cluster.etcd_data.mkdir(parents=True, exist_ok=True, mode=0o700)
        state.write(cluster.kubeconfig, kubeconfig([cluster]))
        for identity in ("controller-manager", "scheduler", "kwok"):
            state.write(component_kubeconfig(cluster, identity), kubeconfig([cluster], identity))
    state.write(layout.kubeconfig, kubeconfig([layout.control_plane, layout.workload]))


def component_kubeconfig(cluster: ClusterLayout, identity: str) -> Path:
    return cluster.config / f"{identity}.kubeconfig"


def processes(layout: Layout) -> list[Process]:
    """etcd, API server, controller-manager and scheduler of both clusters."""
    found: list[Process] = []
    for name in CLUSTERS:
        cluster = layout.cluster(name)
        found += [
            _etcd(layout, cluster),
            _apiserver(layout, cluster),
            _controller_manager(layout, cluster),
            _scheduler(layout, cluster),
        ]
    return found


def _etcd(layout: Layout, cluster: ClusterLayout) -> Process:
    certificate, key, authority = _files(cluster, "etcd.crt", "etcd.key", "ca.crt")
    peer = f"https://{LOOPBACK}:{cluster.etcd_peer_port}"
    return Process(
        name=f"{cluster.name}-etcd",
        argv=(
            installed(layout, "etcd"),
            f"--name={cluster.name}",
            f"--data-dir={cluster.etcd_data}",
            f"--listen-client-urls={cluster.etcd_url}",
            f"--advertise-client-urls={cluster.etcd_url}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster={cluster.name}={peer}",
            f"--cert-file={certificate}",
            f"--key-file={key}",
            f"--trusted-ca-file={authority}",
            "--client-cert-auth",
            f"--peer-cert-file={certificate}",
            f"--peer-key-file={key}",
            f"--peer-trusted-ca-file={authority}",
            "--peer-client-cert-auth",
            # Survives kill -9 of any process; only a power cut may cost the last writes of a sandbox.
            "--unsafe-no-fsync",
            "--logger=zap",
            "--log-level=warn",
        ),
        ready=https_ok(cluster.etcd_port, "/health", cluster.pki, "etcd-client"),
        ports=(cluster.etcd_port, cluster.etcd_peer_port),
        files=(certificate,),
    )


def _apiserver(layout: Layout, cluster: ClusterLayout) -> Process:
    def pki_flag(flag: str, file: str) -> str:
        return f"--{flag}={cluster.pki / file}"

    return Process(
        name=f"{cluster.name}-apiserver",
        argv=(
            installed(layout, "kube-apiserver"),
            f"--etcd-servers={cluster.etcd_url}",
            pki_flag("etcd-cafile", "ca.crt"),
            pki_flag("etcd-certfile", "etcd-client.crt"),
            pki_flag("etcd-keyfile", "etcd-client.key"),
            f"--bind-address={LOOPBACK}",
            f"--advertise-address={LOOPBACK}",
            f"--secure-port={cluster.apiserver_port}",
            pki_flag("tls-cert-file", "apiserver.crt"),
            pki_flag("tls-private-key-file", "apiserver.key"),
            pki_flag("client-ca-file", "ca.crt"),
            "--authorization-mode=RBAC",
            f"--service-cluster-ip-range={SERVICE_RANGE[cluster.name]}",
            # The EndpointSlice of the service "kubernetes" would hold a loopback address, which is refused.
            "--endpoint-reconciler-type=none",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            pki_flag("service-account-key-file", pki.SERVICE_ACCOUNT_PUBLIC),
            pki_flag("service-account-signing-key-file", pki.SERVICE_ACCOUNT_KEY),
            pki_flag("kubelet-certificate-authority", "ca.crt"),
            pki_flag("kubelet-client-certificate", "kubelet-client.crt"),
            pki_flag("kubelet-client-key", "kubelet-client.key"),
            "--kubelet-preferred-address-types=InternalIP",
            "--allow-privileged=true",
            "--profiling=false",
        ),
        ready=https_ok(cluster.apiserver_port, "/readyz", cluster.pki, "admin"),
        after=(f"{cluster.name}-etcd",),
        ports=(cluster.apiserver_port,),
        files=_files(cluster, "apiserver.crt", pki.SERVICE_ACCOUNT_KEY),
    )


def _controller_manager(layout: Layout, cluster: ClusterLayout) -> Process:
    port = cluster.controller_manager_port
    return Process(
        name=f"{cluster.name}-controller-manager",
        argv=(
            installed(layout, "kube-controller-manager"),
            *_component_flags(cluster, "controller-manager", port),
            "--controllers=" + ",".join(_CONTROLLERS),
            f"--root-ca-file={cluster.pki / 'ca.crt'}",
            f"--service-account-private-key-file={cluster.pki / pki.SERVICE_ACCOUNT_KEY}",
            # Each controller has its own account: the built-in roles are written for that.
            "--use-service-account-credentials=true",
            f"--service-cluster-ip-range={SERVICE_RANGE[cluster.name]}",
            f"--node-monitor-grace-period={_NODE_GRACE}",
        ),
        ready=https_ok(port, "/healthz", cluster.pki),
        after=(f"{cluster.name}-apiserver",),
        ports=(port,),
        files=(component_kubeconfig(cluster, "controller-manager"),),
    )


def _scheduler(layout: Layout, cluster: ClusterLayout) -> Process:
    port = cluster.scheduler_port
    return Process(
        name=f"{cluster.name}-scheduler",
        argv=(installed(layout, "kube-scheduler"), *_component_flags(cluster, "scheduler", port)),
        ready=https_ok(port, "/readyz", cluster.pki),
        after=(f"{cluster.name}-apiserver",),
        ports=(port,),
        files=(component_kubeconfig(cluster, "scheduler"),),
    )


def _component_flags(cluster: ClusterLayout, identity: str, port: int) -> tuple[str, ...]:
    config = component_kubeconfig(cluster, identity)
    return (
        f"--kubeconfig={config}",
        f"--authentication-kubeconfig={config}",
        f"--authorization-kubeconfig={config}",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={port}",
        f"--tls-cert-file={cluster.pki / 'component.crt'}",
        f"--tls-private-key-file={cluster.pki / 'component.key'}",
        # There is one of each: nothing to elect, and seconds saved at every start.
        "--leader-elect=false",
        "--profiling=false",
    )


def _files(cluster: ClusterLayout, *names: str) -> tuple[Path, ...]:
    return tuple(cluster.pki / name for name in names)
