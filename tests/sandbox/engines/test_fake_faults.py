"""Every fault of the fake engine, as a checker would meet it."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import time

import pytest

from engine.causes import explain_log
from engine.log import UNKNOWN
from tests.sandbox.engines.fake import (
    ARGS,
    BASE,
    COPY,
    NO_THINKING,
    PROSE,
    RENAMED,
    SEED,
    args_of,
    environment,
    serving,
    started,
)
from tests.sandbox.kubectl import eventually

pytestmark = pytest.mark.process

BASELINE = (*BASE, NO_THINKING)


def witnesses(args: tuple[str, ...], settings: dict[str, object]) -> dict[str, object]:
    """What each witness says about speculation, and the version that /version names."""
    with serving(args, settings=settings) as fake:
        delta = fake.measure(COPY)
        log = fake.log()
        return {
            "args_line": log.speculative_args is not None,
            "config_line": log.speculation.state == "on",
            "metrics": delta.state != "off",
            "version": fake.get("/version")[1]["version"],
        }


@pytest.mark.parametrize("speculates", [True, False])
@pytest.mark.parametrize("lie", ["args_line", "config_line", "metrics", "version"])
def test_one_witness_lies_and_the_others_do_not(lie: str, *, speculates: bool) -> None:
    truth: dict[str, object] = dict.fromkeys(("args_line", "config_line", "metrics"), speculates)
    truth |= {"version": "0.23.0"}
    false: object = "0.10.0" if lie == "version" else not speculates
    assert witnesses(ARGS if speculates else BASELINE, {"lie": lie}) == {**truth, lie: false}


def test_speculation_can_be_ignored_with_all_witnesses_saying_so() -> None:
    assert witnesses(ARGS, {"ignore_speculation": True}) == {
        "args_line": False,
        "config_line": False,
        "metrics": False,
        "version": "0.23.0",
    }


@pytest.mark.parametrize(
    ("settings", "drafted", "inert"),
    [
        ({"never_draft": True}, False, "speculation is on, but nothing was drafted"),
        ({"acceptance": 0}, True, "speculation is on, but no drafted token was accepted"),
        ({}, True, None),
    ],
)
def test_speculation_can_be_on_and_do_nothing(settings: dict[str, object], drafted: object, inert: str | None) -> None:
    with serving(settings=settings) as fake:
        delta = fake.measure(COPY)
        answer = fake.answer(max_tokens=200)
        assert fake.log().speculation.state == "on"
    assert (bool(delta.drafts), delta.inert, delta.problems) == (drafted, inert, ())
    assert answer.text == RENAMED, "the answer is the same"


def test_acceptance_can_be_lowered() -> None:
    with serving() as full, serving(settings={"acceptance": 0.5}) as half:
        rates = [fake.measure(COPY).acceptance_rate for fake in (full, half)]
    assert rates[0] is not None
    assert rates[1] is not None
    assert 0 < rates[1] < rates[0]


@pytest.mark.parametrize(
    ("answer", "text", "tokens"),
    [
        ("empty", "", 1),
        ("loop", "again again again", 4),
        ({"text": "forty-two"}, "forty-two", 4),
    ],
)
def test_answers_can_be_wrong(answer: object, text: str, tokens: int) -> None:
    with serving(settings={"answer": answer, "answer_tokens": 3}) as fake:
        found = fake.answer(max_tokens=200)
        streamed = fake.stream(max_tokens=200, stream_options={"include_usage": True})
    assert (found.text, streamed.text, found.finish_reason) == (text, text, "stop")
    assert found.usage is not None
    assert streamed.usage == found.usage
    assert found.usage.completion_tokens == tokens


def test_garbage_is_no_copy_and_prose_is_what_it_says() -> None:
    for kind in ("garbage", "prose"):
        with serving(settings={"answer": kind}) as fake:
            text = fake.answer(max_tokens=200).text
            assert fake.measure(COPY).acceptance_rate in (None, 0)
        assert len(text) > 50
        assert "def cart" not in text


SCHEMA = {
    "type": "object",
    "properties": {"colour": {"type": "string", "enum": ["red", "blue"]}, "bright": {"type": "boolean"}},
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "sky", "schema": SCHEMA}}
QUESTION = "What is the capital of France?"


@pytest.mark.parametrize("version", ["0.11.2", "0.33.0"])
def test_a_schema_and_the_known_question_are_answered(version: str) -> None:
    with serving(args_of(version), version) as fake:
        answers = [fake.answer("Which colour?", **{name: value}).text for name, value in (
            ("response_format", FORMAT), ("structured_outputs", {"json": SCHEMA}),
        )]  # fmt: skip
        question = fake.answer(QUESTION).text.rpartition("\n")[2]
    assert [json.loads(text) for text in answers] == [{"colour": "red", "bright": True}] * 2
    assert question == "The capital of France is Paris."


def test_faults_are_switched_while_it_serves() -> None:
    with serving() as fake:

        def switched(**settings: object) -> tuple[int, str, str]:
            body = {"tokens_per_second": 0, **settings}
            assert fake.request("PUT", "/fake/settings", body)[0] == 204
            status, guided = fake.ask("Which colour?", response_format=FORMAT)
            text = guided["choices"][0]["message"]["content"] if status == 200 else guided["error"]["message"]
            return status, text, fake.answer(QUESTION).text

        assert switched(guided="invalid")[:2] == (200, '{"colour": "red"')
        assert switched(guided="refused")[:2] == (400, "Structured outputs are not supported by this engine.")
        assert switched(guided="failing")[0] == 500
        assert switched(guided="ignored", question="loop") == (
            200, switched(guided="ignored")[1], " ".join(["again"] * 64),
        )  # fmt: skip
        assert switched(question="empty")[2] == ""
        assert switched()[1:] == ('{"colour": "red", "bright": true}', "The capital of France is Paris.")
        status, refused = fake.request("PUT", "/fake/settings", {"ignore_speculation": True})
        assert (status, json.loads(refused)["error"].partition(":")[0]) == (400, "error")
        assert b"at start only" in refused
        assert fake.request("PUT", "/fake/settings", {"speed": 1})[0] == 400
        assert fake.ask()[0] == 200


def test_an_event_can_be_one_token_whatever_a_step_gave() -> None:
    with serving(settings={"split_steps": True}) as fake:
        found = fake.stream(max_tokens=200, stream_options={"include_usage": True})
        assert fake.measure(COPY).accepted
    assert found.usage is not None
    assert found.chunks == found.usage.completion_tokens + 1, "and one that names the role"


@pytest.mark.parametrize("status", [404, 500, 503])
def test_paths_can_fail(status: int) -> None:
    with serving(settings={"status": {"/v1/chat/completions": status}}) as fake:
        assert fake.ask()[0] == status
        assert fake.get("/v1/models")[0] == 200
        assert f'"POST /v1/chat/completions HTTP/1.1" {status} ' in fake.text()


def test_usage_can_be_missing() -> None:
    with serving(settings={"usage": False}) as fake:
        whole = fake.answer()
        stream = fake.stream(stream_options={"include_usage": True, "continuous_usage_stats": True})
    assert (whole.problem, stream.problem) == ("the server sent no usage, so its tokens are unknown",) * 2
    assert whole.text


def test_a_stream_can_be_cut_stalled_merged_and_commented() -> None:
    with serving(settings={"cut_stream": True}) as fake:
        cut = fake.stream(PROSE)
    assert (cut.problem, cut.done, 0 < len(cut.text) < 300) == ("the answer was cut off before its end", False, True)
    with serving(settings={"stall_seconds": 0.4}) as fake:
        stalled = fake.stream(PROSE, max_tokens=20, stream_options={"include_usage": True})
    gaps = [later - earlier for earlier, later in zip(stalled.token_stamps, stalled.token_stamps[1:], strict=False)]
    assert (stalled.problem, max(gaps) >= 0.39) == (None, True)
    with serving(settings={"merge_steps": 10}) as fake:
        merged = fake.stream(PROSE, max_tokens=40)
    assert merged.chunks <= 5, "the role and at most four events"
    with serving(settings={"keep_alive_comments": True}) as fake:
        raw = fake.request("POST", "/v1/chat/completions", fake.chat(COPY, stream=True))[1]
        assert b"\n\n: keep-alive\n\n" in raw
        assert fake.stream(max_tokens=200).text == RENAMED


def test_loading_can_hang_and_can_take_its_time() -> None:
    with started(settings={"hang_loading": True}) as fake:
        eventually(lambda: "Starting to load model" in fake.text())
        time.sleep(0.3)
        log = fake.log()
        with pytest.raises(OSError, match="refused"):
            fake.request("GET", "/health")
        assert (log.speculation.state, log.ready, log.kv_cache) == ("on", False, None)
        assert fake.stop() == 0, "SIGTERM ends it"
    begun = time.monotonic()
    with serving(settings={"load_seconds": 0.8}) as fake:
        assert time.monotonic() - begun >= 0.8
        assert "Loading weights took 0.80 seconds" in fake.text()


def test_the_engine_core_can_die_while_serving() -> None:
    with serving(settings={"crash_after": 2}) as fake:
        assert [fake.ask()[0] for _ in range(2)] == [200, 200]
        status, body = fake.ask()
        assert (status, body["error"]["type"]) == (500, "InternalServerError")
        assert fake.child.wait(10) == 1
        error, _ = explain_log(fake.text())
    assert error == "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"


def test_start_up_lines_can_be_gone() -> None:
    with serving(settings={"start_lines": False}, env={"VLLM_LOG_STATS_INTERVAL": "0.1"}) as fake:
        delta = fake.measure(COPY)
        eventually(lambda: fake.log().spec_windows)
        log = fake.log()
    assert (log.speculation, log.args, log.version, log.kv_cache) == (UNKNOWN, None, None, None)
    assert sum(window.drafted for window in log.spec_windows) == delta.draft_tokens


def test_the_key_can_be_printed_where_it_should_not() -> None:
    args = (*ARGS, "--api-key=sk-of-a-test-0123456789")
    with serving(args, "0.32.0", settings={"print_api_key": True}) as fake:
        assert "sk-of-a-test-0123456789" in fake.text()


def test_log_stats_can_be_off_as_with_vllm() -> None:
    with serving((*ARGS, "--disable-log-stats"), env={"VLLM_LOG_STATS_INTERVAL": "0.1"}) as fake:
        delta = fake.measure(COPY)
        time.sleep(0.4)
        log = fake.log()
    assert (delta.drafts, delta.generated) == (0, 0), "the counters do not move either"
    assert (log.spec_windows, log.engine_windows) == ((), ())


def test_an_address_in_use_ends_it() -> None:
    with serving() as first:
        argv = [sys.executable, "-m", "sandbox.engines.fake", *ARGS, "--host", first.host]
        done = subprocess.run(argv, env=environment(), capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 1
    _, cause = explain_log(done.stdout + done.stderr)
    assert cause is not None
    assert cause.id == "port-taken"


def test_a_broken_request_breaks_nothing() -> None:
    with serving() as fake:
        for raw in (b"\r\n\r\n", b"GET\r\n\r\n", b"POST /v1/completions HTTP/1.1\r\nContent-Length: x\r\n\r\n"):
            with socket.create_connection((fake.host, fake.port), timeout=5) as client:
                client.sendall(raw)
                client.shutdown(socket.SHUT_WR)
                client.recv(1000)
        chunked = http.client.HTTPConnection(fake.host, fake.port, timeout=5)
        body = json.dumps(fake.chat(COPY)).encode()
        parts = iter([body[:10], body[10:]])
        chunked.request("POST", "/v1/chat/completions", parts, fake.headers, encode_chunked=True)
        assert chunked.getresponse().status == 200


def test_dotted_and_short_spellings_speculate_too() -> None:
    dotted = [word for key, value in SEED.items() for word in (f"--speculative-config.{key}", str(value))]
    with serving((*BASE, NO_THINKING, *dotted)) as one, serving((*BASE, NO_THINKING, "-sc", json.dumps(SEED))) as two:
        found = [fake.measure(COPY) for fake in (one, two)]
    assert found[0] == found[1]
    assert found[0].accepted
