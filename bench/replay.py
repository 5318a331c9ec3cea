"""Before deploying: what n-gram speculation would have gained on texts that are there already, and how to set it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from bench.drafts import ACCEPTED, DRAFT_TOKENS, DRAFTS, POSITIONS, STEPS, Copies, Ids, Match, Rules, Tokens
from bench.logs import Encode, Logged, Logs
from engine.fit import Gpu, predicted_speedup
from engine.models import ModelFacts

SCHEMA = 1
# What --tune tries. Longer n-grams hardly ever match; more drafts are verified for nothing where a GPU is busy.
WIDEST = 6
DRAFT_COUNTS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16)
# A setting that is this close to the best one and drafts less is taken instead: the texts of tomorrow are others.
NEAR_BEST = 0.99
# Fewer texts are not split into a half that chooses and a half that judges.
MIN_TO_SPLIT = 8


@dataclass(frozen=True)
class Setting:
    """prompt_lookup_min, prompt_lookup_max and num_speculative_tokens."""

    lowest: int
    highest: int
    k: int

    def __str__(self) -> str:
        return f"k={self.k}, {self.lowest}-{self.highest}"


@dataclass(frozen=True)
class Place:
    """Where it would run: the roofline's input. sequences: decoded together."""

    model: ModelFacts
    gpu: Gpu
    sequences: int = 1


@dataclass(frozen=True)
class Gain:
    """What a setting gains on one family.

    steps: decode steps, the prompt's own not among them; coverage: share of them with a draft; tokens_per_step: over
    all steps; acceptance_length: of drafted steps, bonus token included (as the engine logs it); acceptance_rate:
    accepted of drafted tokens; speedup: predicted upper bound, from the roofline of `Place` or, without one, as if
    verifying drafts cost nothing. None: nothing was decoded, or drafted.
    """

    family: str
    requests: int
    steps: int
    drafts: int
    draft_tokens: int
    accepted: int
    position_rates: tuple[float, ...]
    coverage: float | None
    tokens_per_step: float | None
    acceptance_length: float | None
    acceptance_rate: float | None
    speedup: float | None


@dataclass(frozen=True)
class Tuned:
    """The best setting. gain: on the texts that did not choose it (on all, where they are too few to split)."""

    setting: Setting
    gain: Gain
    tried: int
    held_out: bool


@dataclass(frozen=True)
class Replay:
    """What the replay of logs found. requests: replayed; skipped: without a prompt or an answer; tokens: in all."""

    tokenizer: str
    match: Match
    setting: Setting
    requests: int
    skipped: int
    tokens: int
    place: Place | None
    families: tuple[Gain, ...]
    tuned: Tuned | None

    def to_json(self) -> dict[str, object]:
        """One JSON object with its schema number."""
        document: dict[str, object] = {"schema": SCHEMA, **asdict(self)}
        place = self.place
        document["place"] = place and {
            "model": place.model.id, "gpu": place.gpu.name, "sequences": place.sequences
        }  # fmt: skip
        return document


def replay(
    logs: Logs,
    tokenizer: str,
    encode: Encode,
    setting: Setting,
    *,
    match: Match = "leftmost",
    max_model_len: int | None = None,
    place: Place | None = None,
    tune: bool = False,
) -> Replay:
    """Replay logs under one setting, for each family and for all, and with `tune` look for the best one."""
    tokens = Tokens.of([logged.tokens(encode) for logged in logs.requests], [r.max_tokens for r in logs.requests])
    copies = Copies(tokens, max(setting.highest, WIDEST if tune else 0))
    rules = Rules(setting.k, match, max_model_len)
    counts = copies.replay(setting.lowest, setting.highest, rules)
    return Replay(
        tokenizer,
        match,
        setting,
        len(logs.requests),
        logs.skipped,
        len(tokens.ids),
        place,
        _by_family(logs.requests, counts, tokens, place),
        _tune(copies, match, max_model_len, place) if tune else None,
    )


def _by_family(requests: Sequence[Logged], counts: Ids, tokens: Tokens, place: Place | None) -> tuple[Gain, ...]:
    families = np.array([request.family for request in requests])
    names = sorted(set(families.tolist()))
    gains = [_gain(name, families == name, counts, tokens, place) for name in names]
    everything = np.ones(len(requests), dtype=bool)
    return tuple(gains) if len(names) == 1 else (*gains, _gain("all families", everything, counts, tokens, place))


def _gain(family: str, which: Ids, counts: Ids, tokens: Tokens, place: Place | None) -> Gain:
    totals = counts[which].sum(axis=0)
    steps, drafts, drafted, accepted = (int(totals[column]) for column in (STEPS, DRAFTS, DRAFT_TOKENS, ACCEPTED))
    # The first token of each answer comes with its prompt; the last step may be cut short by the answer's end.
    decoded = int(np.maximum(tokens.ends - tokens.answers - 1, 0)[which].sum())
    per_step = decoded / steps if steps else None
    speedup = per_step
    if per_step is not None and place is not None:
        # Mean length of the text while its answer is decoded.
        middle = (tokens.answers + tokens.ends - 2 * tokens.starts)[which] / 2
        speedup = predicted_speedup(
            place.model,
            place.gpu,
            tokens_per_step=per_step,
            rows=1 + drafted / steps,
            context=float(np.average(middle, weights=counts[which, STEPS])),
            sequences=place.sequences,
        )
    return Gain(
        family,
        int(which.sum()),
        steps,
        drafts,
        drafted,
        accepted,
        tuple(float(count) / drafts for count in totals[POSITIONS:]) if drafts else (),
        drafts / steps if steps else None,
        per_step,
        1 + accepted / drafts if drafts else None,
        accepted / drafted if drafted else None,
        speedup,
    )


def _tune(copies: Copies, match: Match, max_model_len: int | None, place: Place | None) -> Tuned:
    count = len(copies.tokens.starts)
    held_out = count >= MIN_TO_SPLIT
    chooses = np.arange(count) % 2 == 0 if held_out else np.ones(count, dtype=bool)
    judges = ~chooses if held_out else chooses
    found: list[tuple[float, Setting, Ids]] = []
    for lowest in range(1, WIDEST + 1):
        for highest in range(lowest, WIDEST + 1):
            for k in DRAFT_COUNTS:
                counts = copies.replay(lowest, highest, Rules(k, match, max_model_len))
                gain = _gain("", chooses, counts, copies.tokens, place)
                found.append((gain.speedup or 0.0, Setting(lowest, highest, k), counts))
    best = max(speedup for speedup, _, _ in found)
    near = [entry for entry in found if entry[0] >= NEAR_BEST * best]
    # Fewer drafts first, then the more demanding and narrower window: both leave less to verify in vain.
    _, setting, counts = min(near, key=lambda entry: (entry[1].k, -entry[1].lowest, entry[1].highest))
    gain = _gain("texts held out" if held_out else "all texts", judges, counts, copies.tokens, place)
    return Tuned(setting, gain, len(found), held_out)


def markdown(found: Replay) -> str:
    """The result for people: one sentence, a table, what it rests on."""
    place = found.place
    where = (
        f"{place.model.id} on {place.gpu.name}, {place.sequences} at once" if place else "verifying as if for nothing"
    )
    total = found.families[-1]
    head = (
        f"N-gram speculation ({found.setting}, {found.match} match) would have speeded decoding up by at most "
        f"{_number(total.speedup)}x over {found.requests} logged answers ({where})."
    )
    rows = [
        f"| {gain.family} | {gain.requests} | {_number(gain.acceptance_length)} | {_share(gain.acceptance_rate)} | "
        f"{_share(gain.coverage)} | {_number(gain.tokens_per_step)} | {_number(gain.speedup)} |"
        for gain in found.families
    ]
    lines = [
        head, "",
        "| family | answers | acceptance length | accepted | steps with a draft | tokens per step | speed-up at most |",
        "|---|---|---|---|---|---|---|", *rows, "",
    ]  # fmt: skip
    if found.tuned:
        tuned = found.tuned
        judged = "texts that did not choose it" if tuned.held_out else "the same texts, too few to hold some out"
        speedup = f"{_number(tuned.gain.speedup)}x at most on {judged}"
        lines += [f"Best of {tuned.tried} settings: {tuned.setting}, {speedup}.", ""]
    counted = "counts drafted steps only" if found.match == "leftmost" else "counts every step, padded to k drafts"
    lines += [
        f"Tokenizer: {found.tokenizer} ({found.tokens} tokens). Acceptance length as the engine logs it: it {counted}. "
        f"{found.skipped} entries had no prompt or no answer.",
    ]
    if found.tokenizer in ("bytes", "words"):
        lines.append("This is no model's tokenizer: lengths and settings hold for its tokens, not for the engine's.")
    return "\n".join(lines) + "\n"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"
