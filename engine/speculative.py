"""vLLM's speculative config: what a config means once defaults are filled in, and which ones it would refuse.

The rules are those of config/speculative.py per version. We are stricter than vLLM in three points, each with its
reason in the finding: unknown keys are always refused (old versions drop them silently), counts must be JSON integers
(vLLM turns "5" and true into numbers), and very wide n-gram windows need a deliberate override.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeGuard

from engine.findings import Finding
from engine.names import (
    ENGINE_KEYS,
    METHODS,
    MTP_NAMES,
    NEEDS_MODEL,
    NGRAM_METHODS,
    SPECULATIVE_KEYS,
    Presence,
    presence,
)
from engine.versions import EngineVersion

PATH = "speculative_config"
# prompt_lookup_min and prompt_lookup_max when neither is given (all versions; the field's own help text says 1).
DEFAULT_WINDOW = 5
# MAX_SPEC_LEN of v1/sample/rejection_sampler.py: asserted at run time only, so the engine starts and then dies.
MAX_SPECULATIVE_TOKENS = 128
# The matcher tries every length from max down to min, for each request and step, on one CPU thread (vLLM issue 16883).
WIDE_WINDOW = 16
TOO_WIDE_WINDOW = 64
# Default of suffix_decoding_max_tree_depth, which is also its default k.
SUFFIX_TREE_DEPTH = 24


@dataclass(frozen=True)
class SpeculativeConfig:
    """A speculative config with vLLM's defaults filled in.

    num_speculative_tokens: most drafts a step (k); lookup_min, lookup_max: shortest and longest n-gram in tokens,
    None when the method does not use them; model: of the draft, None for model-free methods.
    """

    method: str
    num_speculative_tokens: int
    lookup_min: int | None = None
    lookup_max: int | None = None
    model: str | None = None

    @property
    def is_ngram(self) -> bool:
        """Whether drafts are copied from the request's own text."""
        return self.method in NGRAM_METHODS


def resolve(raw: Mapping[str, object]) -> SpeculativeConfig | None:
    """The effective config of a raw one, None when vLLM would refuse it for method, k or window."""
    method = effective_method(raw)
    k = raw.get("num_speculative_tokens")
    if method == "suffix" and k is None:
        k = raw.get("suffix_decoding_max_tree_depth", SUFFIX_TREE_DEPTH)
    model = raw.get("model")
    if method is None or not _is_count(k):
        return None
    lookup_min, lookup_max = _mirrored(raw)
    if method not in NGRAM_METHODS:
        return SpeculativeConfig(method, k, model=model if isinstance(model, str) else None)
    if not _is_count(lookup_min) or not _is_count(lookup_max) or lookup_min > lookup_max:
        return None
    return SpeculativeConfig(method, k, lookup_min, lookup_max)


def effective_method(raw: Mapping[str, object]) -> str | None:
    """The method that vLLM takes, None when the config names neither a method nor a model."""
    method, model = raw.get("method"), raw.get("model")
    if isinstance(method, str):
        return "mtp" if method in MTP_NAMES else method
    if model in ("ngram", "[ngram]"):
        return "ngram"
    return "draft_model" if isinstance(model, str) else None


def check_speculative(
    raw: Mapping[str, object], version: EngineVersion, *, allow_wide_window: bool = False
) -> list[Finding]:
    """Everything to say about a speculative config before the engine starts, in the order of its parts."""
    return [
        *_check_keys(raw, version),
        *_check_method(raw, version),
        *_check_count(raw),
        *_check_window(raw, allow_wide=allow_wide_window),
        *_check_suffix(raw),
        *_check_synthetic(raw),
    ]


def _error(key: str, value: object, why: str, remedy: str) -> Finding:
    return Finding.error(f"{PATH}.{key}", value, why, remedy)


def _warning(key: str, value: object, why: str, remedy: str) -> Finding:
    return Finding.warning(f"{PATH}.{key}", value, why, remedy)


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _mirrored(raw: Mapping[str, object]) -> tuple[object, object]:
    lower, upper = raw.get("prompt_lookup_min"), raw.get("prompt_lookup_max")
    if lower is None and upper is None:
        return DEFAULT_WINDOW, DEFAULT_WINDOW
    return (upper if lower is None else lower), (lower if upper is None else upper)


def _check_keys(raw: Mapping[str, object], version: EngineVersion) -> list[Finding]:
    found = []
    for key, value in raw.items():
        underscored = key.replace("-", "_")
        state = presence(SPECULATIVE_KEYS, key, version.effective)
        if key == "tensor_parallel_size":
            why = f"{version} {_does(version, known_refusal=True)}"
            found.append(_error(key, value, why, "name it draft_tensor_parallel_size"))
        elif key in ENGINE_KEYS:
            found.append(_error(key, value, "the engine fills it in itself", "remove it"))
        elif underscored != key and underscored in SPECULATIVE_KEYS:
            found.append(_error(key, value, _hyphens(version), f"write {underscored}"))
        elif key not in SPECULATIVE_KEYS:
            remedy = f"did you mean {near}?" if (near := _nearest(key)) else "remove it"
            found.append(_error(key, value, f"unknown key; {version} {_does(version)}", remedy))
        elif state is Presence.ABSENT:
            span = SPECULATIVE_KEYS[key]
            why = f"{version} does not know this key ({span.since_text()}) and {_does(version)}"
            found.append(_error(key, value, why, "remove it, or take another version"))
        elif state is Presence.NOT_ESTABLISHED:
            why = f"it is not established that {version} knows this key ({SPECULATIVE_KEYS[key].since_text()})"
            found.append(_warning(key, value, why, "check the engine's start-up log"))
        elif key == "disable_by_batch_size":
            found.append(_warning(key, value, "it has no effect (vLLM issue 25112)", "remove it"))
    return found


def _does(version: EngineVersion, *, known_refusal: bool = False) -> str:
    dropped = version.features.unknown_keys == "dropped"
    if dropped:
        return "would drop it without a word"
    return "refuses it" if known_refusal else "would not start"


def _hyphens(version: EngineVersion) -> str:
    does = {
        "dropped": "would drop a key with hyphens without a word",
        "refused": "refuses a key with hyphens",
        "rewritten": "takes it, but older versions drop or refuse a key with hyphens",
        None: "may refuse a key with hyphens",
    }
    return f"{version} {does[version.features.hyphenated_keys]}"


def _nearest(key: str) -> str | None:
    # Imported here: only a wrong key needs it, and the Job should start quickly.
    from difflib import get_close_matches  # noqa: PLC0415

    return next(iter(get_close_matches(key, SPECULATIVE_KEYS, n=1)), None)


def _check_method(raw: Mapping[str, object], version: EngineVersion) -> list[Finding]:
    method, model = raw.get("method"), raw.get("model")
    if method is None:
        if model is None:
            why = "neither a method nor a model is given; vLLM: num_speculative_tokens was provided but without "
            return [_error("method", None, why + "speculative model.", 'give "method": "ngram"')]
        why = f"it is missing; vLLM would take {effective_method(raw)!r} from the model's name"
        return [_warning("method", None, why, "name the method")]
    state = presence(METHODS, method, version.effective) if isinstance(method, str) else Presence.ABSENT
    if not isinstance(method, str) or state is Presence.ABSENT:
        remedy = 'write "ngram"' if method == "[ngram]" else "use a method of this version, such as ngram"
        return [_error("method", method, f"{version} has no such method", remedy)]
    found = []
    if state is Presence.NOT_ESTABLISHED:
        why = f"it is not established that {version} has this method ({METHODS[method].since_text()})"
        found.append(_warning("method", method, why, "check the engine's start-up log"))
    if method in MTP_NAMES:
        found.append(_warning("method", method, "this name is deprecated", 'write "mtp"'))
    if method == "draft_model" and version.features.draft_model is False:
        why = f"{version}: Speculative decoding with draft model is not supported yet."
        found.append(_error("method", method, why, "use ngram, or vLLM 0.23 or newer"))
    if method in NEEDS_MODEL and not isinstance(model, str):
        why = f"it needs a draft model; {version} would not start"
        found.append(_error("model", model, why, "name the draft model"))
    return found


def _check_count(raw: Mapping[str, object]) -> list[Finding]:
    key = "num_speculative_tokens"
    k = raw.get(key)
    if k is None:
        return [_missing_count(key, raw)]
    if not isinstance(k, int) or isinstance(k, bool):
        return [
            _error(key, k, "it must be a JSON integer (vLLM would convert some values)", "write a number such as 5")
        ]
    if k < 1:
        return [_error(key, k, "it must be at least 1; vLLM would not start", "give 1 or more, or remove the config")]
    if k > MAX_SPECULATIVE_TOKENS:
        why = f"more than {MAX_SPECULATIVE_TOKENS} drafts of a request fail an assertion of the sampler at run time"
        return [_error(key, k, why, f"give at most {MAX_SPECULATIVE_TOKENS}; 3 to 8 is usual for n-gram")]
    return []


def _missing_count(key: str, raw: Mapping[str, object]) -> Finding:
    method = effective_method(raw)
    if method == "suffix":
        depth = raw.get("suffix_decoding_max_tree_depth", SUFFIX_TREE_DEPTH)
        return _warning(key, None, f"it is missing; vLLM would use {depth}", "give it")
    if method in NGRAM_METHODS or method is None:
        return _error(key, None, "it is missing; vLLM would not start", "give it, such as 5")
    return _warning(key, None, "it is missing; vLLM takes the draft model's n_predict or does not start", "give it")


def _check_window(raw: Mapping[str, object], *, allow_wide: bool) -> list[Finding]:
    given = {key: raw[key] for key in ("prompt_lookup_min", "prompt_lookup_max") if raw.get(key) is not None}
    if effective_method(raw) not in NGRAM_METHODS:
        return [_warning(key, value, "only the n-gram methods use it", "remove it") for key, value in given.items()]
    wrong = [
        _error(key, value, "it must be a JSON integer of at least 1; vLLM would not start", "give a number such as 4")
        for key, value in given.items()
        if not _is_count(value)
    ]
    if wrong:
        return wrong
    lower, upper = _mirrored(raw)
    if not _is_count(lower) or not _is_count(upper):
        return []
    if lower > upper:
        why = f"it must be <= prompt_lookup_max={upper}; vLLM would not start"
        return [_error("prompt_lookup_min", lower, why, "swap the two, or lower it")]
    found = []
    missing = sorted({"prompt_lookup_min", "prompt_lookup_max"} - given.keys(), reverse=True)
    if missing:
        which = "it is" if len(missing) == 1 else "it and prompt_lookup_max are"
        why = f"{which} missing; vLLM would use min={lower} and max={upper}, so only {upper}-token matches draft"
        found.append(_warning(missing[0], None, why, "give both, such as 2 and 4"))
    if upper > TOO_WIDE_WINDOW and not allow_wide:
        why = f"a window wider than {TOO_WIDE_WINDOW} tokens costs CPU time in every step (vLLM issue 16883)"
        found.append(_error("prompt_lookup_max", upper, why, "use 2 to 8, or allow it explicitly"))
    elif upper > WIDE_WINDOW:
        why = f"a window wider than {WIDE_WINDOW} tokens costs CPU time in every step (vLLM issue 16883)"
        found.append(_warning("prompt_lookup_max", upper, why, "use 2 to 8"))
    return found


def _check_suffix(raw: Mapping[str, object]) -> list[Finding]:
    if effective_method(raw) != "suffix":
        return []
    found = [
        _warning("method", "suffix", "it needs the package arctic-inference in the image", "use an image that has it")
    ]
    bounds: tuple[tuple[str, float, float | None], ...] = (
        ("suffix_decoding_max_tree_depth", 1, None),
        ("suffix_decoding_max_cached_requests", 0, None),
        ("suffix_decoding_max_spec_factor", 0, None),
        ("suffix_decoding_min_token_prob", 0, 1),
    )
    for key, lowest, highest in bounds:
        value = raw.get(key)
        if value is None:
            continue
        number = value if isinstance(value, int | float) and not isinstance(value, bool) else None
        if number is None or number < lowest or (highest is not None and number > highest):
            limits = f"in [{lowest:g}, {highest:g}]" if highest is not None else f">= {lowest:g}"
            found.append(_error(key, value, f"it must be {limits}; vLLM would not start", "correct it"))
    return found


def _check_synthetic(raw: Mapping[str, object]) -> list[Finding]:
    if raw.get("rejection_sample_method") != "synthetic":
        return []
    why = "drafts are accepted by chance, not by the model: the answers are wrong on purpose"
    return [_warning("rejection_sample_method", "synthetic", why, "use it for load tests only")]
