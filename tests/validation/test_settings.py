from __future__ import annotations

import json

import pytest

from engine.findings import Problems
from validation.settings import Declared, DeclaredEngine, JobInput, ResultPlace

JOB = JobInput(
    run="r-1",
    service_address="http://127.0.0.1:18020/ml-team/qwen3-8b-spec",
    model="qwen3-8b-spec",
    namespace="default",
    replicas=("qwen3-8b-spec-54ef8",),
    declared=Declared((DeclaredEngine("qwen3-8b-spec", "vllm/vllm-openai:v0.23.0", ("--model=Qwen/Qwen3-8B",)),)),
    result=ResultPlace("speculation-validation", "verdict"),
)


def test_the_input_survives_its_document() -> None:
    assert JobInput.from_json(JOB.to_json()) == JOB


def test_everything_that_is_wrong_is_said_at_once() -> None:
    given = json.loads(JOB.to_json()) | {"replicas": [], "service_address": "10.0.0.1", "declared": {"engines": []}}
    with pytest.raises(Problems) as caught:
        JobInput.from_json(json.dumps(given))
    assert str(caught.value).splitlines() == [
        "error: input.replicas: []: no replica to look at",
        "error: input.declared.engines: []: no engine declared",
        "error: input.service_address: 10.0.0.1: not an http(s) address",
    ]


def test_another_schema_is_refused() -> None:
    with pytest.raises(Problems, match=r"input\.schema: 9: this program reads schema 1 only"):
        JobInput.from_json(json.dumps(json.loads(JOB.to_json()) | {"schema": 9}))
