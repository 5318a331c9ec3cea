"""The service gate: endpoints and routing resolved, and the address answers 200 with the model that clients will ask
for.

`status.address` is published while nothing serves, and Ready=True comes with no endpoint at all (Modelplane v0.3.1).
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from components.gates.events import recent
from components.gates.gate import Gate, Properties
from components.gates.kube import Kube, Manifest, environment_proxy, path
from components.gates.pods import explained
from components.gates.preflight import no_address
from components.gates.waiting import Done, Failed, Outcome, Run, Waiting, wait
from modelplane.names import API_VERSION, GATEWAY_NAME
from modelplane.readiness import endpoint_missing, gateway_missing, service_missing

# A model list is a few hundred bytes from memory: slower is not serving.
HTTP_SECONDS = 10.0
# A gateway programs a new route within seconds; a 404 after this is an answer.
NOT_FOUND_SETTLE_SECONDS = 60.0


@dataclass(frozen=True)
class Answer:
    """The answer to GET <address>/v1/models. status: 0 without one; error: why; models: the ids it lists."""

    status: int
    error: str = ""
    models: tuple[str, ...] = ()


class ServiceServing(Gate):
    """Inputs: kubeconfig (control plane), namespace, name, model, spec (hash). Output: address, as in
    ModelService.status.address.
    """

    outputs = ("address",)

    def create(self, inputs: Properties, run: Run) -> dict[str, object]:
        kube = Kube(inputs["kubeconfig"])
        return wait(f"ModelService {inputs['namespace']}/{inputs['name']}", lambda: probe(kube, inputs), run).outputs


def probe(kube: Kube, inputs: Properties) -> Outcome:
    """Look once."""
    service = kube.find(path(API_VERSION, "modelservices", namespace=inputs["namespace"], name=inputs["name"]))
    if service is None:
        return Waiting(("it does not exist",))
    gateway = kube.find(path(API_VERSION, "inferencegateways", name=GATEWAY_NAME)) or {}
    ready = not service_missing(service) and not gateway_missing(gateway)
    answer = ask(service["status"]["address"]) if ready else None
    outcome = judge(service, gateway, answer, inputs["model"])
    if not isinstance(outcome, Waiting):
        return outcome
    found = judge_endpoints(_endpoints(kube, service)) if service_missing(service) else Waiting(())
    if isinstance(found, Failed):
        return found
    events = recent(kube, inputs["namespace"], [inputs["name"]])
    return Waiting(
        (*outcome.missing, *found.missing),
        tuple(events),
        outcome.cause or found.cause,
        outcome.remedy or found.remedy,
    )


def judge(service: Manifest, gateway: Manifest, answer: Answer | None, model: str) -> Outcome:
    """What the ModelService, the gateway and the answer (None: not asked) say together."""
    missing = [f"InferenceGateway {GATEWAY_NAME}: {line}" for line in gateway_missing(gateway)] + service_missing(
        service
    )
    if missing or answer is None:
        only_address = len(gateway_missing(gateway)) == 1 and not gateway.get("status", {}).get("address")
        cause, remedy = no_address("the control plane") if only_address else ("", "")
        return Waiting(tuple(missing), cause=cause, remedy=remedy)
    address = service["status"]["address"]
    url = f"{address}/v1/models"
    if answer.status == 0:
        remedy = (
            "the machine that runs pulumi must reach the control plane's gateway: open its firewall for this machine"
        )
        return Waiting((f"{url} does not answer ({answer.error})",), remedy=remedy)
    if answer.status == 404:
        remedy = "`kubectl get httproutes -A` on both clusters shows which gateway did not accept its route"
        return Failed(
            f"{url} answers 404 although routing is ready: a gateway on the way has no route for it, or the engine "
            "does not serve it",
            remedy,
            NOT_FOUND_SETTLE_SECONDS,
        )
    if answer.status != 200:
        return Waiting((f"{url} answers {answer.status}",))
    if model not in answer.models:
        served = ", ".join(answer.models) or "none"
        return Failed(
            f"{url} lists the models {served}, not {model}",
            "set --served-model-name in the recipe to the name that clients send",
        )
    return Done({"address": address})


def judge_endpoints(endpoints: Iterable[Manifest]) -> Waiting | Failed:
    """What keeps the endpoints that a service selects out of its route."""
    missing: list[str] = []
    cause = remedy = ""
    for endpoint in endpoints:
        name = f"ModelEndpoint {endpoint['metadata']['name']}"
        for condition in endpoint.get("status", {}).get("conditions") or []:
            if condition.get("status") != "False":
                continue
            said = (
                f"{condition.get('type')}=False {condition.get('reason')}: {condition.get('message') or 'no message'}"
            )
            known = explained(f"{name}: {said}", said, "condition")
            if isinstance(known, Failed):
                return known
            cause, remedy = cause or known.cause, remedy or known.remedy
        missing += [f"{name}: {line}" for line in endpoint_missing(endpoint)]
    return Waiting(tuple(missing), cause=cause, remedy=remedy)


def _endpoints(kube: Kube, service: Manifest) -> list[Manifest]:
    """The endpoints that the service's selectors match, by labels."""
    selectors = [
        (entry.get("selector") or {}).get("matchLabels") or {}
        for entry in service.get("spec", {}).get("endpoints") or []
    ]
    found = kube.list(path(API_VERSION, "modelendpoints", namespace=service["metadata"]["namespace"]))
    return [
        endpoint
        for endpoint in found
        if any(wanted.items() <= (endpoint["metadata"].get("labels") or {}).items() for wanted in selectors)
    ]


def ask(address: str) -> Answer:
    """GET <address>/v1/models once."""
    proxy = environment_proxy("http", urlsplit(address).hostname or "")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": proxy} if proxy else {}))
    try:
        with opener.open(f"{address}/v1/models", timeout=HTTP_SECONDS) as response:
            body = json.loads(response.read())
            return Answer(response.status, models=tuple(str(entry["id"]) for entry in body["data"]))
    except urllib.error.HTTPError as error:
        return Answer(error.code)
    except urllib.error.URLError as error:
        return Answer(0, str(error.reason))
    except (OSError, ValueError, KeyError, TypeError) as error:
        return Answer(0, f"not a model list: {type(error).__name__}")
