"""The fake engine as a process: its log, metrics and streams are read by the same parsers that read the real one's."""

from __future__ import annotations

import json
import re
import resource
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from engine.log import KvCache, Speculation, parse_log
from engine.metrics import SpeculationDelta
from engine.speculative import SpeculativeConfig
from engine.sse import Usage
from engine.versions import EngineVersion, Runner
from sandbox.engines.fake.drafting import Rules
from tests.sandbox.engines.fake import ARGS, BASE, COPY, NO_THINKING, PROSE, RENAMED, SEED, SPEC, Fake, serving
from tests.sandbox.engines.reference import replay
from tests.sandbox.kubectl import eventually

# Which model runner serves n-gram in each version: it decides which match is taken and how many drafts are made.
RUNNERS: dict[str, Runner] = {"0.11.2": "V1", "0.14.0": "V1", "0.23.0": "V1", "0.32.0": "V2", "0.33.0": "V2"}
CONFIG = SpeculativeConfig("ngram", 5, 2, 4)


def args_of(version: str) -> tuple[str, ...]:
    return ARGS if version >= "0.14" else (*BASE, SPEC)


@pytest.mark.parametrize("version", RUNNERS)
def test_each_version_speculates_and_all_witnesses_agree(version: str) -> None:
    with serving(args_of(version), version, {"think": False}, {"VLLM_LOG_STATS_INTERVAL": "0.2"}) as fake:
        delta = fake.measure(COPY)
        ids = fake.answer(max_tokens=200, return_token_ids=True)
        eventually(lambda: sum(window.drafted for window in fake.log().spec_windows) >= 2 * (delta.draft_tokens or 0))
        assert fake.get("/version") == (200, {"version": version})
        assert fake.stop() == 0
        text, log = fake.text(), fake.log()
    # An independent replay over the token ids gives the same numbers.
    rules = Rules(CONFIG, RUNNERS[version], EngineVersion.of_text(version).features, 16384)
    found = replay([*ids.prompt_token_ids], [*ids.token_ids], rules, 200)
    drafted, accepted = sum(drafts for drafts, _ in found), sum(right for _, right in found)
    assert 15 < accepted < drafted, "a copy is drafted and accepted, a rename is not"
    assert delta.state == "measured"
    assert (delta.drafts, delta.draft_tokens, delta.accepted) == (len(found), drafted, accepted)
    assert delta.problems == ()
    # Both answers are in the log's windows.
    assert sum(window.drafted for window in log.spec_windows) == 2 * drafted
    assert sum(window.accepted for window in log.spec_windows) == 2 * accepted
    assert [problem for window in log.spec_windows for problem in window.problems()] == []
    assert log.problems == ()
    assert (log.version, log.model, log.starts, log.ready) == (version, "Qwen/Qwen3-8B", 1, True)
    speculation = log.speculation
    assert (speculation.state, speculation.method, speculation.num_speculative_tokens) == ("on", "ngram", 5)
    assert log.speculative_args == SEED
    assert log.runner == ("V1" if version == "0.23.0" else None), "only some versions say so"
    assert {name for name, _ in log.processes} == {
        "APIServer",
        "EngineCore_DP0" if version < "0.18" else "EngineCore",
        "Worker",
    }
    assert ("\x1b[1;36m(APIServer" in text) is (version == "0.11.2" or version == "0.14.0")
    access = re.search(r'^(.*)INFO:     127\.0\.0\.1:\d+ - "GET /version HTTP/1.1" 200 OK$', text, re.MULTILINE)
    assert access is not None
    assert bool(access[1]) is (version < "0.32"), "from 0.32 on uvicorn's lines have no prefix"


def test_the_seed_on_an_l4_is_logged_as_vllm_logs_it() -> None:
    with serving() as fake:
        log = parse_log(fake.text())
    assert log.speculation == Speculation(
        "on", "ngram", 5, None, "speculative_config=SpeculativeConfig(method='ngram', model=None, num_spec_tokens=5)"
    )
    assert log.args == {
        "default_chat_template_kwargs": {"enable_thinking": False},
        "host": fake.host,
        "model": "Qwen/Qwen3-8B",
        "max_model_len": 16384,
        "served_model_name": ["qwen3-8b-spec"],
        "speculative_config": SEED,
    }
    assert log.kv_cache == KvCache("GPU", 29200, 16384, 1.78)
    assert log.async_scheduling is False


def test_a_baseline_has_no_trace_of_speculation() -> None:
    with serving((*BASE, NO_THINKING), env={"VLLM_LOG_STATS_INTERVAL": "0.2"}) as fake:
        delta = fake.measure(COPY)
        eventually(lambda: any(window.generation_throughput for window in fake.log().engine_windows))
        log = fake.log()
        assert "spec_decode" not in fake.request("GET", "/metrics")[1].decode()
    assert delta == SpeculationDelta("off", "no counters of speculation", generated=33, finished=1)
    assert log.speculation == Speculation("off", evidence="speculative_config=None")
    assert (log.spec_windows, log.speculative_args) == ((), None)


def test_prose_is_generated_without_a_single_draft() -> None:
    with serving() as fake:
        delta = fake.measure(PROSE)
    assert (delta.drafts, delta.generated, delta.inert) == (0, 65, "speculation is on, but nothing was drafted")


def test_streamed_and_whole_answers_are_the_same() -> None:
    with serving() as fake:
        whole = fake.answer(max_tokens=200)
        stream = fake.stream(max_tokens=200, stream_options={"include_usage": True})
        bare = fake.stream(max_tokens=200)
    assert (whole.text, whole.finish_reason, whole.usage, whole.problem) == (RENAMED, "stop", Usage(65, 33), None)
    assert (stream.text, stream.finish_reason, stream.usage, stream.problem) == (RENAMED, "stop", Usage(65, 33), None)
    assert stream.chunks < 33, "an event carries all tokens of a step"
    assert (bare.text, bare.usage, bare.problem) == (
        RENAMED,
        None,
        "the server sent no usage, so its tokens are unknown",
    )


def test_token_ids_and_continuous_usage_tell_the_tokens_of_each_event() -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    with serving(settings={"tokens_per_second": 100}) as fake:
        status, raw = fake.request(
            "POST",
            "/v1/chat/completions",
            fake.chat(COPY, stream=True, stream_options=options, return_token_ids=True, max_tokens=20),
        )
        tokens = fake.request("POST", "/tokenize", {"model": fake.model, "messages": fake.chat(COPY)["messages"]})
    events = [json.loads(line[6:]) for line in raw.decode().split("\n\n") if line.startswith("data: {")]
    assert (status, raw.endswith(b"data: [DONE]\n\n")) == (200, True)
    assert events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert events[0]["prompt_token_ids"] == json.loads(tokens[1])["tokens"]
    carried = [len(event["choices"][0]["token_ids"]) for event in events[1:-1]]
    counted = [event["usage"]["completion_tokens"] for event in events[1:-1]]
    assert sum(carried) == 20
    assert [sum(carried[: place + 1]) for place in range(len(carried))] == counted
    assert max(carried) >= 6, "five drafts and the bonus token"
    assert events[-1]["choices"] == []
    assert events[-1]["usage"] == {"prompt_tokens": 65, "total_tokens": 85, "completion_tokens": 20}
    assert events[-2]["choices"][0]["finish_reason"] == "length"


def test_completions_tokenize_models_and_unknown_routes() -> None:
    with serving() as fake:
        ask = {"model": fake.model, "prompt": "Repeat it.\n\none two three", "max_tokens": 8}
        status, body = fake.request("POST", "/v1/completions", ask)
        found = json.loads(body)
        assert (status, found["object"], found["choices"][0]["text"]) == (200, "text_completion", "one two three")
        asked = {"model": fake.model, "prompt": "one two", "return_token_strs": True}
        tokens = json.loads(fake.request("POST", "/tokenize", asked)[1])
        assert (tokens["count"], tokens["max_model_len"], tokens["token_strs"]) == (2, 16384, ["one", " two"])
        back = fake.request("POST", "/detokenize", {"tokens": tokens["tokens"]})
        assert json.loads(back[1]) == {"prompt": "one two"}
        models = fake.get("/v1/models")[1]["data"]
        assert [(model["id"], model["root"], model["max_model_len"]) for model in models] == [
            ("qwen3-8b-spec", "Qwen/Qwen3-8B", 16384)
        ]
        assert fake.get("/nowhere") == (404, {"detail": "Not Found"})
        assert fake.request("GET", "/v1/completions")[0] == 405
        assert fake.request("GET", "/health") == (200, b"")


ERRORS: dict[str, tuple[str, dict[str, Any], int, str]] = {
    # (version, request, status, message)
    "another model": ("0.23.0", {"model": "x"}, 404, "The model `x` does not exist."),
    "another model, aliases": (
        "0.32.0",
        {"model": "x"},
        404,
        "The model `x` does not exist. Valid aliases: qwen3-8b-spec.",
    ),
    "no tokens": (
        "0.32.0",
        {"max_tokens": 0},
        400,
        "max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)",
    ),
    "too many, 0.11": (
        "0.11.2",
        {"max_tokens": 16384},
        400,
        "'max_tokens' or 'max_completion_tokens' is too large: 16384. This model's maximum context length is 16384 "
        "tokens and your request has 65 input tokens (16384 > 16384 - 65).",
    ),
    "too many, 0.23": (
        "0.23.0",
        {"max_tokens": 16384},
        400,
        "This model's maximum context length is 16384 tokens. However, you requested 16384 output tokens and your "
        "prompt contains 65 input tokens, for a total of 16449 tokens.",
    ),
    "far too many, 0.32": (
        "0.32.0",
        {"max_tokens": 20000},
        400,
        "max_tokens=20000 cannot be greater than max_model_len=16384. Please request fewer output tokens. "
        "(parameter=max_tokens, value=20000)",
    ),
    "min_p": (
        "0.23.0",
        {"min_p": 0.1},
        400,
        "The min_p and logit_bias sampling parameters are not yet supported with speculative decoding.",
    ),
    "options without a stream": (
        "0.23.0",
        {"stream_options": {"include_usage": True}},
        400,
        "Stream options can only be defined when `stream=True`.",
    ),
}


@pytest.mark.parametrize("version", ["0.11.2", "0.23.0", "0.32.0"])
def test_errors_are_those_of_the_version(version: str) -> None:
    with serving(args_of(version), version, {"think": False}) as fake:
        for case, (only, change, status, message) in ERRORS.items():
            if only == version:
                found = fake.ask(**change)
                assert (found[0], found[1]["error"]["message"], found[1]["error"]["code"]) == (
                    status,
                    message,
                    status,
                ), case
        if version == "0.11.2":
            assert fake.ask(min_p=0.1)[0] == 200, "accepted, and not drafted for"
        if version == "0.32.0":  # clamped without a word
            assert fake.answer(PROSE, max_tokens=16384, ignore_eos=True).finish_reason == "length"
        status, body = fake.request("POST", "/v1/chat/completions", b"{")
        assert (status, json.loads(body)["error"]["type"]) == (400, "Bad Request")
        status, body = fake.request("POST", "/v1/chat/completions", fake.chat(COPY), {"Content-Type": "text/plain"})
        assert (status, "Only 'application/json' is allowed" in body.decode()) == (400, True)


def test_a_key_guards_v1_and_nothing_else() -> None:
    with serving((*ARGS, "--api-key", "sk-of-a-test-0123456789")) as fake:
        assert fake.get("/v1/models") == (401, {"error": "Unauthorized"})
        assert fake.ask()[0] == 401
        assert [fake.request("GET", path)[0] for path in ("/health", "/metrics", "/version")] == [200, 200, 200]
        fake.headers["Authorization"] = "Bearer sk-of-a-test-0123456789"
        assert fake.ask()[0] == 200
        assert "sk-of-a-test-0123456789" in fake.text(), "this version prints it"
    with serving((*ARGS, "--api-key", "sk-of-a-test-0123456789"), "0.32.0") as fake:
        assert "sk-of-a-test" not in fake.text()


def test_thinking_comes_first_unless_it_is_turned_off() -> None:
    with serving((*BASE, SPEC, "--reasoning-parser=qwen3")) as fake:
        thinks = fake.stream(stream_options={"include_usage": True}, max_tokens=200)
        off = fake.answer(chat_template_kwargs={"enable_thinking": False}, max_tokens=200)
    assert (bool(thinks.reasoning), thinks.text) == (True, RENAMED)
    assert (off.reasoning, off.text) == ("", RENAMED)
    with serving((*BASE, SPEC)) as fake:
        assert fake.answer(max_tokens=200).text.startswith("<think>\n")


def test_per_request_numbers_are_those_of_the_counters() -> None:
    args = (*ARGS, "--per-request-spec-decode-metrics=detailed")
    with serving(args, "0.32.0", env={"VLLM_USE_V2_MODEL_RUNNER": "0"}) as fake:
        delta = fake.measure(COPY)
        found = fake.answer(max_tokens=200).speculation
    assert found is not None
    assert (found["num_spec_steps"], found["num_draft_tokens"], found["num_accepted_draft_tokens"]) == (
        delta.drafts,
        delta.draft_tokens,
        delta.accepted,
    )
    drafted, accepted = found["per_step_drafted"], found["per_step_accepted"]
    assert isinstance(drafted, list)
    assert isinstance(accepted, list)
    assert (sum(drafted), sum(accepted)) == (delta.draft_tokens, delta.accepted)


def test_stop_strings_and_forced_length_end_an_answer() -> None:
    with serving() as fake:
        cut = fake.answer(stop="for item", max_tokens=200)
        choice = fake.ask(stop=["nowhere", "for item"], max_tokens=200)[1]["choices"][0]
        long = fake.answer(ignore_eos=True, max_tokens=150)
    assert (cut.text, cut.finish_reason) == (RENAMED.partition("for item")[0], "stop")
    assert (choice["message"]["content"], choice["stop_reason"]) == (cut.text, "for item")
    assert (long.text.startswith(RENAMED), long.finish_reason, long.usage) == (True, "length", Usage(65, 150))


def test_it_starts_at_once_and_makes_thousands_of_tokens_a_second() -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with serving() as fake:
        answer = fake.stream(PROSE, ignore_eos=True, max_tokens=8000, stream_options={"include_usage": True})
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert answer.usage == Usage(17, 8000)
    # The clock says little on a busy machine: processor time of the start and of 8,000 events.
    assert used.ru_utime - before.ru_utime < 4


def test_speed_is_as_set() -> None:
    with serving(settings={"tokens_per_second": 200, "ttft_seconds": 0.2}) as fake:
        answer = fake.stream(PROSE, max_tokens=60, stream_options={"include_usage": True})
    assert answer.first_token is not None
    assert answer.last_choice is not None
    # 59 steps of 5 ms; a busy machine is late, never early.
    assert answer.last_choice - answer.first_token > 0.29


def test_no_more_requests_run_than_max_num_seqs() -> None:
    def admitted() -> list[float]:
        page = fake.metrics().page
        return [next(page.named(f"vllm:num_requests_{what}")).value for what in ("running", "waiting")]

    with (
        serving((*ARGS, "--max-num-seqs=2"), settings={"ttft_seconds": 2}) as fake,
        ThreadPoolExecutor(4) as pool,
    ):
        asking = [pool.submit(fake.ask, PROSE, max_tokens=5) for _ in range(4)]
        eventually(lambda: admitted() == [2.0, 2.0])
        assert [done.result()[0] for done in asking] == [200] * 4
        assert admitted() == [0.0, 0.0]


def test_a_client_that_goes_aborts_its_request() -> None:
    with serving(settings={"tokens_per_second": 20}) as fake:
        body = json.dumps(fake.chat(PROSE, stream=True, ignore_eos=True, max_tokens=5000)).encode()
        with socket.create_connection((fake.host, fake.port)) as client:
            head = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            assert client.recv(100).startswith(b"HTTP/1.1 200 OK")
        eventually(lambda: _aborted(fake) == 1)


def _aborted(fake: Fake) -> float:
    return next(fake.metrics().page.named("vllm:request_success_total", finished_reason="abort")).value
