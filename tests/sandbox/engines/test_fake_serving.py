"""The fake engine as a process: its log, metrics and streams are read by the same parsers that read the real one's."""

from __future__ import annotations

import json
import re
import resource
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from engine.log import KvCache, Speculation, parse_log
from engine.metrics import SpeculationDelta
from engine.speculative import SpeculativeConfig
from engine.sse import Usage
from engine.versions import EngineVersion, Runner
from sandbox.engines.fake.drafting import Rules
from tests.sandbox.engines.fake import ARGS, BASE, COPY, NO_THINKING, PROSE, RENAMED, SEED, Fake, args_of, serving
from tests.sandbox.engines.reference import replay
from tests.sandbox.kubectl import eventually

pytestmark = pytest.mark.process

# Which model runner serves n-gram in each version: it decides which match is taken and how many drafts are made.
RUNNERS: dict[str, Runner] = {"0.11.2": "V1", "0.14.0": "V1", "0.23.0": "V1", "0.32.0": "V2", "0.33.0": "V2"}
CONFIG = SpeculativeConfig("ngram", 5, 2, 4)


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
        begun = time.monotonic()
        answer = fake.stream(PROSE, max_tokens=60, stream_options={"include_usage": True})
    assert answer.last_choice is not None
    # 200 ms and 59 steps of 5 ms; a busy machine is late, never early.
    assert answer.last_choice - begun > 0.49


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
