"""How vLLM's argument parser reads one flag after the other (utils/argparse_utils.py, the same from 0.11.2 on).

Underscores equal hyphens in a flag's name, `--flag=value` equals `--flag value`, a dotted flag sets one key of a JSON
flag, unambiguous beginnings of a name are taken, and numbers may end in k, m, g, t (decimal) or K, M, G, T (binary).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from engine.findings import Finding
from engine.redact import redact

SHORT = {
    "sc": "speculative-config",
    "tp": "tensor-parallel-size",
    "pp": "pipeline-parallel-size",
    "dp": "data-parallel-size",
    "q": "quantization",
}
# Flags without a value, each also as --no-<flag>. Others that begin with enable-, disable- or skip- are taken as such.
BOOLEAN = frozenset(
    {
        "async-scheduling",
        "disable-custom-all-reduce",
        "disable-log-requests",
        "disable-log-stats",
        "enable-auto-tool-choice",
        "enable-chunked-prefill",
        "enable-force-include-usage",
        "enable-log-requests",
        "enable-lora",
        "enable-per-request-metrics",
        "enable-prefix-caching",
        "enable-prompt-tokens-details",
        "enforce-eager",
        "kv-sharing-fast-prefill",
        "language-model-only",
        "skip-tokenizer-init",
        "trust-remote-code",
    }
)
# Flags that take all values up to the next flag.
MANY = frozenset({"api-key", "served-model-name", "lora-modules", "middleware", "allowed-local-media-path"})
# Flags that this project reads by name; only these are recognised by their beginning.
_NAMED = (
    BOOLEAN
    | MANY
    | set(SHORT.values())
    | {
        "api-server-count",
        "config",
        "default-chat-template-kwargs",
        "dtype",
        "gpu-memory-utilization",
        "max-model-len",
        "max-num-batched-tokens",
        "max-num-seqs",
        "model",
        "per-request-spec-decode-metrics",
        "reasoning-parser",
        "spec-method",
        "spec-model",
        "spec-tokens",
        "tool-call-parser",
    }
)
# Shorter beginnings could be those of flags that are not listed here.
_SHORTEST_BEGINNING = 5


@dataclass(frozen=True)
class Token:
    """One flag or positional of a command line, args[start:end].

    name: canonical flag name, "" for a positional; spelled: as written, without the value; keys: path below a JSON
    flag; values: what follows it; attached: the value came with "="; abbreviated: only a beginning was written.
    """

    name: str
    spelled: str
    start: int
    end: int
    values: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    attached: bool = False
    abbreviated: bool = False
    as_list: bool = False


def tokens(args: Sequence[str]) -> Iterator[Token]:
    """Split a command line into flags and positionals."""
    index = 0
    while index < len(args):
        token = _token(args, index)
        yield token
        index = token.end


def is_flag(text: str) -> bool:
    """Whether argparse takes the text for a flag (a negative number is a value)."""
    return len(text) > 1 and text[0] == "-" and not re.fullmatch(r"-\d+(\.\d+)?|-\.\d+", text)


def is_boolean(name: str) -> bool:
    """Whether a flag takes no value."""
    return name.removeprefix("no-") in BOOLEAN or name.startswith(("no-", "enable-", "disable-", "skip-"))


def read_int(text: str) -> int | None:
    """An integer as vLLM reads it ("16384", "16k" = 16,000, "16K" = 16,384); None when it is none."""
    match = re.fullmatch(r"\s*(-?\d{1,18})\s*|\s*(\d{1,15}(?:\.\d{1,15})?)([kKmMgGtT])\s*", text)
    if match is None:
        return None
    if match[1]:
        return int(match[1])
    number, suffix = match[2], match[3]
    power = "kmgt".index(suffix.lower()) + 1
    if suffix.islower():
        return int(float(number) * 1000**power)
    return None if "." in number else int(number) * 1024**power


def expand(args: Sequence[str], env: Mapping[str, str | None]) -> list[str]:
    """Replace $(NAME) as Kubernetes does before the engine sees it; unknown names stay, $$(NAME) is literal."""

    def value(match: re.Match[str]) -> str:
        if match[0].startswith("$$"):
            return match[0][1:]
        known = env.get(match[1])
        return match[0] if known is None else known

    return [re.sub(r"\$?\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)", value, arg) for arg in args]


def engine_args(command: Sequence[str], args: Sequence[str]) -> tuple[list[str], Finding | None]:
    """The flags that reach vLLM from a container's command and args, and what to say when that is not certain.

    Without a command the image's entrypoint starts vLLM and args are its flags.
    """
    if not command:
        return list(args), None
    argv = [*command, *args]
    if PurePosixPath(argv[0]).name in {"sh", "bash", "dash", "ash"} and "-c" in argv:
        script = next(iter(argv[argv.index("-c") + 1 :]), "")
        try:
            # Line continuations of a YAML block are white space for shlex only without their backslash.
            argv = shlex.split(script.replace("\\\n", " "), comments=True)
        except ValueError:
            return [], _unread_command(script)
    for index, word in enumerate(argv):
        if word == "serve" and index and PurePosixPath(argv[index - 1]).name == "vllm":
            return argv[index + 1 :], None
        if word == "vllm.entrypoints.openai.api_server" or word.endswith("/api_server.py"):
            return argv[index + 1 :], None
    return [], _unread_command(" ".join(command))


def _unread_command(command: str) -> Finding:
    return Finding.warning(
        "command",
        redact(command),
        "no start of vLLM is found in it, so nothing about the engine's flags is checked",
        "leave command out: the image starts vLLM with args",
    )


def _token(args: Sequence[str], index: int) -> Token:
    arg = args[index]
    if not is_flag(arg):
        return Token("", arg, index, index + 1, (arg,))
    head, equals, value = arg.partition("=")
    body = head.lstrip("-")
    base, dot, path = body.partition(".")
    name, abbreviated = _canonical(base, long=head.startswith("--"))
    as_list = bool(dot) and path.endswith("+")
    keys = tuple(path.removesuffix("+").split(".")) if dot else ()
    token = Token(name, head, index, index + 1, keys=keys, abbreviated=abbreviated, as_list=as_list)
    if equals:
        return replace(token, values=(value,), attached=True)
    following = args[index + 1 :]
    if keys:  # the parser takes the next word whatever it is
        return replace(token, values=tuple(following[:1]), end=token.end + len(following[:1]))
    if is_boolean(name):
        return token
    values: list[str] = []
    for word in following:
        if is_flag(word) or (values and name not in MANY):
            break
        values.append(word)
    return replace(token, values=tuple(values), end=token.end + len(values))


def _canonical(base: str, *, long: bool) -> tuple[str, bool]:
    if not long:
        return SHORT.get(base, base), False
    name = base.replace("_", "-")
    if name in _NAMED or len(name) < _SHORTEST_BEGINNING:
        return name, False
    longer = [known for known in _NAMED if known.startswith(name)]
    return (longer[0], True) if len(longer) == 1 else (name, False)
