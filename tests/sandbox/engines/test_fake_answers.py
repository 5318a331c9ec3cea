"""What the fake engine says, and its tokens."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.engines.fake import answers
from sandbox.engines.fake.settings import Settings, read_settings
from sandbox.engines.fake.tokens import Tokenizer
from tests.sandbox.engines.fake import CODE, COPY, PROSE, RENAMED


@pytest.mark.parametrize(
    ("prompt", "answer"),
    [
        (COPY, RENAMED),
        (f"Fix the typo.\n```python\n{CODE}\n```\nReturn only the code.", CODE),
        ("Repeat this text.\n\none two three", "one two three"),
        ("Replace `a` with `b` in this line.\n\na + ab + a", "b + ab + b"),
        ("Repeat this exactly: one two three", "one two three"),
        (PROSE, None),
        ("What is this?\n\nsome text", None),
        ("Return it.", None),
        ("Return it.\n\n  \n", None),
    ],
)
def test_a_text_is_given_back_when_it_is_asked_for(prompt: str, answer: str | None) -> None:
    assert answers.copied(prompt) == answer


def test_prose_is_the_same_for_the_same_prompt_and_repeats_no_pair_of_tokens() -> None:
    tokenizer = Tokenizer()
    text = "".join(itertools.islice(answers.prose(PROSE), 2000))
    assert text == "".join(itertools.islice(answers.prose(PROSE), 2000))
    assert text != "".join(itertools.islice(answers.prose("else"), 2000))
    tokens = tokenizer.encode(text)
    assert len(set(itertools.pairwise(tokens))) == len(tokens) - 1


@given(st.text(max_size=80))
def test_tokens_give_their_text_back_and_are_the_same_everywhere(text: str) -> None:
    text = text.replace("<|", "")
    one, other = Tokenizer(), Tokenizer()
    assert one.decode(one.encode(text)) == text
    assert one.encode(text) == other.encode(text)
    assert 0 not in one.encode(text)


def test_copied_text_has_the_tokens_of_its_source() -> None:
    tokenizer = Tokenizer()
    source, copy = tokenizer.encode(f"Please return this.\n\n{CODE}<|im_end|>"), tokenizer.encode(CODE)
    assert source[-len(copy) - 1 : -1] == copy
    assert 3 < len(CODE) / len(copy) < 6


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "error: FAKE_ENGINE: '{': this is not JSON"),
        ("[1]", "error: FAKE_ENGINE: '[1]': this is not a JSON object"),
        ('{"speed": 1}', "error: FAKE_ENGINE.speed: 1: unknown; known are load_seconds"),
        ('{"ttft_seconds": "1"}', "error: FAKE_ENGINE.ttft_seconds: '1': wrong type; it is float"),
        ('{"hang_loading": 1}', "error: FAKE_ENGINE.hang_loading: 1: wrong type; it is bool"),
        ('{"answer_tokens": true}', "error: FAKE_ENGINE.answer_tokens: True: wrong type; it is int"),
        ('{"ttft_seconds": -1}', "error: FAKE_ENGINE.ttft_seconds: -1: it must not be negative; give 0 or more"),
        ('{"acceptance": 2}', "error: FAKE_ENGINE.acceptance: 2: it is a chance; give 0 to 1"),
        (
            '{"answer": "joke"}',
            "error: FAKE_ENGINE.answer: 'joke': unknown; known are copy, prose, empty, loop, garbage",
        ),
        (
            '{"lie": "log"}',
            "error: FAKE_ENGINE.lie: 'log': unknown; known are args_line, config_line, metrics, version",
        ),
        ('{"merge_steps": 0}', "error: FAKE_ENGINE.merge_steps: 0: it counts steps; give 1 or more"),
    ],
)
def test_a_wrong_setting_is_one_line(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=r"^error: FAKE_ENGINE") as caught:
        read_settings(text)
    assert str(caught.value).startswith(says)
    assert "\n" not in str(caught.value)


def test_settings_are_read_whole() -> None:
    assert read_settings(None) == Settings()
    text = (
        '{"load_seconds": 2, "answer": {"text": "x"}, "think": null, "status": {"/v1/models": 404}, "crash_after": 3}'
    )
    assert read_settings(text) == Settings(
        load_seconds=2, answer={"text": "x"}, think=None, status={"/v1/models": 404}, crash_after=3
    )
