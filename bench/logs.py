"""Prompts and answers from logs: JSON lines (OpenAI requests and responses, conversations, plain) or a log of vLLM.

What a file has is told line by line. A line that has no prompt and answer is counted, never guessed at.
"""

from __future__ import annotations

import json
import re
from ast import literal_eval
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from engine.findings import Finding, Problems, Severity

Encode = Callable[[str], Sequence[int]]
# Family of a text that names none.
ALL = "all"
# Between the messages of a conversation. The chat template is not in a log of the API, so its few tokens are missing.
BETWEEN = "\n"
# No tokenizer has this id: stands for the end token that the engine generates and a text does not show.
END_ID = 2**31 - 1

# Word with its space, single digits, signs: about what a real tokenizer makes of English and code.
_WORDS = re.compile(r" ?[^\W\d_]+|\d| ?(?:[^\w\s]|_)+|\s+?(?=\s\S|$)|\s")
_STRING = r"""(?P<{}>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|None)"""
_IDS = r"(?P<{}>\[[\d, ]*\]|None)"
# vllm/entrypoints/logger.py: --enable-log-requests writes the first (its "details" form at level DEBUG only), and
# --enable-log-outputs the second.
_PROMPT = re.compile(
    r"(?:Received request|Request) (?P<id>[\w-]+)(?: details)?: prompt: " + _STRING.format("text") + r".*?"
    r"(?:prompt_token_ids: " + _IDS.format("ids") + ")"
)
_ANSWER = re.compile(
    r"Generated response (?P<id>[\w-]+)(?: \(streaming complete\))?: output: " + _STRING.format("text") + r", "
    r"output_token_ids: " + _IDS.format("ids") + r", finish_reason: (?P<finish>\w+)"
)
_MAX_TOKENS = re.compile(r"max_tokens=(\d+)")


@dataclass(frozen=True)
class Logged:
    """One request. *_ids: token ids where the log has them; finish: "stop", "length", or None when not known."""

    prompt: str
    answer: str
    family: str = ALL
    finish: str | None = None
    max_tokens: int | None = None
    prompt_ids: tuple[int, ...] | None = None
    answer_ids: tuple[int, ...] | None = None

    def tokens(self, encode: Encode) -> tuple[Sequence[int], Sequence[int]]:
        """Prompt and answer as ids: those of the log if both are there, with the end token if the text just ended."""
        if self.prompt_ids is not None and self.answer_ids is not None:
            return self.prompt_ids, self.answer_ids
        answer = list(encode(self.answer))
        return encode(self.prompt), answer if self.finish == "length" else [*answer, END_ID]


@dataclass(frozen=True)
class Logs:
    """What was read. skipped: lines of JSON, or requests of a vLLM log, without both a prompt and an answer."""

    requests: tuple[Logged, ...]
    skipped: int


def read(text: str) -> Logs:
    """Read the text of a log. Problems when nothing in it is a prompt with its answer."""
    lines = [line for line in text.splitlines() if line.strip()]
    jsons = bool(lines) and lines[0].lstrip().startswith("{")
    found = _json_lines(lines) if jsons else _vllm(lines)
    if found.requests:
        return found
    remedy = "give JSON lines with prompt and completion, or a vLLM log with --enable-log-requests --enable-log-outputs"
    raise Problems([Finding(Severity.ERROR, "LOGS", f"{len(lines)} lines", "none has a prompt and its answer", remedy)])


def encoder(name: str) -> Encode:
    """A tokenizer: "bytes", "words", or the path of a tokenizer.json (or of its folder). Problems for another."""
    if name == "bytes":
        return lambda text: text.encode("utf-8", "replace")
    if name == "words":
        ids: dict[str, int] = {}
        return lambda text: [ids.setdefault(piece, len(ids)) for piece in _WORDS.findall(text)]
    path = Path(name) / "tokenizer.json" if Path(name).is_dir() else Path(name)
    if not path.is_file():
        remedy = "give the path of the model's tokenizer.json, or bytes, or words"
        raise Problems([Finding(Severity.ERROR, "--tokenizer", name, "there is no such file", remedy)])
    # Imported here: the built-in ones need no package.
    from tokenizers import Tokenizer  # noqa: PLC0415

    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the package raises nothing more exact
        raise Problems([Finding(Severity.ERROR, "--tokenizer", name, f"not a tokenizer: {error}", "")]) from error
    return lambda text: tokenizer.encode(text, add_special_tokens=False).ids


def _json_lines(lines: Iterable[str]) -> Logs:
    requests, skipped = [], 0
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            entry = None
        logged = _entry(entry) if isinstance(entry, dict) else None
        if logged is None:
            skipped += 1
        else:
            requests.append(logged)
    return Logs(tuple(requests), skipped)


def _entry(entry: Mapping[str, object]) -> Logged | None:
    request, response = _body(entry.get("request")) or entry, _body(entry.get("response")) or entry
    messages = _messages(request.get("messages"))
    prompt = request.get("prompt", entry.get("prompt"))
    answer, finish = _choice(response)
    if answer is None:
        answer = next(
            (v for k in ("completion", "answer", "output", "text") if isinstance(v := entry.get(k), str)), None
        )
    if answer is None and messages and messages[-1][0] == "assistant":
        # A conversation whose last word is the answer.
        answer, messages = messages[-1][1], messages[:-1]
    if not isinstance(prompt, str):
        prompt = BETWEEN.join(text for _, text in messages) if messages else None
    ids = _ids(entry.get("prompt_token_ids")), _ids(entry.get("token_ids"))
    if (prompt is None or answer is None) and None in ids:
        return None
    metadata = entry.get("metadata")
    family = entry.get("family") or (metadata.get("family") if isinstance(metadata, dict) else None)
    given = entry.get("finish_reason")
    limit = request.get("max_tokens", request.get("max_completion_tokens"))
    return Logged(
        prompt or "",
        answer or "",
        family if isinstance(family, str) else ALL,
        finish or (given if isinstance(given, str) else None),
        limit if isinstance(limit, int) else None,
        *ids,
    )


def _body(value: object) -> Mapping[str, object] | None:
    if not isinstance(value, dict):
        return None
    return inner if isinstance(inner := value.get("body"), dict) else value


def _messages(value: object) -> list[tuple[str, str]]:
    found = []
    for message in value if isinstance(value, list) else []:
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, list):  # parts; images and sounds have no text
            parts = [part.get("text") for part in content if isinstance(part, dict)]
            content = "".join(part for part in parts if isinstance(part, str))
        if isinstance(content, str):
            found.append((str(message.get("role")), content))
    return found


def _choice(response: Mapping[str, object]) -> tuple[str | None, str | None]:
    choices = response.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    message = choice.get("message")
    text = message.get("content") if isinstance(message, dict) else choice.get("text")
    finish = choice.get("finish_reason")
    return (text if isinstance(text, str) else None), (finish if isinstance(finish, str) else None)


def _ids(value: object) -> tuple[int, ...] | None:
    whole = isinstance(value, list) and all(type(token) is int and token >= 0 for token in value)
    return tuple(value) if whole and isinstance(value, list) else None


def _vllm(lines: Iterable[str]) -> Logs:
    prompts: dict[str, Logged] = {}
    requests = []
    for line in lines:
        if prompt := _PROMPT.search(line):
            limit = _MAX_TOKENS.search(line)
            prompts[prompt["id"]] = Logged(
                _text(prompt["text"]), "", max_tokens=int(limit[1]) if limit else None, prompt_ids=_list(prompt["ids"])
            )
        elif (answer := _ANSWER.search(line)) and (logged := prompts.pop(answer["id"], None)):
            ids = _list(answer["ids"])
            requests.append(replace(logged, answer=_text(answer["text"]), finish=answer["finish"], answer_ids=ids))
    return Logs(tuple(requests), len(prompts))


def _text(quoted: str) -> str:
    return "" if quoted == "None" else str(literal_eval(quoted))


def _list(text: str) -> tuple[int, ...] | None:
    return None if text in ("None", "[]") else tuple(json.loads(text))
