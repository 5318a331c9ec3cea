"""The gateway as a supervised process, without the clusters."""

from __future__ import annotations

import urllib.error
import urllib.request

from sandbox import gateway, processes, supervisor
from sandbox.layout import Layout


def ask(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_it_answers_before_the_clusters_are_there_and_ends_at_once(layout: Layout) -> None:
    (process,) = gateway.processes(layout)
    assert process.ports == (layout.control_plane_gateway_port, layout.workload_gateway_port)
    assert supervisor.up(layout, [process], lambda _: None) == ["gateway"]
    assert supervisor.up(layout, [process], lambda _: None) == [], "it is left alone when it runs"
    found = [ask(port, path) for port in process.ports for path in (gateway.HEALTH_PATH, "/ml-team/svc/v1/models")]
    assert found == [(200, "ok\n"), (404, "404 page not found\n"), (200, "ok\n"), (404, "")]
    text = layout.log("gateway").read_text()
    assert "control-plane: Gateway: " in text, "why it knows nothing, once"
    assert text.count("control-plane: Gateway: ") == 1
    assert processes.stop(layout, [*processes.records(layout).values()]) == ["gateway"]
    assert "Traceback" not in layout.log("gateway").read_text()
