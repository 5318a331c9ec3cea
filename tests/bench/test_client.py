from __future__ import annotations

import asyncio
import ssl
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.client import EngineGoneError, Load, Work, closed_loop
from bench.http1 import Url
from bench.prompts import Case
from bench.records import Arm, Request, Tokens
from bench.target import Target, find_model
from engine.findings import Problems
from sandbox import pki
from tests.bench.hostile import DONE, HEAD, PLAIN, Hostile, answer, chunked, delta, event, finish, hostile, usage

CASE = Case("a", "copy", "Say é a b.")


def ask(*answers: bytes | None, count: int = 1, concurrency: int = 1, prefix: str = "", **server: Any) -> Any:
    """What the client records of this many requests, and the server as it was left."""

    async def run() -> tuple[list[Request], Hostile]:
        given: dict[str, Any] = {"answers": list(answers)} if answers else {}
        async with hostile(**given, **server) as state:
            target = Target(state.address + prefix, "m", {"Authorization": "token secret"})
            load = Load(target, Arm.BASELINE, 0, concurrency, 128, time.monotonic(), request_s=20)
            found: list[Request] = []
            try:
                await closed_loop(load, [Work(replace(CASE, id=str(i)), 0) for i in range(count)], found.append)
            except EngineGoneError as gone:
                state.seen.append(str(gone))
            return found, state

    return asyncio.run(run())


def said(request: Request) -> Any:
    """What does not depend on time."""
    return request.text, request.finish_reason, request.usage, request.status, request.error, len(request.chunk_times_s)


WHOLE = ("é ab", "stop", Tokens(7, 9), 200, None, 2)


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 64, 1 << 20])
def test_e53_a_stream_cut_at_every_byte_reads_the_same(piece: int) -> None:
    found, _ = ask(count=3, piece=piece)
    assert [said(request) for request in found] == [WHOLE] * 3


def test_e40_a_chunk_is_not_a_token_and_counts_per_chunk_come_from_usage_alone() -> None:
    body = chunked(delta("", 0, role="assistant"), delta("a", 1), delta("b c d", 6), finish(), usage(8), DONE)
    (told,), state = ask(HEAD + body)
    (untold,), _ = ask()
    assert (told.tokens_per_chunk, told.usage, len(told.chunk_times_s)) == ((1, 5), Tokens(7, 8), 2)
    assert untold.tokens_per_chunk is None
    assert state.bodies[0]["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}


def test_a_thousand_tokens_in_one_chunk_are_a_thousand_tokens() -> None:
    text = "wörd " * 1000
    found, _ = ask(HEAD + chunked(delta(text, 1000), finish(), usage(1000), DONE), piece=4096)
    assert (found[0].text, found[0].usage, found[0].tokens_per_chunk) == (text, Tokens(7, 1000), (1000,))
    assert found[0].tpot_s is not None


# What the server sends, and what is recorded of it.
FAULTS = {
    "e45 usage missing": (
        HEAD + chunked(delta("a"), finish(), DONE),
        ("a", "stop", None, 200, "the server sent no usage, so its tokens are unknown", 1),
    ),
    "error object in the middle": (
        HEAD + chunked(delta("a"), event({"error": {"message": "engine died", "code": 500}}), DONE),
        ("a", None, None, 200, "500: engine died", 1),
    ),
    "cut in the middle": (
        HEAD + b"5\r\ndata:",
        ("", None, None, 200, "the server closed the connection in the middle of its answer", 0),
    ),
    "cut after the text": (
        HEAD + chunked(delta("a"))[:-5],
        ("a", None, None, 200, "the server closed the connection in the middle of its answer", 1),
    ),
    "cut after [DONE]": (
        HEAD + chunked(delta("a"), finish(), usage(2), DONE)[:-5],
        ("a", "stop", Tokens(7, 2), 200, None, 1),
    ),
    "closed at once": (None, ("", None, None, None, "the server closed the connection before it answered", 0)),
    "e49 status 500": (
        answer(500, {"error": {"message": "no", "type": "Internal"}}),
        ("", None, None, 500, "the service answers 500: Internal: no", 0),
    ),
    "e65 status 503": (answer(503, "no server"), ("", None, None, 503, 'the service answers 503: "no server"', 0)),
    "not HTTP": (b"SSH-2.0-x\r\n\r\n0\r\n\r\n", ("", None, None, None, "the answer is not HTTP/1.1", 0)),
    "a chunk without a size": (
        HEAD + b"zz\r\n\r\n0\r\n\r\n",
        ("", None, None, 200, "the answer is not HTTP/1.1", 0),
    ),
    "no stream but a body": (
        answer(200, {"choices": []}),
        ("", None, None, 200, "the answer is application/json, not a stream of events", 0),
    ),
    "an empty stream": (HEAD + chunked(DONE), ("", None, None, 200, "the answer is empty: no event had a choice", 0)),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_faulty_answer_is_recorded_as_what_it_is_and_asked_once(name: str) -> None:
    raw, expected = FAULTS[name]
    found, state = ask(raw)
    assert [said(request) for request in found] == [expected]
    assert len(state.bodies) == 1


def test_e49_nine_good_answers_beside_a_failed_one_keep_their_times() -> None:
    found, _ = ask(*[PLAIN] * 4, answer(500, {}), PLAIN, count=10)
    assert [request.status for request in found].count(500) == 1
    assert [request.error is None and request.tpot_s is not None for request in found].count(True) == 9


def test_a_dead_engine_ends_the_block_instead_of_failing_every_request() -> None:
    found, state = ask(PLAIN, None, count=100)
    assert [request.error is None for request in found] == [True, False, False, False]
    assert state.seen[-1].startswith("3 requests in a row failed, the last one: the server closed the connection")


@pytest.mark.parametrize("concurrency", [1, 4, 8])
def test_the_loop_is_closed_at_its_concurrency(concurrency: int) -> None:
    found, state = ask(count=40, concurrency=concurrency, piece=16)
    assert (state.open_most, state.connections) == (concurrency, concurrency)
    assert sorted(int(request.case) for request in found) == list(range(40))
    assert [request.client_idle_s for request in found].count(0.0) == concurrency


def test_e43_e47_neither_role_nor_usage_nor_done_are_text_or_end() -> None:
    body = chunked(delta("", role="assistant"), event({"choices": []}), delta("a"), delta("b"), usage(2), DONE)
    (found,), _ = ask(HEAD + body, piece=8)
    assert len(found.chunk_times_s) == 2
    assert (found.ttft_s, found.end_s) == (found.chunk_times_s[0], found.chunk_times_s[-1])


def test_e46_thinking_counts_as_the_first_text_and_is_kept_apart() -> None:
    (found,), state = ask(HEAD + chunked(delta(None, reasoning="Okay"), delta("a"), finish(), usage(2), DONE), piece=8)
    assert (found.reasoning, found.text, len(found.chunk_times_s)) == ("Okay", "a", 2)
    assert state.bodies[0]["chat_template_kwargs"] == {"enable_thinking": False}


def test_requests_are_greedy_capped_authenticated_and_keep_the_prefix() -> None:
    _, state = ask(prefix="/project/run/")
    head, body = state.seen[0], state.bodies[0]
    assert head.startswith("POST /project/run/v1/chat/completions HTTP/1.1\r\n")
    assert "\r\nAuthorization: token secret\r\n" in head
    assert (body["temperature"], body["max_tokens"], body["stream"], body["model"]) == (0, 128, True, "m")


def test_a_step_of_the_wall_clock_changes_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_clock() -> float:
        raise AssertionError("a wall clock was read")

    monkeypatch.setattr(time, "time", no_clock)
    found, _ = ask(count=2)
    assert [said(request) for request in found] == [WHOLE] * 2


def test_e57_a_client_that_stands_still_says_so() -> None:
    async def run() -> list[Request]:
        async with hostile(piece=8) as state:
            found: list[Request] = []
            load = Load(Target(state.address, "m"), Arm.BASELINE, 0, 1, 9, time.monotonic())
            asking = asyncio.create_task(closed_loop(load, [Work(CASE, 0)], found.append))
            while not state.bodies:
                await asyncio.sleep(0)
            time.sleep(0.2)
            await asking
            return found

    assert asyncio.run(run())[0].loop_lag_s > 0.1


def model(pages: list[bytes], name: str = "", patience: float = 5.0) -> str:
    async def run() -> str:
        async with hostile(pages={"/v1/models": pages}) as state:
            try:
                return await find_model(Target(state.address, name, {}), patience)
            except Problems as problems:
                return str(problems).replace(state.address, "URL")

    return asyncio.run(run())


OK = answer(200, {"data": [{"id": "m"}, {"id": "lora", "parent": "m"}]})


def test_a_service_that_is_not_there_yet_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.target._RETRY_S", 0.01)
    assert model([answer(503, "no server"), answer(502, ""), OK]) == "m"


@pytest.mark.parametrize(
    ("page", "name", "line"),
    [
        (
            answer(503, "busy"),
            "",
            '/v1/models answers 503: "busy" (waited 0 s); look at the engine, or give more --patience',
        ),
        (answer(401, {}), "", "/v1/models answers 401: {}; look at the token"),
        (answer(404, "x"), "", '/v1/models answers 404: "x"; look at the address and its prefix'),
        (OK, "n", "it has no model n, but m, lora; give --model"),
        (answer(200, {"data": []}), "", "it has the models (none); name one with --model"),
        (answer(200, []), "", "/v1/models is no list of models: []; look at the address"),
    ],
)
def test_e55_a_service_that_cannot_be_used_is_one_line(page: bytes, name: str, line: str) -> None:
    assert model([page], name, patience=0.0) == f"error: address: URL: {line}"


@pytest.mark.parametrize(
    ("address", "read"),
    [
        ("http://a", Url("a", 80, False, "")),
        ("https://a:1/x/y/", Url("a", 1, True, "/x/y")),
        ("http://a/v1/", Url("a", 80, False, "")),
        ("http://[::1]:9/p/v1", Url("::1", 9, False, "/p")),
    ],
)
def test_an_address_is_read(address: str, read: Url) -> None:
    assert Url.parse(address) == read


@pytest.mark.parametrize("address", ["", "a:80", "ftp://a", "http://", "http://a:x", "http://a?b=c", "http://u:p@a"])
def test_what_is_no_address_is_refused_without_its_secrets(address: str) -> None:
    with pytest.raises(Problems, match=r"^error: address: .*; give ") as raised:
        Url.parse(address)
    assert "u:p" not in str(raised.value)


def test_an_answer_without_length_ends_with_its_connection() -> None:
    body = delta("a", 1) + finish() + usage(2) + DONE
    found, state = ask(b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + body, count=3)
    assert [said(request) for request in found] == [("a", "stop", Tokens(7, 2), 200, None, 1)] * 3
    assert state.connections == 3


@pytest.mark.parametrize("trusted", [True, False])
def test_tls_is_spoken_and_an_unknown_authority_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trusted: bool
) -> None:
    pki.ensure(tmp_path / "pki")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "pki" / "etcd.crt", tmp_path / "pki" / "etcd.key")
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "pki" / "ca.crt"))
    found, _ = ask(tls=context, count=2)
    if trusted:
        assert [said(request) for request in found] == [WHOLE] * 2
    else:
        assert all("CERTIFICATE_VERIFY_FAILED" in (request.error or "") for request in found)
