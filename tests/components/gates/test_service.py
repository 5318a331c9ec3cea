"""When a service counts as serving: its own conditions, the gateway's address, and an answer that lists the model."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from components.gates.service import Answer, ServiceServing, ask, judge
from components.gates.waiting import Done, Failed, Outcome, Waiting
from tests.components.gates.api import Clock, serve
from tests.components.gates.objects import Manifest, condition
from tests.modelplane.shared import golden, needs_upstream

ADDRESS = "http://203.0.113.20/ml-team/m"
GATEWAY = {
    "metadata": {"name": "default"},
    "status": {
        "address": "203.0.113.20",
        "conditions": [condition("ControllerReady", "True"), condition("Ready", "True")],
    },
}


def service(endpoints: str = "True", routing: str = "True", address: str = ADDRESS) -> Manifest:
    conditions = [
        condition("EndpointsResolved", endpoints),
        condition("RoutingReady", routing),
        condition("Ready", "True"),
    ]
    status = {"conditions": conditions, "address": address} if address else {"conditions": conditions}
    return {"metadata": {"name": "m", "namespace": "ml-team"}, "status": status}


SERVES = Answer(200, models=("m",))
TABLE = [
    pytest.param(service(), GATEWAY, SERVES, Done({"address": ADDRESS}), id="it lists the model"),
    pytest.param(
        service(endpoints="False", address=""),
        GATEWAY,
        None,
        Waiting(
            (
                "EndpointsResolved is False",
                "no status.address: the control plane's gateway has none yet",
            )
        ),
        id="Ready=True without an endpoint is not believed",
    ),
    pytest.param(
        service(routing="False"),
        GATEWAY,
        None,
        Waiting(("RoutingReady is False",)),
        id="an address without a route is not",
    ),
    pytest.param(
        service(),
        {"metadata": {"name": "default"}},
        None,
        Waiting(
            (
                "InferenceGateway default: ControllerReady is not reported",
                "InferenceGateway default: Ready is not reported",
                "InferenceGateway default: no status.address: the load balancer of the control plane's gateway has "
                "none yet",
            )
        ),
        id="a gateway without an address",
    ),
    pytest.param(
        service(),
        GATEWAY,
        Answer(0, "timed out"),
        Waiting(
            (f"{ADDRESS}/v1/models does not answer (timed out)",),
            remedy="the machine that runs pulumi must reach the control plane's gateway: open its firewall for this "
            "machine",
        ),
        id="not reachable from here",
    ),
    pytest.param(service(), GATEWAY, Answer(503), Waiting((f"{ADDRESS}/v1/models answers 503",)), id="no backend yet"),
    pytest.param(
        service(),
        GATEWAY,
        Answer(404),
        Failed(
            f"{ADDRESS}/v1/models answers 404 although routing is ready: a gateway on the way has no route for it, "
            "or the engine does not serve it",
            "`kubectl get httproutes -A` on both clusters shows which gateway did not accept its route",
            60.0,
        ),
        id="a route that is missing, once it lasts",
    ),
    pytest.param(
        service(),
        GATEWAY,
        Answer(200, models=("Qwen/Qwen3-8B",)),
        Failed(
            f"{ADDRESS}/v1/models lists the models Qwen/Qwen3-8B, not m",
            "set --served-model-name in the recipe to the name that clients send",
        ),
        id="another model name",
    ),
]


@pytest.mark.parametrize(("manifest", "gateway", "answer", "expected"), TABLE)
def test_when_a_service_serves(manifest: Manifest, gateway: Manifest, answer: Answer | None, expected: Outcome) -> None:
    assert judge(manifest, gateway, answer, "m") == expected


@needs_upstream
def test_modelplanes_own_ready_service_is_asked_and_then_done() -> None:
    (ready,), (gateway,) = golden("control-plane.modelservices"), golden("control-plane.inferencegateways")
    expected = Done({"address": "http://203.0.113.20/ml-team/qwen3-8b-spec"})
    assert judge(ready, gateway, Answer(200, models=("qwen3-8b-spec",)), "qwen3-8b-spec") == expected


@contextmanager
def answering(status: int, body: str) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body.encode())

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/ml-team/m"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


ANSWERS = [
    (200, json.dumps({"data": [{"id": "m"}]}), Answer(200, models=("m",))),
    (404, "", Answer(404)),
    (200, "<html>", Answer(0, "not a model list: JSONDecodeError")),
    (200, "[]", Answer(0, "not a model list: TypeError")),
    (200, '{"object": "list"}', Answer(0, "not a model list: KeyError")),
]


@pytest.mark.parametrize(("status", "body", "expected"), ANSWERS)
def test_whatever_the_address_answers_is_told_apart(status: int, body: str, expected: Answer) -> None:
    with answering(status, body) as address:
        assert ask(address) == expected


def test_nobody_at_the_address_is_no_crash() -> None:
    with answering(200, "") as address:
        pass
    assert ask(address).status == 0


def test_the_gate_waits_for_the_conditions_and_then_asks() -> None:
    with serve() as api, answering(200, json.dumps({"data": [{"id": "m"}]})) as address:
        api.put("/apis/modelplane.ai/v1alpha1/inferencegateways", GATEWAY)
        api.put("/apis/modelplane.ai/v1alpha1/namespaces/ml-team/modelservices", service(address=address))
        given = {"kubeconfig": api.kubeconfig, "namespace": "ml-team", "name": "m", "model": "m", "spec": "x"}
        assert ServiceServing().create(given, Clock().run()) == {"address": address}
