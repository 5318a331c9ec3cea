"""A real API server says the same as the types: with the schemas of release v0.3.1, and with ours.

Both sets of schemas are served side by side, each in an API group of its own.
"""

from __future__ import annotations

import copy
import time
from pathlib import Path
from typing import Any

import pytest

from modelplane.kinds import KINDS
from modelplane.xrd import xrd
from recipes import load_recipe
from recipes.loader import recipe_names
from tests.modelplane.cases import ACCEPTED, changed
from tests.modelplane.conftest import ApiServer
from tests.modelplane.refused import REFUSED
from tests.modelplane.shared import UPSTREAM, documents, golden, needs_upstream, parsed, samples

pytestmark = pytest.mark.sandbox

Document = dict[str, Any]
# What Crossplane adds to every composite resource, as far as these tests need it.
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
CONDITIONS = {"type": "array", "items": ANYTHING}


def crd(definition: Document, schemas: str) -> Document:
    """The CRD that Crossplane makes of an XRD, served in the group `<schemas>.<group>`."""
    spec = copy.deepcopy(definition["spec"])
    versions = []
    for version in spec["versions"]:
        properties = version["schema"]["openAPIV3Schema"]["properties"]
        properties["spec"]["properties"]["crossplane"] = ANYTHING
        status = properties.setdefault("status", {"type": "object"})
        status.setdefault("properties", {})["conditions"] = CONDITIONS
        versions.append(
            {
                "name": version["name"],
                "served": version["served"],
                "storage": version["referenceable"],
                "schema": version["schema"],
                "subresources": {"status": {}, **version.get("subresources", {})},
                "additionalPrinterColumns": version.get("additionalPrinterColumns", []),
            }
        )
    group = f"{schemas}.{spec['group']}"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{spec['names']['plural']}.{group}"},
        "spec": {"group": group, "names": spec["names"], "scope": spec["scope"], "versions": versions},
    }


def serve(server: ApiServer, schemas: str, definitions: list[Document]) -> None:
    """Create the CRDs and wait until each is established."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    names = []
    for definition in definitions:
        made = server.send("POST", path, crd(definition, schemas))
        assert made["kind"] == "CustomResourceDefinition", made["message"]
        names.append(made["metadata"]["name"])
    deadline = time.monotonic() + 30
    while names:
        assert time.monotonic() < deadline, f"not established: {names}"
        conditions = server.send("GET", f"{path}/{names[0]}").get("status", {}).get("conditions", [])
        if any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions):
            names.pop(0)
        else:
            time.sleep(0.05)


@pytest.fixture(scope="module")
def server(api_server: ApiServer) -> ApiServer:
    """The API server with the namespaces that the objects name."""
    for name in ("ml-team", "modelplane-system", "platform"):
        api_server.send("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    return api_server


@pytest.fixture(scope="module", params=["ours", "released"])
def schemas(request: pytest.FixtureRequest, server: ApiServer) -> str:
    """The name of a set of schemas that the API server serves."""
    if request.param == "ours":
        serve(server, "ours", [xrd(kind) for kind in KINDS])
    elif not UPSTREAM.is_dir():
        pytest.skip(f"no upstream schemas in {UPSTREAM}")
    else:
        plurals = [kind.DEFINITION.plural for kind in KINDS.values()]
        serve(server, "released", [released(plural) for plural in plurals])
    return str(request.param)


def released(plural: str) -> Document:
    (definition,) = documents(UPSTREAM / "v0.3.1" / "xrds" / f"{plural}.yaml")
    return definition


def collection(document: Document, schemas: str) -> str:
    definition = KINDS[document["kind"]].DEFINITION
    namespace = document["metadata"].get("namespace")
    scope = f"/namespaces/{namespace}" if namespace else ""
    return f"/apis/{schemas}.{definition.group}/v1alpha1{scope}/{definition.plural}"


def refusal(server: ApiServer, schemas: str, document: Document) -> str | None:
    """Why the API server would not create the object; None when it would."""
    body = {**document, "apiVersion": f"{schemas}.{document['apiVersion']}"}
    answer = server.send("POST", collection(document, schemas), body, dryRun="All")
    return None if answer["kind"] == document["kind"] else str(answer["message"])


def test_what_the_types_accept_is_accepted(server: ApiServer, schemas: str) -> None:
    assert {name: refusal(server, schemas, document) for name, document in ACCEPTED.items()} == dict.fromkeys(ACCEPTED)


def test_what_the_types_refuse_is_refused(server: ApiServer, schemas: str) -> None:
    taken = [
        name
        for name, (document, changes, _, _) in REFUSED.items()
        if refusal(server, schemas, changed(document, changes)) is None
    ]
    assert taken == []


def test_recipes_are_accepted(server: ApiServer, schemas: str) -> None:
    emitted = {
        f"{name} {manifest['kind']}": manifest for name in recipe_names() for manifest in load_recipe(name).manifests
    }
    assert {name: refusal(server, schemas, manifest) for name, manifest in emitted.items()} == dict.fromkeys(emitted)


@needs_upstream
@pytest.mark.parametrize("release", ["v0.1.0", "v0.2.0", "v0.3.1"])
def test_upstream_manifests_are_accepted_once_translated(server: ApiServer, schemas: str, release: str) -> None:
    refused = {}
    for path, document in samples(release):
        found, _ = parsed(document)
        if found is not None:
            refused[path, document["metadata"]["name"]] = refusal(server, schemas, found.to_manifest())
    assert len(refused) > 50
    assert {key: why for key, why in refused.items() if why} == {}


@needs_upstream
def test_the_old_form_is_refused_by_the_released_schema_itself(server: ApiServer, schemas: str) -> None:
    old = dict(samples("v0.1.0"))["reference/modeldeployments.yaml"]
    assert 'unknown field "spec.engines"' in str(refusal(server, schemas, old))


@needs_upstream
def test_what_modelplane_composed_is_accepted_with_its_status(server: ApiServer, schemas: str) -> None:
    for plural in ("inferenceclusters", "inferencegateways", "inferenceclasses", "modeldeployments", "modelreplicas",
                   "modelendpoints", "modelservices", "servingstacks"):  # fmt: skip
        for document in golden(f"control-plane.{plural}"):
            body = {**document, "apiVersion": f"{schemas}.{document['apiVersion']}"}
            body["metadata"] = {key: document["metadata"].get(key) for key in ("name", "namespace", "labels")}
            path = collection(document, schemas)
            made = server.send("POST", path, body)
            assert made["kind"] == document["kind"], made["message"]
            status = {**made, "status": document["status"]}
            written = server.send("PUT", f"{path}/{document['metadata']['name']}/status", status)
            assert written.get("status") == document["status"], written
            # Defaults of the schema were in the object already: Modelplane composed it under the same ones.
            assert written["spec"] == document["spec"]


def test_a_deployment_can_be_scaled(server: ApiServer, schemas: str) -> None:
    document = changed(ACCEPTED["the seed's deployment"], {"metadata.name": "scaled"})
    path = collection(document, schemas)
    server.send("POST", path, {**document, "apiVersion": f"{schemas}.{document['apiVersion']}"})
    scale = server.send("GET", f"{path}/scaled/scale")
    scale["spec"]["replicas"] = 3
    server.send("PUT", f"{path}/scaled/scale", scale)
    assert server.send("GET", f"{path}/scaled")["spec"]["replicas"] == 3


@needs_upstream
def test_the_schemas_of_release_0_3_0_are_refused(server: ApiServer) -> None:
    """Why the release is refused: its ModelDeployment and ModelReplica cannot be established."""
    refused = {}
    for path in sorted((UPSTREAM / "v0.3.0" / "xrds").glob("*.yaml")):
        (definition,) = documents(Path(path))
        made = server.send(
            "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd(definition, "broken"), dryRun="All"
        )
        if made["kind"] == "Status":
            refused[definition["spec"]["names"]["kind"]] = made["message"]
    assert set(refused) == {"ModelDeployment", "ModelReplica"}
