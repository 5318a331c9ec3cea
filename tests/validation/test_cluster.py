"""What the cluster around the engine does to a validation: permissions, routes, restarts, several replicas, the Job."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from tests.validation.engines import SPEC_ARGS, engine, gateway, page
from tests.validation.kube_server import KubeServer
from tests.validation.validating import job, readings, run
from validation.answer import CHAT, COPY, EDIT, GUIDED
from validation.kube import Kube
from validation.run import validate
from validation.verdict import Outcome, Reading, Verdict, WitnessName

pytestmark = pytest.mark.process

LIVE, LOG, METRICS, BEHAVIOUR = (
    WitnessName.LIVE_ARGS,
    WitnessName.ENGINE_LOG,
    WitnessName.METRICS,
    WitnessName.BEHAVIOUR,
)
PEER = {"name": "qwen-0aa11-qwen-8cccc-x2", "replica": "qwen-0aa11"}


def normal(verdict: Verdict, *changing: str) -> dict[str, Any]:
    """The whole document with times, durations and addresses replaced."""
    text = verdict.to_json()
    for value in changing:
        text = text.replace(value, "ENGINE")
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME", text)
    text = re.sub(r"\d+\.\d+ s\b", "SECONDS", text)
    found: dict[str, Any] = json.loads(text)
    return found


def counters(url: str) -> dict[str, int]:
    """What a fresh engine has counted, read off its page by the exposed names."""
    names = {
        "spec_decode_num_drafts_total": "drafts",
        "spec_decode_num_draft_tokens_total": "draft_tokens",
        "spec_decode_num_accepted_tokens_total": "accepted_tokens",
        "prompt_tokens_total": "prompt_tokens",
        "generation_tokens_total": "completion_tokens",
    }
    found: dict[str, int] = {}
    for name, labels, value in re.findall(r"^vllm:(\w+)\{(.*)\} (\S+)$", page(url), re.MULTILINE):
        if name in names:
            found[names[name]] = int(float(value))
        if name == "spec_decode_num_accepted_tokens_per_pos_total":
            found["position " + re.findall(r'position="(\d+)"', labels)[0]] = int(float(value))
    return found


def test_the_whole_verdict_of_a_speculating_engine(kube: KubeServer, tmp_path: Path) -> None:
    # One step carries its tokens in one event only when the reader keeps up.
    counted: dict[str, int] = {}
    with engine(tmp_path, faults={"tokens_per_second": 100}) as served:
        verdict = run(kube, job([served]), [served], copied=lambda: counted.update(counters(served.url)))
        found = normal(verdict, served.url, served.ip)
    tokens = counted["completion_tokens"]
    log = "log of Pod default/qwen-54ef8-qwen-73f3b-x1, container engine"
    config = "speculative config ngram, 5 tokens, n-gram 2 to 4"
    answers = found["witnesses"][4].pop("evidence")
    assert [line.partition(" (")[0] for line in answers] == [
        f"{tokens} tokens in {found['numbers']['chunks']} chunks",
        "edit: exact",
        "copy: exact",
        "chat: exact",
        "JSON: exact",
    ]
    assert found["witnesses"][2].pop("evidence")[-1].startswith("non-default args: {'host': 'ENGINE'")
    numbers = found.pop("numbers")
    chunks = numbers.pop("chunks")
    assert numbers.pop("tokens_per_chunk") == round(tokens / chunks, 4)
    drafts, drafted, accepted = counted["drafts"], counted["draft_tokens"], counted["accepted_tokens"]
    assert 0 < accepted < drafted
    # An accepted token needs no step of its own; those past the end of an answer (at most k) were cut off.
    assert chunks <= tokens - accepted + 2 * 5
    assert numbers == {
        "drafts": drafts,
        "draft_tokens": drafted,
        "accepted_tokens": accepted,
        "acceptance_length": round(1 + accepted / drafts, 4),
        "acceptance_rate": round(accepted / drafted, 4),
        "accepted_per_position": [counted[f"position {place}"] for place in range(5)],
        "prompt_tokens": counted["prompt_tokens"],
        "completion_tokens": tokens,
        "conditions": (
            "2 requests one after the other (edit and copy task), temperature 0; counters of 1 of 1 engines over "
            "SECONDS, no other request in them; length counts drafted steps; drafted are steps with a match"
        ),
    }
    assert found == {
        "schema": 1,
        "verdict": "speculating",
        "declared": "speculating",
        "ok": True,
        "sentence": "Speculation works: declared args, live args, engine log, metrics and behaviour agree.",
        "witnesses": [
            {
                "name": "declared_args",
                "reading": "on",
                "says": "yes",
                "evidence": [config, "image vllm/vllm-openai:v0.23.0"],
                "source": "recipe, as the Job's input",
                "time": "TIME",
                "why": "",
            },
            {
                "name": "live_args",
                "reading": "on",
                "says": "yes",
                "evidence": [config, "image vllm/vllm-openai:v0.23.0, 0 restarts"],
                "source": "Pod default/qwen-54ef8-qwen-73f3b-x1, container engine",
                "time": "TIME",
                "why": "",
            },
            {"name": "engine_log", "reading": "on", "says": "yes", "source": log, "time": "TIME", "why": ""},
            {
                "name": "metrics",
                "reading": "on",
                "says": "yes",
                "evidence": [
                    f"{drafts} drafts, {accepted} of {drafted} draft tokens accepted ({accepted / drafted:.0%}), "
                    f"mean acceptance length {1 + accepted / drafts:.2f}, {tokens} tokens generated",
                    f"accepted by position: {', '.join(str(count) for count in numbers['accepted_per_position'])}",
                ],
                "source": "ENGINE/metrics",
                "time": "TIME",
                "why": "",
            },
            {
                "name": "behaviour",
                "reading": "on",
                "says": "yes",
                "source": "ENGINE/v1/chat/completions",
                "time": "TIME",
                "why": "",
            },
        ],
        "run": "r-1",
        "engine_version": "0.23.0",
        "started": "TIME",
        "ended": "TIME",
        "notes": [],
    }


@pytest.mark.parametrize("others", [0, 1], ids=["one engine", "one of two"])
def test_the_probe_costs_an_engine_fewer_than_1000_tokens(kube: KubeServer, tmp_path: Path, others: int) -> None:
    """At the most: every answer runs to its limit, and all that goes through the service address comes to this one."""
    with engine(tmp_path) as served, engine(tmp_path, pod=PEER) as peer, gateway(served.url) as route:
        engines = [served, peer][: 1 + others]
        assert run(kube, job(engines, address=route.url), engines).verdict is Outcome.SPECULATING
        counted = counters(served.url)
    most = EDIT.max_tokens + COPY.max_tokens * (1 + others) + CHAT.max_tokens + GUIDED.max_tokens
    # The templates of some models put a system prompt of up to 40 tokens before each question.
    assert counted["prompt_tokens"] + 40 * (4 + others) + most < 1000
    assert counted["completion_tokens"] < most


FORBIDDEN = [
    ({"pods/log"}, "speculating", "on on unknown on on", LOG, "get pods/log in namespace default (403)"),
    ({"pods"}, "cannot-tell", "on unknown unknown on on", LIVE, "list pods in namespace default (403)"),
]


@pytest.mark.parametrize(("forbidden", "verdict", "expected", "name", "why"), FORBIDDEN, ids=["pods/log", "pods"])
def test_a_missing_permission_is_an_unknown_that_names_it(
    kube: KubeServer, tmp_path: Path, forbidden: set[str], verdict: str, expected: str, name: WitnessName, why: str
) -> None:
    kube.forbidden = forbidden
    with engine(tmp_path) as served:
        found = run(kube, job([served]), [served])
    assert (found.verdict, readings(found)) == (verdict, expected)
    assert found.witness(name).why.endswith(f"the ServiceAccount lacks the permission to {why}")


def test_a_replica_without_a_pod_is_an_unknown_that_names_it(kube: KubeServer, tmp_path: Path) -> None:
    with engine(tmp_path) as served, engine(tmp_path, pod=PEER) as gone:
        found = run(kube, job([served, gone], address=served.url), [served])
    assert (found.verdict, readings(found)) == ("cannot-tell", "on unknown unknown unknown on")
    assert found.witness(LIVE).why == (
        "qwen-0aa11: no running pod is labelled modelplane.ai/serving=qwen-0aa11 in namespace default"
    )


def test_a_pod_that_ends_is_not_judged(kube: KubeServer, tmp_path: Path) -> None:
    with engine(tmp_path) as served:
        ending = served.pod()
        ending["metadata"] |= {"name": "old", "deletionTimestamp": "2026-01-01T00:00:00Z"}
        kube.pods = [ending, served.pod()]
        kube.logs = {(served.name, False): served.log_file.read_text()}
        found = validate(job([served]), Kube(kube.url, kube.service_account), patience_s=0)
    assert (found.verdict, found.witness(LIVE).source) == (
        "speculating",
        f"Pod default/{served.name}, container engine",
    )


def test_all_replicas_are_judged_and_their_counters_summed(kube: KubeServer, tmp_path: Path) -> None:
    sums: list[list[dict[str, int]]] = []
    with engine(tmp_path) as one, engine(tmp_path, pod=PEER) as two, gateway(one.url, two.url) as route:
        look = [one.url, two.url]
        found = run(
            kube,
            job([one, two], address=route.url),
            [one, two],
            copied=lambda: sums.append([counters(url) for url in look]),
        )
    counted = sums[0]
    assert (found.verdict, readings(found)) == ("speculating", "on on on on on")
    assert found.numbers is not None
    for name in ("drafts", "accepted_tokens", "completion_tokens"):
        assert min(counts[name] for counts in counted) > 0
        assert getattr(found.numbers, name) == sum(counts[name] for counts in counted)


@pytest.mark.parametrize(
    ("faults", "verdict", "expected"),
    [
        ({"ignore_speculation": True}, "declared-but-off", "on on off off *"),
        ({"never_draft": True}, "on-but-inert", "on on on inert *"),
        ({"answer": "garbage"}, "corrupt-output", "on on on * corrupt"),
        ({"question": "garbage"}, "corrupt-output", "on on on on corrupt"),
    ],
    ids=["off", "inert", "garbage", "garbage in questions"],
)
def test_one_wrong_replica_is_not_outvoted(
    kube: KubeServer, tmp_path: Path, faults: dict[str, Any], verdict: str, expected: str
) -> None:
    with engine(tmp_path) as right, engine(tmp_path, faults=faults, pod=PEER) as wrong:
        # The service address leads to the right one only.
        found = run(kube, job([right, wrong], address=right.url), [right, wrong])
    assert found.verdict == verdict, found.text()
    assert re.fullmatch(expected.replace("*", r"\w+"), readings(found))
    assert wrong.name in found.sentence


@pytest.mark.parametrize("status", [500, 503])
def test_a_route_that_comes_up_is_waited_for(kube: KubeServer, tmp_path: Path, status: int) -> None:
    with engine(tmp_path) as served, gateway(served.url) as route:
        route.refuse = [status]
        found = run(kube, job([served], address=route.url), [served], patience_s=10)
    assert (found.verdict, route.seen.count("POST /v1/chat/completions")) == ("speculating", 5)


def test_a_route_that_does_not_come_up_is_waited_for_within_a_bound(kube: KubeServer, tmp_path: Path) -> None:
    with engine(tmp_path) as served, gateway(served.url) as route:
        route.refuse = [503] * 100
        began = time.monotonic()
        found = run(kube, job([served], address=route.url), [served], patience_s=2)
        took = time.monotonic() - began
    assert (found.verdict, readings(found), took < 60) == ("cannot-tell", "on on on unknown unknown", True)
    assert "answers 503 Service Unavailable: no available server" in found.witness(BEHAVIOUR).why


def test_a_refused_connection_is_said_in_one_line(kube: KubeServer, tmp_path: Path) -> None:
    with engine(tmp_path) as served:
        found = run(kube, job([served], address="http://127.0.0.1:1/ml-team/qwen"), [served])
    assert found.verdict is Outcome.CANNOT_TELL
    assert found.witness(BEHAVIOUR).why == (
        "edit: http://127.0.0.1:1/ml-team/qwen/v1/chat/completions does not answer: [Errno 111] Connection refused"
    )


def test_a_404_is_not_retried(kube: KubeServer, tmp_path: Path) -> None:
    with engine(tmp_path) as served, gateway(served.url) as route:
        route.refuse = [404, 404]
        found = run(kube, job([served], address=route.url), [served], patience_s=30)
    assert (found.verdict, route.seen.count("POST /v1/chat/completions")) == ("cannot-tell", 2)
    assert "answers 404 Not Found" in found.sentence


def test_another_model_name_than_served_is_said_in_the_engines_words(kube: KubeServer, tmp_path: Path) -> None:
    args = [arg.replace("served-model-name=qwen", "served-model-name=other") for arg in SPEC_ARGS]
    with engine(tmp_path, args) as served:
        found = run(kube, job([served]), [served])
    assert found.verdict is Outcome.CANNOT_TELL
    assert "The model `qwen` does not exist" in found.witness(BEHAVIOUR).why


def test_a_restarted_engine_shows_the_last_error_of_the_one_before(kube: KubeServer, tmp_path: Path) -> None:
    with engine(tmp_path) as served:
        pod = served.pod(containerStatuses=[{"name": "engine", "restartCount": 1}])
        kube.pods = [pod]
        kube.logs = {
            (served.name, False): served.log_file.read_text(),
            (
                served.name,
                True,
            ): "(EngineCore pid=9) ERROR 11-30 20:19:06 [core.py:1] failed\nRuntimeError: CUDA error: out of memory\n",
        }
        found = validate(job([served]), Kube(kube.url, kube.service_account), patience_s=0)
    assert "last error before the restart: RuntimeError: CUDA error: out of memory" in found.witness(LOG).evidence


@pytest.mark.parametrize("version", ["0.11.2", "0.23.0"])
def test_the_api_key_that_a_version_logs_is_used_and_never_told(kube: KubeServer, tmp_path: Path, version: str) -> None:
    secret = "tok-3f9a71c2"
    with engine(tmp_path, (*SPEC_ARGS, f"--api-key={secret}"), version=version) as served:
        found = run(kube, job([served]), [served])
        assert secret in served.log_file.read_text()
    assert found.verdict is Outcome.SPECULATING
    assert secret not in found.to_json() + found.text()


def test_a_key_from_the_pods_environment_is_used_and_never_told(kube: KubeServer, tmp_path: Path) -> None:
    secret = "3f9a71c2-0b"
    with engine(tmp_path, (*SPEC_ARGS, "--api-key=$(VLLM_API_KEY)"), env={"VLLM_API_KEY": secret}) as served:
        assert secret in served.log_file.read_text()
        found = run(kube, job([served]), [served])
    assert found.verdict is Outcome.SPECULATING
    assert secret not in found.to_json() + found.text()


def test_flags_that_differ_are_told_without_their_secrets(kube: KubeServer, tmp_path: Path) -> None:
    live = (*SPEC_ARGS, "--api-key", "tok'3f9a71c2", "--max-num-seqs", "4")
    declared = (*SPEC_ARGS, "--api-key", "tok-77aa88bb", "--max-num-seqs=8")
    with engine(tmp_path, live) as served:
        found = run(kube, job([served], declared=declared), [served])
    assert (found.verdict, found.witness(LIVE).reading) == ("cannot-tell", Reading.DIFFERS)
    assert found.witness(LIVE).evidence[0] == (
        "--api-key: declared ***, in the pod ***; --max-num-seqs: declared 8, in the pod 4"
    )
    assert "3f9a71c2" not in found.to_json() + found.text()
    assert "tok-" not in found.to_json()


def test_an_image_whose_tag_lies_about_the_version_is_told(kube: KubeServer, tmp_path: Path) -> None:
    with engine(tmp_path, faults={"lie": "version"}) as served:
        found = run(kube, job([served]), [served])
    assert (found.verdict, found.witness(LOG).reading) == ("cannot-tell", Reading.DIFFERS)
    assert found.witness(LOG).evidence[0] == (
        "engine version: the image tag says 0.23.0, /version says 0.10.0; "
        "engine version: the log says 0.23.0, /version says 0.10.0"
    )
    assert "engine version: the image tag says 0.23.0, /version says 0.10.0" in found.sentence


def test_evidence_of_a_huge_noisy_log_stays_small(kube: KubeServer, tmp_path: Path) -> None:
    with engine(tmp_path) as served:
        kube.pods = [served.pod()]
        noise = "\x1b[31m" + "é'\"\\" * 2000 + "\x00\n"
        kube.logs = {(served.name, False): noise * 3 + served.log_file.read_text() + noise * 300}
        found = validate(job([served]), Kube(kube.url, kube.service_account), patience_s=0)
    assert (found.verdict, len(found.to_json().encode()) < 64 * 1024) == ("speculating", True)
