from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from bench.prompts import Case, load_prompts
from engine.findings import Problems


def test_the_shipped_sets_are_what_the_recipes_promise() -> None:
    families = {name: Counter(case.family for case in load_prompts(name).cases) for name in ("teaching", "copy")}
    assert families == {
        "teaching": {"copy": 3, "explain": 3, "short": 3},
        "copy": {"code-edit": 12, "text-edit": 10, "data-edit": 8},
    }


def test_own_prompts_come_from_lines_or_a_folder_with_ids_that_stay(tmp_path: Path) -> None:
    lines = tmp_path / "own.jsonl"
    lines.write_text('{"prompt": "a\u2028b"}\n\n{"prompt": "c", "case": "x", "family": "f"}\n')
    folder = tmp_path / "texts"
    (folder / "mail").mkdir(parents=True)
    (folder / "one.txt").write_text("1")
    (folder / "mail" / "two.md").write_text("2")
    (folder / "notes.pdf").write_bytes(b"\xff")
    own, texts = load_prompts(str(lines)), load_prompts(str(folder))
    assert own.cases == (Case("fe2d3b945530", "own", "a\u2028b"), Case("x", "f", "c"))
    assert texts.cases == (Case("mail/two", "mail", "2"), Case("one", "texts", "1"))
    turned = tmp_path / "turned.jsonl"
    turned.write_text("\n".join(reversed(lines.read_text().split("\n"))))
    assert load_prompts(str(turned)).identity.digest == own.identity.digest != texts.identity.digest


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", ["prompts: {path}: no prompt in it"]),
        ('{"prompt": 1}\n{"case": "x"}', ["{path}:1.prompt: 1: not a text", "{path}:2.prompt: missing"]),
        ('{"prompt": "a", "id": 3}', ["{path}:1.id: 3: unknown field"]),
        ('{"prompt": "a"}\n{"prompt": "a"}', ["prompts.ca978112ca1b: {path}: a case twice"]),
        ('{"prompt": "  ", "case": "x"}', ["prompts.x: {path}: an empty prompt"]),
        ("hello", ["{path}:1: not JSON: Expecting value: line 1 column 1 (char 0)"]),
    ],
)
def test_bad_prompts_are_a_line_each(tmp_path: Path, text: str, lines: list[str]) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text(text)
    with pytest.raises(Problems) as raised:
        load_prompts(str(path))
    said = [finding.line().partition(";")[0] for finding in raised.value.findings]
    assert said == [f"error: {line.format(path=path)}" for line in lines]


def test_a_set_that_is_not_there_names_the_shipped_ones() -> None:
    with pytest.raises(
        Problems, match=r"prompts: nope: No such file or directory; name a shipped set \(teaching, copy\)"
    ):
        load_prompts("nope")
