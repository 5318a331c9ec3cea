"""The two lines that vLLM logs every ten seconds: one for the engine, and one for speculation when it drafted.

A rate is a share (0 to 1) here, although vLLM prints some in percent. `nan` (no draft in the window) is None: no rate
is known, which is not a rate of zero.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

from engine.lines import LogLine

# Half of the last printed digit, and a little for the rounding of binary numbers.
_HALF_THOUSANDTH = 0.0005 + 1e-9
_HALF_HUNDREDTH = 0.005 + 1e-9

# Lines by name and not by commas: the per-position list has commas itself. The 0.8 and 0.9 forms lack some fields;
# the name before 0.8 is "Speculative metrics".
_SPEC = re.compile(r"Spec(?:Decoding|ulative) metrics: ")
_NUMBER = r"(\d+(?:\.\d+)?|nan)"
_FIELDS = {
    "mean": re.compile(rf"Mean acceptance length: {_NUMBER}"),
    "accepted_throughput": re.compile(rf"Accepted throughput: {_NUMBER} tokens/s"),
    "drafted_throughput": re.compile(rf"Drafted throughput: {_NUMBER} tokens/s"),
    "accepted": re.compile(r"(?<!\w)Accepted: (\d{1,18}) tokens"),
    "drafted": re.compile(r"(?<!\w)Drafted: (\d{1,18}) tokens"),
    "rate": re.compile(rf"(?i:draft) acceptance rate: {_NUMBER}%"),
}
_POSITIONS = re.compile(r"Per-position acceptance rate: ((?:\d+\.\d+|nan)(?:, (?:\d+\.\d+|nan))*)")
_ENGINE = re.compile(
    r"(?:Engine (?P<engine>\d{1,6})|(?P<engines>\d{1,6}) Engines Aggregated): "
    r"Avg prompt throughput: (?P<prompt>\d+\.\d+) tokens/s, "
    r"Avg generation throughput: (?P<generation>\d+\.\d+) tokens/s, "
    r"Running: (?P<running>\d{1,9}) reqs, Waiting: (?P<waiting>\d{1,9}) reqs"
    r"(?P<rest>.*)"
)
_KV_USAGE = re.compile(r"(?P<device>\w+) KV cache usage: (?P<usage>\d+\.\d+)%")
_PREFIX_HITS = re.compile(r"(?<!External )Prefix cache hit rate: (?P<rate>\d+\.\d+)%")


@dataclass(frozen=True)
class SpecWindow:
    """One SpecDecoding line: since the line before it, or since the start.

    accepted, drafted: tokens; mean_length: tokens a drafted step emitted, bonus token included; position_rates: share
    of drafts accepted at least that far; acceptance_rate: accepted/drafted; throughputs in tokens/s (too low for the
    first line after a pause); engine: number of the engine it belongs to. None: not in this line, or nan.
    """

    time: str | None
    engine: int | None
    accepted: int
    drafted: int
    mean_length: float | None
    acceptance_rate: float | None
    position_rates: tuple[float, ...] | None
    accepted_throughput: float | None
    drafted_throughput: float | None

    @property
    def drafts(self) -> float | None:
        """Drafts made, recovered from accepted/(mean - 1): exact within the two printed digits of the mean."""
        if self.mean_length is None or self.mean_length <= 1:
            return None
        return self.accepted / (self.mean_length - 1)

    def problems(self) -> list[str]:
        """What in the line contradicts its own definitions."""
        found = []
        if self.accepted > self.drafted:
            found.append(f"accepted {self.accepted} of {self.drafted} drafted tokens")
        if self.acceptance_rate is not None and self.drafted:
            share = self.accepted / self.drafted
            if abs(share - self.acceptance_rate) > _HALF_THOUSANDTH:
                found.append(f"acceptance rate {self.acceptance_rate:.1%} is not {self.accepted}/{self.drafted}")
        rates = self.position_rates
        if rates and any(later > earlier for earlier, later in pairwise(rates)):
            found.append(f"acceptance rises with the position: {', '.join(f'{rate:.3f}' for rate in rates)}")
        if rates and self.mean_length is not None:
            tolerance = _HALF_THOUSANDTH * len(rates) + _HALF_HUNDREDTH
            if abs(sum(rates) - (self.mean_length - 1)) > tolerance:
                found.append(
                    f"position rates sum to {sum(rates):.3f}, not to the mean length {self.mean_length} less 1"
                )
        return found


@dataclass(frozen=True)
class EngineWindow:
    """One Engine line. Throughputs in tokens/s; running, waiting: requests; shares from 0 to 1, None: not printed.

    engine: its number, None when the line is the sum of `engines`.
    """

    time: str | None
    engine: int | None
    engines: int
    prompt_throughput: float
    generation_throughput: float
    running: int
    waiting: int
    kv_device: str | None
    kv_usage: float | None
    prefix_hit_rate: float | None


def read_spec_window(line: LogLine, engine: int | None = None) -> SpecWindow | None:
    """The SpecDecoding line of any version, None for another line; engine: of the Engine line just above it."""
    if not _SPEC.match(line.message):
        return None
    found = {name: match[1] if (match := field.search(line.message)) else None for name, field in _FIELDS.items()}
    if found["accepted"] is None or found["drafted"] is None:
        return None
    positions = _POSITIONS.search(line.message)
    rates = [_number(text) for text in positions[1].split(", ")] if positions else []
    known = tuple(rate for rate in rates if rate is not None)
    rate = _number(found["rate"])
    return SpecWindow(
        time=line.time,
        engine=engine,
        accepted=int(found["accepted"]),
        drafted=int(found["drafted"]),
        mean_length=_number(found["mean"]),
        acceptance_rate=None if rate is None else round(rate / 100, 6),
        position_rates=known if rates and len(known) == len(rates) else None,
        accepted_throughput=_number(found["accepted_throughput"]),
        drafted_throughput=_number(found["drafted_throughput"]),
    )


def read_engine_window(line: LogLine) -> EngineWindow | None:
    """The Engine line of any version, None for another line."""
    match = _ENGINE.match(line.message)
    if match is None:
        return None
    usage = _KV_USAGE.search(match["rest"])
    hits = _PREFIX_HITS.search(match["rest"])
    return EngineWindow(
        time=line.time,
        engine=int(match["engine"]) if match["engine"] else None,
        engines=int(match["engines"] or 1),
        prompt_throughput=float(match["prompt"]),
        generation_throughput=float(match["generation"]),
        running=int(match["running"]),
        waiting=int(match["waiting"]),
        kv_device=usage["device"] if usage else None,
        kv_usage=round(float(usage["usage"]) / 100, 6) if usage else None,
        prefix_hit_rate=round(float(hits["rate"]) / 100, 6) if hits else None,
    )


def _number(text: str | None) -> float | None:
    return None if text is None or text == "nan" else float(text)
