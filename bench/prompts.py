"""Prompt sets: the shipped ones, and the user's own as JSONL or as a folder of text files.

Shipped: `teaching`, nine prompts of three families (copy, explain, short); `copy`, thirty prompts that ask to have a
pasted text back with a small change. JSONL: one object a line with `prompt`, and optionally `case` and `family`. A
folder: each *.txt or *.md file is a prompt, its name the case, and the folder that it stands in its family.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.records import PromptSetId
from engine import decode
from engine.findings import Finding, Problems

SHIPPED = ("teaching", "copy")
_FOLDER = Path(__file__).parent / "prompt_sets"
_TEXTS = (".txt", ".md")
_REMEDY = 'give {"case": "...", "family": "...", "prompt": "..."} on each line'


@dataclass(frozen=True)
class Case:
    """One prompt. id: the same for the same prompt in every run; family: what kind of task it is."""

    id: str
    family: str
    prompt: str


@dataclass(frozen=True)
class PromptSet:
    """Cases in the order of the set."""

    name: str
    cases: tuple[Case, ...]

    @property
    def identity(self) -> PromptSetId:
        """Name, and the SHA-256 of all cases: equal digests are equal prompts, whatever file they came from."""
        text = json.dumps([asdict(case) for case in sorted(self.cases, key=lambda case: case.id)], ensure_ascii=False)
        return PromptSetId(self.name, "sha256:" + hashlib.sha256(text.encode()).hexdigest())


def load_prompts(name: str) -> PromptSet:
    """A shipped set by its name, or the user's by its path; Problems has a line for each fault."""
    path = _FOLDER / f"{name}.jsonl" if name in SHIPPED else Path(name)
    try:
        if path.is_dir():
            cases = list(_from_folder(path))
        else:
            cases = list(_from_lines(path, path.read_bytes().decode("utf-8")))
    except OSError as problem:
        remedy = f"name a shipped set ({', '.join(SHIPPED)}), a JSONL file, or a folder of text files"
        raise Problems([decode.error("prompts", name, str(problem.strerror), remedy)]) from problem
    except UnicodeDecodeError as problem:
        raise Problems([decode.error("prompts", name, f"not UTF-8: {problem.reason}", "convert it")]) from problem
    faults = list(_faults(name, cases))
    if faults:
        raise Problems(faults)
    return PromptSet(name if name in SHIPPED else path.name, tuple(cases))


def _from_lines(path: Path, text: str) -> Iterator[Case]:
    faults: list[Finding] = []
    # Not splitlines: a prompt may hold U+2028 as it is.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        place = f"{path}:{number}"
        try:
            given = decode.load_object(line, place)
        except Problems as problems:
            faults += problems.findings
            continue
        wrong = [key for key, value in given.items() if key in {"prompt", "case", "family"} and type(value) is not str]
        unknown = [key for key in given if key not in {"prompt", "case", "family"}]
        faults += [decode.error(f"{place}.{key}", given[key], "not a text", _REMEDY) for key in wrong]
        faults += [decode.error(f"{place}.{key}", given[key], "unknown field", _REMEDY) for key in unknown]
        if "prompt" not in given:
            faults.append(decode.error(f"{place}.prompt", None, "missing", _REMEDY))
        elif not wrong and not unknown:
            yield Case(given.get("case") or _stable_id(given["prompt"]), given.get("family") or "own", given["prompt"])
    if faults:
        raise Problems(faults)


def _from_folder(folder: Path) -> Iterator[Case]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix in _TEXTS:
            inside = path.relative_to(folder)
            family = inside.parent.as_posix() if len(inside.parts) > 1 else folder.name
            yield Case(inside.with_suffix("").as_posix(), family, path.read_bytes().decode("utf-8"))


def _stable_id(prompt: str) -> str:
    """An id from the prompt itself: lines may be moved and added without renaming cases."""
    return hashlib.sha256(prompt.encode()).hexdigest()[:12]


def _faults(name: str, cases: Iterable[Case]) -> Iterator[Finding]:
    seen: set[str] = set()
    for case in cases:
        if not case.prompt.strip():
            yield decode.error(f"prompts.{case.id}", name, "an empty prompt", "remove it")
        if case.id in seen:
            yield decode.error(f"prompts.{case.id}", name, "a case twice", "give each an id of its own")
        seen.add(case.id)
    if not seen:
        yield decode.error("prompts", name, "no prompt in it", _REMEDY)
