from __future__ import annotations

import pytest

from engine.loops import find_loop
from engine.sse import Completion
from tests.validation.shared import SHARED, needs_shared
from validation.answer import CHAT, COPY, EDIT, GUIDED, Grade, Task, grade

LIST = COPY.prompt.partition("\n\n")[2]
EDITED = (
    "def cart(items):\n    subtotal = 0\n    for item in items:\n        subtotal += item.price\n    return subtotal"
)
# What SmolLM2-135M answers, greedily.
SMALL_MODEL = (
    '```python\ndef cart(items):\n    return {\n        "total": 0\n    }\n'
    '    return {\n        "items": items\n    }\n```'
)
SMALL_MODEL_LOOP = "def total(items):\n    return total(items)\n\n" * 12 + "def total(items"
GARBAGE = "Ãâ€šÂ¬ zq#kf 0x! ÅÅ rrgh ]}{ nthe qa ,,;: vv"
HALF = LIST.split(", guitar")[0]

CASES = [
    ("the edit as asked", EDIT, EDITED, Grade.EXACT),
    ("the edit in a fence with a preamble", EDIT, f"Sure! Here it is:\n```python\n{EDITED}\n```", Grade.EXACT),
    ("the edit by a small model", EDIT, SMALL_MODEL, Grade.FAIR),
    ("the edit as a loop", EDIT, SMALL_MODEL_LOOP, Grade.LOOP),
    ("the edit as garbage", EDIT, GARBAGE, Grade.WRONG),
    ("the copy as asked", COPY, LIST, Grade.EXACT),
    ("the copy with a preamble, a line a word", COPY, "The list is:\n" + LIST.replace(", ", "\n- "), Grade.EXACT),
    ("half of the copy", COPY, HALF, Grade.FAIR),
    ("another text", COPY, "I am a helpful assistant and cannot do that.", Grade.WRONG),
    ("nothing", COPY, "", Grade.EMPTY),
    ("white space", COPY, " \n\t\n", Grade.EMPTY),
    ("test_e76_a_loop_at_record_speed", COPY, "foo " * 200, Grade.LOOP),
    ("a copy that never ends", COPY, f"{LIST}, " * 8, Grade.LOOP),
    ("one character", COPY, "!" * 120, Grade.LOOP),
    ("the answer to a question", CHAT, "The capital of France is Paris.", Grade.EXACT),
    ("the answer in a word", CHAT, "Paris.", Grade.FAIR),
    ("a small model's answer", CHAT, "The capital is a city with many monuments.", Grade.FAIR),
    ("garbage for an answer", CHAT, GARBAGE, Grade.WRONG),
    ("no answer", CHAT, " ", Grade.EMPTY),
    ("JSON as asked", GUIDED, '{"colour": "blue", "bright": true}', Grade.EXACT),
    ("JSON over several lines", GUIDED, '{\n  "colour": "red",\n  "bright": false\n}', Grade.EXACT),
    ("a value that is no choice", GUIDED, '{"colour": "azure", "bright": true}', Grade.WRONG),
    ("a value of another type", GUIDED, '{"colour": "blue", "bright": 1}', Grade.WRONG),
    ("a property too many", GUIDED, '{"colour": "blue", "bright": true, "sky": 1}', Grade.WRONG),
    ("a property too few", GUIDED, '{"colour": "blue"}', Grade.WRONG),
    ("no object", GUIDED, '["blue", true]', Grade.WRONG),
    ("JSON in prose", GUIDED, 'Sure: {"colour": "blue", "bright": true}', Grade.WRONG),
    ("JSON that ends early", GUIDED, '{"colour": "bl', Grade.WRONG),
]  # fmt: skip


@pytest.mark.parametrize(("task", "text", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_an_answer_is_graded_by_its_text(task: Task, text: str, expected: Grade) -> None:
    assert grade(Completion(text=text, chunks=2, done=True), task).grade is expected


def test_e46_thinking_counts_as_text_and_need_not_be_the_copy() -> None:
    thinking = "Okay, the user wants me to repeat a list. It starts with apple and river."
    assert grade(Completion(reasoning=thinking, chunks=2, done=True), COPY).grade is Grade.FAIR
    assert grade(Completion(text=f"<think>\n{thinking}", chunks=2, done=True), COPY).grade is Grade.FAIR
    assert grade(Completion(text=thinking, chunks=2, done=True), COPY).grade is Grade.WRONG


@pytest.mark.parametrize(
    ("text", "reasoning", "expected"),
    [
        ('{"colour": "bl', "", Grade.UNFINISHED),
        ('{\n\n\n   "colour"  ', "", Grade.UNFINISHED),
        ("", "Okay, the sky", Grade.UNFINISHED),
        ("Sure! The sky is blue", "", Grade.WRONG),
        ('{"colour": "azure', "", Grade.WRONG),
        ('{"colour": "blue", "bright": true}', "", Grade.EXACT),
    ],
)
def test_json_that_its_limit_cut_off_is_judged_as_far_as_it_goes(text: str, reasoning: str, expected: Grade) -> None:
    cut = Completion(text=text, reasoning=reasoning, chunks=2, done=True, finish_reason="length")
    assert grade(cut, GUIDED).grade is expected


def test_the_seeds_own_prompts_are_no_loops() -> None:
    for text in (
        COPY.prompt,
        EDIT.prompt,
        EDITED,
        LIST,
        "=" * 30,
        "- item one\n- item two\n- item three\n- item four\n",
    ):
        assert find_loop(text) is None, text


def test_a_loop_is_told_by_its_period() -> None:
    assert find_loop("It begins well. " + "and so on, " * 9) in {
        "and so on, "[i:] + "and so on, "[:i] for i in range(11)
    }


@needs_shared
def test_the_edit_of_the_seed_is_the_one_that_is_asked() -> None:
    seed = next((SHARED / "seeds").glob("000_*.txt")).read_text()
    assert EDIT.prompt.replace("\n", "\\n") in seed
