from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.redact import redact, redact_values
from tests.engine.samples import FEW, sample


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("{'port': 1, 'api_key': ['one', 'two'], 'model': 'm'}", "{'port': 1, 'api_key': '***', 'model': 'm'}"),
        ("{'api_key': 'it\\'s', 'b': 1}", "{'api_key': '***', 'b': 1}"),
        ("{'api_key': None}", "{'api_key': None}"),
        ('{"hf_token":"x","b":1}', '{"hf_token":"***","b":1}'),
        ("--api-key=one --port 3", "--api-key=*** --port 3"),
        ("--api-key one two --port 3", "--api-key *** --port 3"),
        ("['--api-key', 'one', '--x']", "['--api-key', '***', '--x']"),
        ("['--api-key', 'one', 'two', '--x']", "['--api-key', '***', '--x']"),
        ("{'api_key': ['a]b', 'c'], 'd': 1}", "{'api_key': '***', 'd': 1}"),
        ("{'api_key': ['cut of", "{'api_key': '***'"),
        ("Namespace(api_key=['one', 'two'], port=1)", "Namespace(api_key=***, port=1)"),
        ("HF_TOKEN=abc d", "HF_TOKEN=*** d"),
        ("VLLM_API_KEY: abc", "VLLM_API_KEY: ***"),
        ("password: 'a b'", "password: ***"),
        ("token: abc", "token: ***"),
        ("client-key-data: LS0tLS1", "client-key-data: ***"),
        ("Authorization: Bearer abc.def-ghi", "Authorization: Bearer ***"),
        ("https://user:pass@host/x", "https://user:***@host/x"),
        ("see hf_abcdefghijklmnopqrst here", "see *** here"),
        ("sk-abcdefghijklmnopqrstuv", "***"),
        ("ghp_abcdefghijklmnopqrstuv", "***"),
        ("AKIAABCDEFGHIJKLMNOP", "***"),
        ("eyJhbGciOiJIUzI1.eyJzdWIiOiIx.c2ln", "***"),
        ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nrest", "***\nrest"),
        ("-----BEGIN PRIVATE KEY-----\nabc", "***"),
    ],
)
def test_a_secret_is_taken_out_and_the_rest_is_kept(text: str, redacted: str) -> None:
    assert redact(text) == redacted
    assert redact(redacted) == redacted


@pytest.mark.parametrize(
    "text",
    [
        "Accepted: 197 tokens, Drafted: 295 tokens, Per-position acceptance rate: 0.695",
        "'max_num_batched_tokens': 2048, 'tokenizer': 'smol', 'num_speculative_tokens': 5",
        "Route: /tokenize, Methods: POST",
        "--tokenizer x --max-num-batched-tokens=3",
        "Maximum concurrency for 2,048 tokens per request: 22.75x",
    ],
)
def test_what_is_no_secret_is_left_alone(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize("name", ["0.32.0-ngram.log", "0.32.0-baseline.log", "0.32.0-ngram.sse.txt"])
def test_the_real_samples_are_unchanged(name: str) -> None:
    text = sample(name)
    assert redact(text) == text


def test_values_are_masked_by_name_at_any_depth() -> None:
    assert redact_values({"api_key": ["a"], "x": {"hf_token": "b", "y": ["Bearer abcdefgh", 1]}, "token": None}) == {
        "api_key": "***",
        "x": {"hf_token": "***", "y": ["Bearer ***", 1]},
        "token": None,
    }


# The text around it has none of the secret's letters, so that it cannot hold the secret by chance.
_SECRET = st.text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", min_size=24, max_size=40)
_AROUND = st.text(" \n\t'\"=:,;-_{}[]()\\/é", max_size=30)


@FEW
@given(_SECRET, _AROUND, _AROUND)
def test_a_planted_secret_is_never_left(secret: str, before: str, after: str) -> None:
    for shape in (
        f"{{'api_key': ['{secret}'], 'x': 1}}",
        f" --api-key={secret} ",
        f"\nHF_TOKEN={secret}\n",
        f" hf_{secret} ",
        f"\nAuthorization: Bearer {secret}\n",
    ):
        assert secret not in redact(f"{before}\n{shape}\n{after}")


@FEW
@given(st.text())
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    assert redact(redact(text)) == redact(text)
