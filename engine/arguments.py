"""A container's args as the engine reads them, with the speculative config in every spelling vLLM takes.

Two spellings that say something about the same key are an error: which one vLLM keeps depends on their order and on
the version, so none is picked here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from engine.findings import Finding, Severity
from engine.flags import MANY, SHORT, Token, engine_args, is_boolean, read_int, tokens
from engine.names import FLAGS, Presence
from engine.speculative_flags import CONFIG, KEY_FLAGS, collect, merge_dotted
from engine.versions import EngineVersion

# Values that no finding repeats.
_SECRET = frozenset({"api-key", "hf-token"})
_CHAT_KWARGS = "default-chat-template-kwargs"
# What chat templates call their switch: most of them, and those of DeepSeek and Granite.
_THINKING = ("enable_thinking", "thinking")


@dataclass(frozen=True)
class EngineArgs:
    """What the args of an engine say.

    model: --model or the positional; served_model_names: the names clients may use, the first is the metrics' label;
    max_model_len in tokens (-1: as much as fits); speculative: the config as given (no defaults filled in), None when
    there is none or the spellings conflict; declares_speculation: some spelling asks for it; chat_template_kwargs: what
    every chat template is given; flags: name without dashes (and with its path, if dotted) -> the values in order
    (None: a flag without value).
    """

    model: str | None = None
    served_model_names: tuple[str, ...] = ()
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    speculative: Mapping[str, object] | None = None
    declares_speculation: bool = False
    chat_template_kwargs: Mapping[str, object] = field(default_factory=dict)
    flags: Mapping[str, tuple[str | None, ...]] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()

    @property
    def client_model(self) -> str | None:
        """What a request's `model` must say."""
        return self.served_model_names[0] if self.served_model_names else self.model

    @property
    def served_model_name(self) -> str | None:
        """The first --served-model-name, None without the flag."""
        return self.served_model_names[0] if self.served_model_names else None

    @property
    def thinking_off(self) -> bool:
        """Whether the server is told that models are not to think (it is their templates' affair to obey)."""
        return any(self.chat_template_kwargs.get(name) is False for name in _THINKING)

    def value(self, flag: str) -> str | None:
        """The last value of a flag (the one vLLM keeps), None when it is absent or has none."""
        return self.flags.get(flag, (None,))[-1]

    def enabled(self, flag: str) -> bool | None:
        """Whether a flag without value is on, off (--no-flag) or not given; the last one counts."""
        found = None
        for name in self.flags:  # in the order of the args
            if name in (flag, f"no-{flag}"):
                found = name == flag
        return found

    def number(self, flag: str) -> int | None:
        """The value of a flag as an integer, None when it is absent or none."""
        text = self.value(flag)
        return None if text is None else read_int(text)


def read_args(args: Sequence[str], version: EngineVersion | None = None, *, command: Sequence[str] = ()) -> EngineArgs:
    """Read a container's args (and command, when it replaces the image's entrypoint).

    With a version the findings also name the flags that it does not take.
    """
    argv, unread = engine_args(command, args)
    found = list(tokens(argv))
    findings = [unread] if unread else []
    flags: dict[str, tuple[str | None, ...]] = {}
    for token in found:
        if token.name and not token.keys:
            values: tuple[str | None, ...] = token.values or (None,)
            earlier = flags.pop(token.name, ())
            flags[token.name] = values if token.name in MANY else earlier + values
            findings += _flag_findings(token)
        elif token.name != CONFIG and token.keys:
            flags[f"{token.name}.{'.'.join(token.keys)}"] = token.values or (None,)
    spelled = {token.spelled.lstrip("-").partition(".")[0].replace("_", "-") for token in found if token.name}
    findings += _repeated(found)
    speculative, declares, conflicts = collect(found)
    findings += conflicts
    if version:
        findings += [gate for name in sorted(spelled) if (gate := _gate(name, version))]
    model = _model(flags, [token.spelled for token in found if not token.name], findings)
    return EngineArgs(
        model=model,
        served_model_names=tuple(name for name in flags.get("served-model-name", ()) if name),
        max_model_len=_number(flags, "max-model-len", findings),
        max_num_seqs=_number(flags, "max-num-seqs", findings),
        speculative=speculative,
        declares_speculation=declares,
        chat_template_kwargs=_chat_kwargs(found),
        flags=flags,
        findings=tuple(findings),
    )


def write_speculative(args: Sequence[str], config: Mapping[str, object] | None) -> list[str]:
    """The args with this speculative config as one --speculative-config=JSON (None: with none); the rest untouched.

    It takes the place of the first spelling that it replaces, or the end.
    """
    kept: list[str] = []
    place: int | None = None
    for token in tokens(args):
        if token.name == CONFIG or token.name in KEY_FLAGS:
            place = len(kept) if place is None else place
        else:
            kept += args[token.start : token.end]
    if config is not None:
        kept.insert(len(kept) if place is None else place, f"--{CONFIG}={json.dumps(dict(config))}")
    return kept


def _error(path: str, value: object, why: str, remedy: str) -> Finding:
    return Finding(Severity.ERROR, path, value, why, remedy)


def _flag_findings(token: Token) -> list[Finding]:
    if token.abbreviated:
        return [
            Finding(
                Severity.WARNING,
                f"args.{token.spelled}",
                None,
                f"vLLM takes this for --{token.name} only as long as no other flag begins the same way",
                f"write --{token.name}",
            )
        ]
    if token.attached and is_boolean(token.name) and not token.name.startswith(("disable-", "skip-")):
        return [
            _error(
                f"args.{token.spelled}",
                token.values[0],
                "vLLM refuses a value for this flag",
                f"write {token.spelled} or --no-{token.name.removeprefix('no-')}",
            )
        ]
    return []


def _repeated(found: Sequence[Token]) -> list[Finding]:
    given: dict[str, list[str]] = {}
    for token in found:
        if token.name and not token.keys and token.name not in KEY_FLAGS.keys() | {CONFIG, "model"}:
            given.setdefault(token.name, []).append(" ".join(token.values))
    return [
        Finding(
            Severity.WARNING,
            f"args.--{name}",
            " and ".join(values),
            f"it is given {len(values)} times; vLLM keeps the last",
            "keep one",
        )
        for name, values in given.items()
        if len(values) > 1 and name not in _SECRET
    ]


def _model(flags: Mapping[str, tuple[str | None, ...]], positionals: list[str], findings: list[Finding]) -> str | None:
    given = [*positionals[:1], *(value for value in flags.get("model", ()) if value)]
    if len(set(given)) > 1:
        findings.append(_error("args.--model", given, "two models are named", "name one"))
    if positionals[1:]:
        findings.append(
            _error("args", positionals[1], "vLLM refuses it as an unrecognized argument", "remove it, or name its flag")
        )
    return given[0] if given else None


def _chat_kwargs(found: Sequence[Token]) -> dict[str, object]:
    """Dotted keys win over the JSON, as for every JSON flag; what is no object says nothing."""
    kwargs: dict[str, object] = {}
    given = [token for token in found if token.name == _CHAT_KWARGS]
    for token in given:
        if not token.keys and token.values:
            try:
                value = json.loads(token.values[-1])
            except (ValueError, RecursionError):
                continue
            kwargs = value if isinstance(value, dict) else {}
    if dotted := [token for token in given if token.keys]:
        kwargs = {}
        merge_dotted(kwargs, dotted)
    return kwargs


def _number(flags: Mapping[str, tuple[str | None, ...]], flag: str, findings: list[Finding]) -> int | None:
    text = flags.get(flag, (None,))[-1]
    if text is None:
        return None
    fit = flag == "max-model-len"  # -1 and auto: as much as fits
    number = -1 if fit and text.strip().lower() == "auto" else read_int(text)
    if number is None or (number < 1 and not (fit and number == -1)):
        findings.append(_error(f"args.--{flag}", text, "it must be a positive integer", "give a number such as 8192"))
        return None
    return number


def _gate(name: str, version: EngineVersion) -> Finding | None:
    span = FLAGS.get(name)
    state = span.at(version.effective) if span else Presence.PRESENT
    if span is None or state is Presence.PRESENT:
        return None
    dash = "-" if name in SHORT else "--"
    remedy = f"write --{SHORT[name]}" if name in SHORT else f"remove it, or take another version ({span.since_text()})"
    if state is Presence.ABSENT:
        why = f"{version} does not know this flag and would not start (it exists {span.since_text()})"
        return _error(f"args.{dash}{name}", None, why, remedy)
    why = f"it is not established that {version} knows this flag (it was seen {span.since_text()})"
    return Finding(Severity.WARNING, f"args.{dash}{name}", None, why, remedy)
