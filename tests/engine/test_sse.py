from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.sse import Completion, CompletionStream, SseEvent, SseParser, ToolCall, Usage, read_body
from tests.engine.samples import FEW, sample


def events(*chunks: bytes) -> list[SseEvent]:
    parser = SseParser()
    found = [event for chunk in chunks for event in parser.feed(chunk)]
    return found + parser.finish()


def data(*payloads: object) -> list[bytes]:
    return [f"data: {json.dumps(payload)}\n\n".encode() for payload in payloads]


def delta(**fields: object) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": None}]}


FINISH = {"choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "stop"}]}
USAGE = {"choices": [], "usage": {"prompt_tokens": 26, "completion_tokens": 50, "total_tokens": 76}}
DONE = b"data: [DONE]\n\n"


def stream(*chunks: bytes) -> Completion:
    """Chunk i comes at i + 1 seconds."""
    found = CompletionStream()
    for at, chunk in enumerate(chunks, 1):
        found.feed(chunk, float(at))
    return found.finish(float(len(chunks)))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"data: a\n\n", [SseEvent("a")]),
        (b"data: a\r\n\r\n", [SseEvent("a")]),
        (b"data: a\r\r", [SseEvent("a")]),
        (b"data:a\n\n", [SseEvent("a")]),
        (b"data:  a\n\n", [SseEvent(" a")]),
        (b"data: a\ndata: b\n\n", [SseEvent("a\nb")]),
        (b"data\n\n", [SseEvent("")]),
        (b"event: error\ndata: a\n\ndata: b\n\n", [SseEvent("a", "error"), SseEvent("b")]),
        (b": keep-alive\r\n\r\ndata: a\r\n\r\n: again\r\n", [SseEvent("a")]),
        (b"id: 7\nretry: 9\nother: x\ndata: a\n\n", [SseEvent("a")]),
        (b"event: x\n\ndata: a\n\n", [SseEvent("a")]),
        (b"\xef\xbb\xbfdata: a\n\n", [SseEvent("a")]),
        ("data: é\u2028x\x0b\n\n".encode(), [SseEvent("é\u2028x\x0b")]),
        (b"data: \xff\n\n", [SseEvent("\ufffd")]),
        (b"data: a", [SseEvent("a")]),
        (b"data: a\n", [SseEvent("a")]),
        (b"", []),
        (b"\n\n\n", []),
    ],
)
def test_events_are_framed_by_the_rules_of_the_format(body: bytes, expected: list[SseEvent]) -> None:
    assert events(body) == expected
    assert events(*(body[place : place + 1] for place in range(len(body)))) == expected


def test_e53_a_stream_cut_anywhere_reads_the_same_as_the_whole() -> None:
    body = 'data: {"choices":[{"delta":{"content":"é — 漢"}}]}\r\n\r\n: keep-alive\r\n\r\ndata: [DONE]\r\n\r\n'.encode()
    whole = events(body)
    assert whole == [SseEvent('{"choices":[{"delta":{"content":"é — 漢"}}]}'), SseEvent("[DONE]")]
    for cut in range(len(body)):
        assert events(body[:cut], body[cut:]) == whole


@FEW
@given(st.text(), st.sampled_from(["\n", "\r\n", "\r"]), st.lists(st.integers(0, 400), max_size=6))
def test_e53_any_text_survives_any_cut(text: str, end: str, cuts: list[int]) -> None:
    payload = json.dumps({"text": text}, ensure_ascii=False)
    body = f"data: {payload}{end}{end}".encode()
    places = sorted({min(cut, len(body)) for cut in cuts} | {0, len(body)})
    assert [json.loads(event.data) for event in events(*(body[a:b] for a, b in pairwise(places)))] == [{"text": text}]


def test_e51_a_line_longer_than_any_buffer_is_read_once_and_whole() -> None:
    text = "x" * 3_000_000
    body = b"".join(data(delta(content=text)))
    found = CompletionStream()
    for place in range(0, len(body), 4096):
        found.feed(body[place : place + 4096], 1.0)
    assert found.finish().text == text


def test_an_answer_is_put_together_whole() -> None:
    chunks = data(delta(role="assistant", content=""), delta(content="def"), delta(content=" f()"), FINISH, USAGE)
    assert stream(*chunks, DONE) == Completion(
        text="def f()",
        finish_reason="stop",
        usage=Usage(26, 50),
        chunks=4,
        first_byte=1.0,
        first_token=2.0,
        last_choice=4.0,
        token_stamps=(2.0, 3.0),
        token_counts=(None, None),
        done=True,
    )


def test_tokens_so_far_stand_at_each_event_with_text() -> None:
    def counted(tokens: int, **fields: object) -> dict[str, object]:
        return {**delta(**fields), "usage": {"prompt_tokens": 5, "completion_tokens": tokens}}

    ids = {"choices": [{"index": 0, "delta": {"content": "c"}, "token_ids": [7, 8]}]}
    by_usage = stream(*data(counted(0, role="assistant", content=""), counted(1, content="a"), counted(6, content="b")))
    by_ids = stream(*data(ids, delta(content="d"), ids))
    assert (by_usage.token_counts, by_ids.token_counts) == ((1, 6), (2, None, 4))


def test_what_stands_of_an_event_when_the_body_broke_off_is_no_event() -> None:
    found = CompletionStream()
    found.feed(b'data: {"choi', 1.0)
    assert found.finish(2.0, cut=True).errors == ()


def test_e40_tokens_come_from_usage_and_chunks_are_counted_apart() -> None:
    usage = {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 9}}
    found = stream(*data(delta(content="def cart(items):\n    sub"), delta(content="total"), FINISH, usage), DONE)
    assert (found.usage, found.chunks, found.token_stamps) == (Usage(5, 9), 3, (1.0, 2.0))


def test_e43_the_usage_event_without_choices_keeps_usage_and_stamps_nothing() -> None:
    found = stream(*data(delta(content="a"), USAGE), DONE)
    assert (found.usage, found.chunks, found.first_token, found.last_choice) == (Usage(26, 50), 1, 1.0, 1.0)
    only = stream(*data(USAGE), DONE)
    assert (only.usage, only.first_byte, only.first_token, only.last_choice) == (Usage(26, 50), 1.0, None, None)
    assert only.problem == "the answer is empty: no event had a choice"


@pytest.mark.parametrize(
    "usage",
    [
        None,
        {},
        {"prompt_tokens": 1},
        {"prompt_tokens": "1", "completion_tokens": 2},
        {"prompt_tokens": True, "completion_tokens": 2},
        {"prompt_tokens": 1, "completion_tokens": -2},
        [1, 2],
    ],
)
def test_e42_e45_without_usage_the_tokens_are_unknown_and_said(usage: object) -> None:
    found = stream(*data(delta(content="a b c"), {"choices": [], "usage": usage}), DONE)
    assert (found.usage, found.problem) == (None, "the server sent no usage, so its tokens are unknown")


def test_with_usage_on_every_event_the_last_one_counts() -> None:
    steps = [{**delta(content="a"), "usage": {"prompt_tokens": 5, "completion_tokens": n}} for n in (1, 4, 6)]
    assert stream(*data(*steps), DONE).usage == Usage(5, 6)


@pytest.mark.parametrize(
    ("fields", "reasoning"),
    [
        ({"content": None, "reasoning": "Okay"}, "Okay"),
        ({"content": None, "reasoning_content": "Okay"}, "Okay"),
        ({"reasoning": "Okay", "reasoning_content": "Okay"}, "Okay"),
    ],
)
def test_e46_thinking_counts_as_the_first_token_and_is_kept_apart(fields: dict[str, object], reasoning: str) -> None:
    found = stream(*data(delta(role="assistant", content=""), delta(**fields), delta(content="x"), USAGE), DONE)
    assert (found.reasoning, found.text, found.first_token, found.token_stamps) == (reasoning, "x", 2.0, (2.0, 3.0))


def test_e47_the_role_event_is_not_a_token() -> None:
    found = CompletionStream()
    found.feed(data(delta(role="assistant", content=""))[0], 0.1)
    found.feed(data(delta(content="text"))[0], 0.9)
    answer = found.finish()
    assert (answer.first_byte, answer.first_token) == (0.1, 0.9)


def test_e52_escaped_quotes_do_not_cut_a_delta() -> None:
    text = 'print("a")\nprint("b")'
    streamed = stream(*data(delta(content=text), USAGE), DONE)
    plain = read_body(json.dumps({"choices": [{"message": {"content": text}}], **{"usage": USAGE["usage"]}}).encode())
    assert streamed.text == text == plain.text
    assert plain.usage == Usage(26, 50)


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        (
            {"error": {"message": "EngineCore encountered an issue.", "type": "InternalServerError", "code": 500}},
            "500 InternalServerError: EngineCore encountered an issue.",
        ),
        ({"error": {"message": "a\nb"}}, "a b"),
        ({"error": {}}, "no message"),
        ({"error": "Unauthorized"}, "Unauthorized"),
        ({"object": "error", "message": "gone"}, "gone"),
        ({"error": {"message": "x" * 900}}, "x" * 300 + "…"),
        ([1], "this is not a JSON object: [1]"),
        (3, "this is not a JSON object: 3"),
    ],
)
def test_an_error_in_the_middle_of_a_stream_is_reported_with_what_came_before(payload: object, error: str) -> None:
    found = stream(*data(delta(content="a"), payload))
    assert (found.text, found.errors, found.problem, found.done) == ("a", (error,), error, False)


def test_an_event_that_is_no_json_and_a_stream_that_is_cut_off_are_reported() -> None:
    assert stream(b'data: {"choices": [\n\n').problem == 'this is not JSON: {"choices": ['
    assert stream(*data(delta(content="a"))).problem == "the answer was cut off before its end"
    assert stream().problem == "the answer is empty: no event had a choice"


def test_nothing_after_the_end_counts() -> None:
    assert stream(*data(delta(content="a"), USAGE), DONE, *data(delta(content="b"))).text == "a"


def test_tool_calls_are_joined_from_their_pieces() -> None:
    def call(index: int, **function: str) -> dict[str, object]:
        return delta(tool_calls=[{"index": index, "function": function}])

    found = stream(
        *data(call(0, name="look"), call(0, arguments='{"a"'), call(0, arguments=": 1}"), call(1, name="go"))
    )
    assert found.tool_calls == (ToolCall("look", '{"a": 1}'), ToolCall("go", ""))
    assert found.token_stamps == (1.0, 2.0, 3.0, 4.0)


def test_token_ids_and_the_servers_own_numbers_are_kept() -> None:
    first = {"choices": [{"index": 0, "delta": {"content": "a"}, "token_ids": [1, 2]}], "prompt_token_ids": [7, 8]}
    other = {"choices": [{"index": 1, "delta": {"content": "not ours"}, "token_ids": [9]}]}
    last: dict[str, object] = {"choices": [], "usage": None, "metrics": {"speculative_decoding": {"num_spec_steps": 3}}}
    found = stream(*data(first, other, last), DONE)
    assert (found.text, found.token_ids, found.prompt_token_ids, found.speculation) == (
        "a",
        (1, 2),
        (7, 8),
        {"num_spec_steps": 3},
    )


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            b'{"model":"m","choices":[{"index":0,"message":{"content":"hi","reasoning":"so"},"finish_reason":"stop"}],'
            b'"usage":{"prompt_tokens":3,"completion_tokens":2}}',
            Completion(
                text="hi", reasoning="so", finish_reason="stop", usage=Usage(3, 2), model="m", chunks=1, done=True
            ),
        ),
        (
            b'{"choices":[{"text":"hi"}]}',
            Completion(text="hi", chunks=1, done=True),
        ),
        (b'{"choices":[]}', Completion(done=True)),
        (b'{"detail":"Not Found"}', Completion(done=True)),
        (
            b'{"error":{"message":"no","code":404,"type":"NotFoundError"}}',
            Completion(errors=("404 NotFoundError: no",)),
        ),
        (b"<html>", Completion(errors=("this is not JSON: <html>",))),
        (b"", Completion(errors=("this is not JSON: ",))),
        (b"\xff", Completion(errors=("this is not JSON: \ufffd",))),
    ],
)
def test_an_answer_that_was_not_streamed_is_read_the_same_way(body: bytes, expected: Completion) -> None:
    assert read_body(body) == expected


@pytest.mark.parametrize(
    ("name", "text_end", "finish", "usage", "chunks"),
    [
        ("0.32.0-ngram.sse.txt", "def total(items", "length", Usage(136, 160), 42),
        ("0.32.0-baseline.sse.txt", "then returned by the function.", "stop", Usage(136, 63), 64),
    ],
)
def test_the_real_streams_are_read_right(name: str, text_end: str, finish: str, usage: Usage, chunks: int) -> None:
    body = sample(name).encode()
    found = stream(*(body[place : place + 7] for place in range(0, len(body), 7)))
    assert found.text.startswith("def total(items):\n    return")
    assert found.text.endswith(text_end)
    assert (found.finish_reason, found.usage, found.chunks, found.model, found.done, found.problem) == (
        finish,
        usage,
        chunks,
        "smol",
        True,
        None,
    )
