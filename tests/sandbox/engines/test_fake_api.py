"""The fake engine's API: routes, errors of each version, keys, stop strings and thinking."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.sse import Usage
from tests.sandbox.engines.fake import ARGS, BASE, COPY, PROSE, RENAMED, SPEC, args_of, serving

pytestmark = pytest.mark.process


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


def test_stop_strings_and_forced_length_end_an_answer() -> None:
    with serving() as fake:
        cut = fake.answer(stop="for item", max_tokens=200)
        choice = fake.ask(stop=["nowhere", "for item"], max_tokens=200)[1]["choices"][0]
        long = fake.answer(ignore_eos=True, max_tokens=150)
    assert (cut.text, cut.finish_reason) == (RENAMED.partition("for item")[0], "stop")
    assert (choice["message"]["content"], choice["stop_reason"]) == (cut.text, "for item")
    assert (long.text.startswith(RENAMED), long.finish_reason, long.usage) == (True, "length", Usage(65, 150))
