"""FAKE_ENGINE, the JSON that sets the fake engine's speed, answers and faults (documented in the package)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields

ANSWERS = ("copy", "prose", "empty", "loop", "garbage")
# What has happened once the engine serves: a change of these would have no effect.
AT_START = (
    "load_seconds", "device_memory_gib", "exit", "hang_loading", "ignore_speculation", "start_lines", "print_api_key",
)  # fmt: skip
LIES_AT_START = ("args_line", "config_line")
QUESTIONS = ("known", "prose", "empty", "loop", "garbage")
GUIDED = ("valid", "invalid", "ignored", "refused", "failing")
LIES = ("args_line", "config_line", "metrics", "version")


@dataclass(frozen=True)
class Settings:
    """Times in seconds; the package's docstring says what each does."""

    load_seconds: float = 0.0
    tokens_per_second: float = 1000.0
    ttft_seconds: float = 0.0
    draft_cost: float = 0.0
    answer_tokens: int = 64
    acceptance: float = 1.0
    answer: str | dict[str, str] = "copy"
    question: str = "known"
    guided: str = "valid"
    think: bool | None = None
    device_memory_gib: float = 22.03
    exit: str | dict[str, object] | None = None
    hang_loading: bool = False
    ignore_speculation: bool = False
    never_draft: bool = False
    status: dict[str, int] = field(default_factory=dict)
    crash_after: int | None = None
    usage: bool = True
    stall_seconds: float = 0.0
    cut_stream: bool = False
    merge_steps: int = 1
    split_steps: bool = False
    start_lines: bool = True
    lie: str | None = None
    print_api_key: bool = False
    keep_alive_comments: bool = False

    @property
    def step_seconds(self) -> float:
        """Duration of a decode step without drafts."""
        return 1 / self.tokens_per_second if self.tokens_per_second else 0.0


def read_settings(text: str | None) -> Settings:
    """Settings from the variable's text. ValueError, one line, for anything that would be ignored or misread."""
    if not text:
        return Settings()
    try:
        given = json.loads(text)
    except ValueError as error:
        raise ValueError(f"error: FAKE_ENGINE: {text!r}: this is not JSON ({error}); give a JSON object") from error
    if not isinstance(given, dict):
        raise ValueError(f"error: FAKE_ENGINE: {text!r}: this is not a JSON object; give one")
    known = {item.name: item.type for item in fields(Settings)}
    for key, value in given.items():
        if key not in known:
            raise ValueError(f"error: FAKE_ENGINE.{key}: {value!r}: unknown; known are {', '.join(known)}")
        if not _fits(value, str(known[key])):
            raise ValueError(f"error: FAKE_ENGINE.{key}: {value!r}: wrong type; it is {known[key]}")
    settings = Settings(**given)
    _check_choices(settings)
    return settings


def changed_settings(old: Settings, text: str) -> Settings:
    """Settings for an engine that serves. ValueError as read_settings, and for what is over."""
    new = read_settings(text)
    for name in (*AT_START, "lie"):
        before, after = getattr(old, name), getattr(new, name)
        if before != after and (name != "lie" or {before, after} & {*LIES_AT_START}):
            raise ValueError(f"error: FAKE_ENGINE.{name}: {after!r}: it has an effect at start only; it was {before!r}")
    return new


def _fits(value: object, wanted: str) -> bool:
    if isinstance(value, bool):
        return "bool" in wanted
    kinds: Mapping[str, type | tuple[type, ...]] = {"float": (int, float), "int": int, "str": str, "dict": dict}
    names = [name.strip().partition("[")[0] for name in wanted.split("|")]
    return any(value is None if name == "None" else isinstance(value, kinds.get(name, ())) for name in names)


def _check_choices(settings: Settings) -> None:
    for name, choices in (("answer", ANSWERS), ("question", QUESTIONS), ("guided", GUIDED), ("lie", LIES)):
        value = getattr(settings, name)
        if isinstance(value, str) and value not in choices:
            raise ValueError(f"error: FAKE_ENGINE.{name}: {value!r}: unknown; known are {', '.join(choices)}")
    for name in ("load_seconds", "tokens_per_second", "ttft_seconds", "draft_cost", "stall_seconds"):
        if getattr(settings, name) < 0:
            raise ValueError(
                f"error: FAKE_ENGINE.{name}: {getattr(settings, name)}: it must not be negative; give 0 or more"
            )
    if not 0 <= settings.acceptance <= 1:
        raise ValueError(f"error: FAKE_ENGINE.acceptance: {settings.acceptance}: it is a chance; give 0 to 1")
    if settings.merge_steps < 1:
        raise ValueError(f"error: FAKE_ENGINE.merge_steps: {settings.merge_steps}: it counts steps; give 1 or more")
