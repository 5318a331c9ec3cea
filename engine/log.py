"""What an engine's log says: how it was started, whether it speculates, and what it measured.

A line that is missing proves nothing: its value is None or "unknown", never a default. The start-up line shows method
and k only; the n-gram window is in the `non-default args` line, as given. Patterns are anchored at the start of a
message, so that a prompt in a request log cannot pass for one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from engine.lines import LogLine, read_lines
from engine.redact import redact, redact_values
from engine.speculative_flags import KEY_FLAGS
from engine.stats import EngineWindow, SpecWindow, read_engine_window, read_spec_window
from engine.versions import Runner

# A longer args line is not one of vLLM's; literal_eval of it could take long.
_LONGEST_ARGS = 200_000
# What is kept of a start-up line (characters): the config line names model and speculation first, and an args line that
# is cut off is no literal any more.
_KEPT_CONFIG = 2_000
_KEPT_ARGS = 16_000

_INIT = re.compile(r"Initializing an? (?:V\d )?LLM engine \(v(?P<version>[^)\s]{1,80})\) with config: ?(?P<config>.*)")
_MODEL = re.compile(r"\bmodel=(?:'(?P<single>[^']*)'|\"(?P<double>[^\"]*)\")")
_SPECULATIVE = re.compile(r"\bspeculative_config=(?:(?P<none>None\b)|SpeculativeConfig\((?P<fields>[^()]*)\))")
_FIELD = re.compile(r"(\w+)=(None|'[^']*'|\"[^\"]*\"|[^,\s]+)")
_ARGS = re.compile(r"non-default args: (?P<dict>\{.*\})\s*$")
_KV_SIZE = re.compile(r"(?P<device>\w+) KV cache size: (?P<tokens>[\d,]+) tokens")
_CONCURRENCY = re.compile(r"(?:.*, )?Maximum concurrency for (?P<length>[\d,]+) tokens per request: (?P<times>[\d.]+)x")
_KV_MEMORY = re.compile(r"Available KV cache memory: (?P<gib>-?[\d.]+) GiB")
_SERVER_VERSION = re.compile(r"(?:vLLM (?:API )?server version |.*█\s+version )(?P<version>\d\S*?),?(?:\s|$)")
_RUNNERS: tuple[tuple[re.Pattern[str], Runner], ...] = (
    (re.compile(r"Model Runner V2 .*; using the V1 model runner instead\."), "V1"),
    (re.compile(r"Using V2 Model Runner"), "V2"),
)
_ASYNC: tuple[tuple[re.Pattern[str], bool], ...] = (
    (re.compile(r"Asynchronous scheduling is enabled\."), True),
    (re.compile(r"Asynchronous scheduling is disabled\."), False),
    (re.compile(r"Async scheduling (?:is )?not (?:yet )?supported with .* will be disabled"), False),
    (re.compile(r"Async scheduling is not compatible with .* will be disabled"), False),
    (re.compile(r"Async scheduling (?:is|will be) disabled because"), False),
)

_START_PATTERNS = (_SERVER_VERSION, *(pattern for pattern, _ in (*_RUNNERS, *_ASYNC)))


@dataclass(frozen=True)
class Speculation:
    """What the start-up line proves: on (with method and k), off, or unknown (no such line, or an unreadable one).

    num_speculative_tokens: k; draft_model: path of the draft weights, None for model-free methods.
    """

    state: Literal["on", "off", "unknown"]
    method: str | None = None
    num_speculative_tokens: int | None = None
    draft_model: str | None = None
    evidence: str = ""


UNKNOWN = Speculation("unknown")


@dataclass(frozen=True)
class KvCache:
    """Size of the KV cache in tokens, and how many requests of `length` tokens fit at once (None: not logged)."""

    device: str
    tokens: int
    length: int | None = None
    concurrency: float | None = None


@dataclass(frozen=True)
class EngineLog:
    """All that a log says; None and empty where it says nothing.

    version, model: of the start-up line (version also of the server's); args: the non-default args as given, secrets
    masked; runner: V1 or V2 when a line names it; async_scheduling: whether it is on; kv_memory_gib: GiB for the KV
    cache; starts: how often an engine process was initialised; ready: the API server is up; processes: (name, pid).
    """

    version: str | None = None
    model: str | None = None
    speculation: Speculation = UNKNOWN
    args: Mapping[str, object] | None = None
    args_line: str | None = None
    runner: Runner | None = None
    async_scheduling: bool | None = None
    kv_cache: KvCache | None = None
    kv_memory_gib: float | None = None
    starts: int = 0
    ready: bool = False
    spec_windows: tuple[SpecWindow, ...] = ()
    engine_windows: tuple[EngineWindow, ...] = ()
    processes: tuple[tuple[str, int], ...] = ()
    problems: tuple[str, ...] = field(default=())

    @property
    def speculative_args(self) -> Mapping[str, object] | None:
        """The speculative config of the args line, None when the line or the config is missing."""
        args = self.args or {}
        value = args.get("speculative_config")
        config = dict(value) if isinstance(value, Mapping) else {}
        for flag, key in KEY_FLAGS.items():
            if (given := args.get(flag.replace("-", "_"))) is not None:
                config[key] = given
        return config or None


def parse_log(log: str | Iterable[str]) -> EngineLog:
    """Read a log given as text or as lines; any text is accepted."""
    reader = _Reader()
    for line in read_lines(log):
        reader.read(line)
    return reader.result()


def start_lines(log: str | Iterable[str]) -> tuple[str, ...]:
    """The start-up lines of a log that a verdict rests on, redacted, in a form that parse_log reads; repeats left out.

    They are versions, arguments, config, model runner and scheduling: what rotation takes from a log first.
    """
    kept: dict[str, None] = {}
    for line in read_lines(log):
        message = line.message
        if _INIT.match(message):
            message = message[:_KEPT_CONFIG]
        elif _ARGS.match(message):
            if len(message) > _KEPT_ARGS:
                continue
        elif not any(pattern.match(message) for pattern in _START_PATTERNS):
            continue
        prefix = f"({line.process} pid={line.pid}) " if line.process else ""
        kept[prefix + redact(message)] = None
    return tuple(kept)


class _Reader:
    def __init__(self) -> None:
        self.inits: dict[str, tuple[Speculation, str | None, str]] = {}
        self.starts = 0
        self.server_version: str | None = None
        self.args: Mapping[str, object] | None = None
        self.args_line: str | None = None
        self.runner: Runner | None = None
        self.async_scheduling: bool | None = None
        self.kv: KvCache | None = None
        self.kv_memory: float | None = None
        self.ready = False
        self.spec: list[SpecWindow] = []
        self.engine: list[EngineWindow] = []
        self.processes: dict[tuple[str, int], None] = {}
        self.problems: list[str] = []

    def read(self, line: LogLine) -> None:
        if line.process and line.pid is not None:
            self.processes[(line.process, line.pid)] = None
        message = line.message
        if match := _INIT.match(message):
            self.starts += 1
            self.inits[line.process or ""] = (*_read_config(match["config"]), match["version"])
        elif match := _ARGS.match(message):
            self._read_args(match["dict"])
        elif window := read_engine_window(line):
            self.engine.append(window)
        elif spec := read_spec_window(line, self.engine[-1].engine if self.engine else None):
            self.spec.append(spec)
            self.problems += spec.problems()
        else:
            self._read_setup(message)

    def _read_args(self, text: str) -> None:
        self.args_line = redact(text)
        self.args = read_args_dict(text)

    def _read_setup(self, message: str) -> None:
        if match := _KV_SIZE.match(message):
            self.kv = KvCache(match["device"], _int(match["tokens"]))
        if (match := _CONCURRENCY.match(message)) and self.kv:
            self.kv = KvCache(self.kv.device, self.kv.tokens, _int(match["length"]), _float(match["times"]))
        if match := _KV_MEMORY.match(message):
            self.kv_memory = _float(match["gib"])
        if match := _SERVER_VERSION.match(message):
            self.server_version = match["version"]
        if message.startswith(("INFO:     Application startup complete.", "Application startup complete.")):
            self.ready = True
        for pattern, runner in _RUNNERS:
            if pattern.match(message):
                self.runner = runner
        for pattern, on in _ASYNC:
            if pattern.match(message):
                self.async_scheduling = on

    def result(self) -> EngineLog:
        found = list(self.inits.values())
        speculation = found[-1][0] if found else UNKNOWN
        if len({(s.state, s.method, s.num_speculative_tokens) for s, _, _ in found}) > 1:
            self.problems.append("the engine processes do not agree on speculation")
            speculation = Speculation("unknown", evidence="; ".join(s.evidence for s, _, _ in found))
        return EngineLog(
            version=found[-1][2] if found else self.server_version,
            model=found[-1][1] if found else None,
            speculation=speculation,
            args=self.args,
            args_line=self.args_line,
            runner=self.runner,
            async_scheduling=self.async_scheduling,
            kv_cache=self.kv,
            kv_memory_gib=self.kv_memory,
            starts=self.starts,
            ready=self.ready,
            spec_windows=tuple(self.spec),
            engine_windows=tuple(self.engine),
            processes=tuple(self.processes),
            problems=tuple(self.problems),
        )


def read_args_dict(text: str) -> Mapping[str, object] | None:
    """The dict of a `non-default args` line with secrets masked, None when it is not a literal.

    Enum members (`<Mode.NONE: 0>`) are no literals; they become None.
    """
    if len(text) > _LONGEST_ARGS:
        return None
    for candidate in (text, re.sub(r"<[A-Za-z_][\w.]*(?:: [^<>]*)?>", "None", text)):
        try:
            value = ast.literal_eval(candidate)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            continue
        if isinstance(value, dict) and all(isinstance(key, str) for key in value):
            return redact_values(value)
    return None


def _read_config(config: str) -> tuple[Speculation, str | None]:
    model = _MODEL.match(config)
    name = (model["single"] if model["single"] is not None else model["double"]) if model else None
    match = _SPECULATIVE.search(config)
    if match is None:
        return UNKNOWN, name
    if match["none"]:
        return Speculation("off", evidence=match[0]), name
    fields = {key: value.strip("'\"") for key, value in _FIELD.findall(match["fields"])}
    draft = fields.get("model")
    k = fields.get("num_spec_tokens", "")
    return (
        Speculation(
            "on",
            fields.get("method"),
            int(k) if re.fullmatch(r"\d{1,6}", k) else None,
            None if draft in (None, "None") else draft,
            match[0],
        ),
        name,
    )


def _int(text: str) -> int:
    return int(text.replace(",", "") or 0)


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
