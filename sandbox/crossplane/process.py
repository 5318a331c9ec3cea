"""The three processes: composition functions, Crossplane's core, provider-kubernetes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from sandbox.binaries import installed
from sandbox.crossplane.api import Api
from sandbox.layout import LOOPBACK, Layout
from sandbox.probes import http_ok, listens
from sandbox.processes import Process

CLIENT_SECRET = "crossplane-tls-client"
# Against drift only (objects whose state is waited for are watched): two requests for each of some 30 objects.
_PROVIDER_POLL = "1m"
# What composites of a settled system cost: each calls its function once in this time unless the function says sooner.
_CROSSPLANE_POLL = "10s"


def client_certificates(layout: Layout) -> Path:
    """Folder of Crossplane's client certificate (ca.crt, tls.crt, tls.key)."""
    return layout.pki / "crossplane-client"


def functions_certificates(layout: Layout) -> Path:
    """Folder of the functions' server certificate."""
    return layout.pki / "functions"


def webhook_certificates(layout: Layout) -> Path:
    """Folder of the server certificate of Crossplane's webhooks."""
    return layout.pki / "crossplane-webhooks"


def processes(layout: Layout) -> list[Process]:
    """To be started after `ensure` and the control plane's API server."""
    kubeconfig = str(layout.control_plane.kubeconfig)
    functions_tls, client_tls, webhook_tls = (
        folder(layout) for folder in (functions_certificates, client_certificates, webhook_certificates)
    )
    source = layout.repository / "sandbox" / "functions"
    return [
        Process(
            name="functions",
            argv=(sys.executable, "-m", "sandbox.functions"),
            ready=listens(layout.functions_port),
            ports=(layout.functions_port,),
            files=(functions_tls / "tls.crt", source, layout.repository / "modelplane"),
            cwd=layout.repository,
        ),
        Process(
            name="crossplane",
            argv=(
                installed(layout, "crossplane"),
                "core",
                "start",
                f"--poll-interval={_CROSSPLANE_POLL}",
                "--package-runtime=External",
                f"--cache-dir={layout.home / 'data' / 'crossplane'}",
                f"--metrics-port={layout.crossplane_metrics_port}",
                f"--health-probe-port={layout.crossplane_health_port}",
                f"--webhook-port={layout.crossplane_webhook_port}",
                f"--tls-client-certs-dir={client_tls}",
                f"--tls-server-certs-dir={webhook_tls}",
                # It cuts off a composite with many events for 5 minutes, by name: a serving stack that was deleted and
                # made anew would hardly be looked at.
                "--circuit-breaker-burst=1000000",
                "--circuit-breaker-refill-rate=1000",
            ),
            env={"KUBECONFIG": kubeconfig},
            ready=_established(layout),
            after=("functions",),
            ports=(
                layout.crossplane_metrics_port,
                layout.crossplane_health_port,
                layout.crossplane_webhook_port,
            ),
            files=(client_tls / "tls.crt", webhook_tls / "tls.crt"),
        ),
        Process(
            name="provider-kubernetes",
            argv=(
                installed(layout, "provider-kubernetes"),
                f"--poll={_PROVIDER_POLL}",
                f"--metrics={LOOPBACK}:{layout.provider_metrics_port}",
                f"--health={LOOPBACK}:{layout.provider_health_port}",
            ),
            env={"KUBECONFIG": kubeconfig},
            ready=http_ok(layout.provider_health_port, "/readyz"),
            ports=(layout.provider_metrics_port, layout.provider_health_port),
        ),
    ]


def _established(layout: Layout) -> Callable[[], bool]:
    """Ready is what users wait for: the probe answers and every kind of Modelplane is served."""
    alive = http_ok(layout.crossplane_health_port, "/readyz")

    def probe() -> bool:
        if not alive():
            return False
        with Api(layout.control_plane) as api:
            return api.all_true("CompositeResourceDefinition", "apiextensions.crossplane.io/v2", "Established")

    return probe
