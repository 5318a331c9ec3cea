import base64

import pytest
from lightkube.models.core_v1 import ConfigMap, Container, Secret, Service

from sandbox.runner.environment import (
    Addresses,
    ConfigError,
    Objects,
    command_line,
    environment,
    expand,
    field_value,
    references,
    service_variables,
)
from tests.sandbox.runner.pods import made, pod

ADDRESSES = Addresses(pod_ip="127.20.0.7", host_ip="127.0.0.1")


def secret(**data: str) -> Secret:
    return Secret(data={key: base64.b64encode(text.encode()).decode() for key, text in data.items()})


def service(name: str, ip: str, *ports: dict[str, object]) -> Service:
    return made(
        Service, {"metadata": {"name": name, "namespace": "default"}, "spec": {"clusterIP": ip, "ports": list(ports)}}
    )


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("--port=$(PORT)", "--port=8000"),
        ("$(PORT)$(PORT)", "80008000"),
        ("$$(PORT)", "$(PORT)"),
        ("$$$(PORT)", "$8000"),
        ("$(MISSING)", "$(MISSING)"),
        ("$PORT ${PORT}", "$PORT ${PORT}"),
        ("$(PORT", "$(PORT"),
        ("100$", "100$"),
        ('{"a": "$(PORT)"}', '{"a": "8000"}'),
        ("", ""),
    ],
)
def test_references_are_expanded_as_kubernetes_does(text: str, expanded: str) -> None:
    assert expand(text, {"PORT": "8000"}) == expanded


def test_an_earlier_mapping_wins() -> None:
    assert expand("$(A)$(B)", {"A": "1"}, {"A": "2", "B": "3"}) == "13"


def test_the_environment_has_values_references_fields_and_service_variables() -> None:
    container = made(
        Container,
        {
            "name": "c",
            "envFrom": [{"prefix": "P_", "configMapRef": {"name": "settings"}}, {"secretRef": {"name": "tokens"}}],
            "env": [
                {"name": "PORT", "value": "8000"},
                {"name": "URL", "value": "http://$(IP):$(PORT)/$(VLLM_SERVICE_HOST)"},
                {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                {"name": "ADDRESS", "value": "$(IP):$(PORT)"},
                {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "tokens", "key": "hf"}}},
                {"name": "LEVEL", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "level"}}},
                {"name": "ABSENT", "valueFrom": {"secretKeyRef": {"name": "none", "key": "x", "optional": True}}},
                {"name": "EMPTY"},
                {"name": "VLLM_PORT", "value": "9"},
            ],
        },
    )
    objects = Objects(
        {"settings": ConfigMap(data={"level": "INFO"})}, {"tokens": secret(hf="hf_x", other="o"), "none": None}
    )
    services = {"VLLM_SERVICE_HOST": "10.97.0.9", "VLLM_PORT": "tcp://10.97.0.9:80"}
    assert environment(pod(), container, objects, services, ADDRESSES) == {
        "VLLM_SERVICE_HOST": "10.97.0.9",
        # A declared variable replaces the Service's: the way out of the `Service named vllm` trap.
        "VLLM_PORT": "9",
        "P_level": "INFO",
        "hf": "hf_x",
        "other": "o",
        "PORT": "8000",
        # IP is declared later, so it is not known yet.
        "URL": "http://$(IP):8000/10.97.0.9",
        "IP": "127.20.0.7",
        "ADDRESS": "127.20.0.7:8000",
        "TOKEN": "hf_x",
        "LEVEL": "INFO",
        "EMPTY": "",
    }
    assert references(container) == ({"settings"}, {"tokens", "none"})


@pytest.mark.parametrize(
    ("env", "why"),
    [
        ({"secretKeyRef": {"name": "none", "key": "x"}}, 'secret "none" not found'),
        ({"secretKeyRef": {"name": "tokens", "key": "x"}}, "couldn't find key x in Secret default/tokens"),
        ({"configMapKeyRef": {"name": "none", "key": "x"}}, 'configmap "none" not found'),
        ({"configMapKeyRef": {"name": "settings", "key": "x"}}, "couldn't find key x in ConfigMap default/settings"),
        ({"fieldRef": {"fieldPath": "spec.unknown"}}, "unsupported fieldPath: spec.unknown"),
        (
            {"resourceFieldRef": {"resource": "limits.cpu"}},
            "resourceFieldRef and fileKeyRef are not supported by the sandbox's pod runner",
        ),
    ],
)
def test_what_a_variable_lacks_is_said_in_the_kubelets_words(env: dict[str, object], why: str) -> None:
    container = made(Container, {"name": "c", "env": [{"name": "X", "valueFrom": env}]})
    objects = Objects({"settings": ConfigMap(data={})}, {"tokens": secret()})
    with pytest.raises(ConfigError) as error:
        environment(pod(), container, objects, {}, ADDRESSES)
    assert str(error.value) == why


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "engine-0"),
        ("metadata.namespace", "default"),
        ("metadata.uid", "0-1-2-3"),
        ("metadata.labels", 'app="engine"\nquoted="a\\"b"'),
        ("metadata.labels['app']", "engine"),
        ("metadata.annotations['none']", ""),
        ("spec.nodeName", "system-1"),
        ("status.podIP", "127.20.0.7"),
        ("status.hostIPs", "127.0.0.1"),
    ],
)
def test_fields_of_the_downward_api(path: str, value: str) -> None:
    assert field_value(pod(), path, ADDRESSES) == value


def test_a_service_named_vllm_sets_vllm_port() -> None:
    services = [service("vllm", "10.97.0.9", {"port": 80, "name": "http"}), service("headless", "None", {"port": 1})]
    assert service_variables(services) == {
        "VLLM_SERVICE_HOST": "10.97.0.9",
        "VLLM_SERVICE_PORT": "80",
        "VLLM_SERVICE_PORT_HTTP": "80",
        "VLLM_PORT": "tcp://10.97.0.9:80",
        "VLLM_PORT_80_TCP": "tcp://10.97.0.9:80",
        "VLLM_PORT_80_TCP_PROTO": "tcp",
        "VLLM_PORT_80_TCP_PORT": "80",
        "VLLM_PORT_80_TCP_ADDR": "10.97.0.9",
    }


@pytest.mark.parametrize(
    ("container", "words"),
    [
        ({}, ["vllm", "serve", "--default"]),
        ({"args": ["--model=$(M)"]}, ["vllm", "serve", "--model=m"]),
        ({"command": ["sh", "-c"], "args": ["echo $(M) $$(M)"]}, ["sh", "-c", "echo m $(M)"]),
        ({"command": ["python3"]}, ["python3"]),
    ],
)
def test_command_and_args_replace_what_the_image_says(container: dict[str, list[str]], words: list[str]) -> None:
    item = made(Container, {"name": "c", **container})
    assert command_line(item, ["vllm", "serve"], ["--default"], {"M": "m"}) == words
