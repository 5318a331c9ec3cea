"""The comparison of two arms: what speculation was worth, for which prompts at which load, and what was not shown."""

from __future__ import annotations

import statistics
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field

from bench.pairs import METRICS, Metric, Pair, Paired, Placed, Reason, neighbours, pair_up, placed
from bench.records import Arm, Engine, Run, RunFolder
from bench.scrape import Scrape, difference, prefix_hits
from bench.stats import Estimate, SignTest, case_means, drift_cancels, estimate, noise_floor, sign_test
from engine.metrics import SpeculationDelta
from engine.versions import EngineVersion

# Raised when a field changes its meaning or goes away.
SCHEMA = 1
# Pairs of a case below which nothing is told about how it varies.
MIN_REPEATS = 2
# Random tokens are no text that anybody serves: they overstate (vllm#52536), so no headline rests on them.
UNREALISTIC = "random"
# Output differences that are shown.
SHOWN = 5
DRAFTS_COUNTED = {"V1": "steps with a match", "V2": "every decode step, padded to k"}
_SNIPPET = 40


@dataclass(frozen=True)
class Row:
    """One metric of one family. gain: speculation's, above 1 is better; floor: of A/A, as a factor, None: unknown.

    by_case: each case's geometric mean; pairs: in all; found: whether the interval, and the ratio beside the noise
    floor, tell the gain from 1.
    """

    family: str
    metric: Metric
    pairs: int
    by_case: dict[str, float]
    gain: Estimate
    sign: SignTest
    floor: float | None
    found: bool


@dataclass(frozen=True)
class Difference:
    """Two answers that differ. at: characters that are equal before; baseline, speculative: what follows."""

    family: str
    case: str
    repeat: int
    at: int
    baseline: str
    speculative: str


@dataclass(frozen=True)
class Equality:
    """Shares of pairs with equal answers; None: no such pairs. null_exact: between repeats of the baseline alone."""

    pairs: int
    exact: float | None
    normalised: float | None
    equal_length: float | None
    null_pairs: int
    null_exact: float | None
    first_divergence: int | None
    differences: tuple[Difference, ...]


@dataclass(frozen=True)
class Acceptance:
    """The engine's counters over all measured blocks of the speculative arm.

    definition: which steps its drafts are; coverage: share of decode steps with a draft; tokens_per_step: over all
    decode steps, and so the predicted speed-up if drafts cost nothing; measured: the TPOT gain over all families.
    """

    definition: str
    drafts: int
    rate: float | None
    length: float | None
    coverage: float | None
    tokens_per_step: float | None
    measured: float | None


@dataclass(frozen=True)
class Cost:
    """Load throughput of an arm in tokens/s, and the price of a million output tokens (None: no price given)."""

    arm: Arm
    tokens_per_s: float
    per_million: float | None


@dataclass(frozen=True)
class Comparison:
    """Everything that was found. sentence: stands at the top; refused: why there are no numbers, None when there are.

    caveats: what weakens the numbers; differences: between both engines, beside speculation itself.
    """

    sentence: str
    refused: str | None
    concurrency: int | None
    model: str
    order: str
    caveats: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    equality: Equality | None = None
    acceptance: Acceptance | None = None
    costs: tuple[Cost, ...] = ()
    excluded: dict[Arm, dict[Reason, int]] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        """One JSON object with its schema number."""
        return {"schema": SCHEMA, **asdict(self)}


def compare(runs: Sequence[RunFolder], *, price_per_hour: float | None = None, keep_caps: bool = False) -> Comparison:
    """Compare the two arms in one or two runs. price_per_hour: of everything that serves, in any currency."""
    places = placed(runs)
    order = "".join(place.arm.value[0].upper() for place in places)
    first = runs[0].run
    base = [place for place in places if place.arm is Arm.BASELINE]
    spec = [place for place in places if place.arm is Arm.SPECULATIVE]
    paired = pair_up(base, spec, keep_caps=keep_caps)
    refused = _refusal([folder.run for folder in runs], base, spec, paired)
    rows = tuple(_rows(paired, base)) if refused is None else ()
    equality = _equality(paired.answered, base) if paired.answered else None
    caveats = (*_unequal(equality), *_caveats(places, order)) if refused is None else ()
    sentence = f"Nothing is shown: {refused}." if refused else _sentence(rows, first, caveats)
    overall = next((row for row in rows if row.metric == "tpot" and row.family == ""), None)
    return Comparison(
        sentence,
        refused,
        first.concurrency if len({folder.run.concurrency for folder in runs}) == 1 else None,
        first.service.model,
        order,
        caveats,
        tuple(_differences(base, spec)),
        rows,
        equality,
        _acceptance(spec, overall) if refused is None else None,
        tuple(_costs((base, spec), price_per_hour)) if refused is None else (),
        paired.excluded,
    )


def _refusal(runs: Sequence[Run], base: Sequence[Placed], spec: Sequence[Placed], paired: Paired) -> str | None:
    """Why the data cannot carry a number, the first reason."""
    for arm, of_arm in ((Arm.BASELINE, base), (Arm.SPECULATIVE, spec)):
        if not any(place.requests for place in of_arm):
            return f"there is no measured block of the {arm.value} arm"
    for name, values in _conditions(runs).items():
        if len(set(values)) > 1:
            return f"the runs differ in {name}: {' and '.join(str(v) for v in dict.fromkeys(values))}"
    cases = [{(r.family, r.case) for place in of_arm for r in place.requests} for of_arm in (base, spec)]
    if cases[0] != cases[1]:
        return f"{len(cases[0] ^ cases[1])} cases were measured in one arm only"
    if not paired.pairs:
        counts = ", ".join(
            f"{n} {reason} ({arm.value})" for arm, found in paired.excluded.items() for reason, n in found.items()
        )
        return f"no pair of sound answers is left: {counts}"
    repeats = [len(ratios) for ratios in _by_case(paired.pairs, None, "tpot").values()]
    if repeats and max(repeats) < MIN_REPEATS:
        return "no case was repeated, and without a repeat there is no interval: run with --repeats 10"
    return None


def _conditions(runs: Sequence[Run]) -> dict[str, list[object]]:
    return {
        "the prompt set": [run.prompt_set.digest for run in runs],
        "the model": [run.service.model for run in runs],
        "concurrency": [run.concurrency for run in runs],
        "max_tokens": [run.max_tokens for run in runs],
        "repeats": [run.repeats for run in runs],
        "prefix caching": [run.prefix_caching for run in runs],
    }


def _by_case(pairs: Iterable[Pair], family: str | None, metric: Metric) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for pair in pairs:
        if family in (None, pair.baseline.family) and (ratio := pair.ratio(metric)) is not None:
            found.setdefault(f"{pair.baseline.family}/{pair.baseline.case}", []).append(ratio)
    return found


def _rows(paired: Paired, base: Sequence[Placed]) -> Iterator[Row]:
    """Each family and metric; family "" is all of them together, where there are several."""
    families = sorted({pair.baseline.family for pair in paired.pairs})
    # The baseline against itself in blocks of their own: what drifts from one start to the next is in it.
    null = pair_up(base[0::2], base[1::2]).pairs
    for family in families + ([""] if len(families) > 1 else []):
        for metric in METRICS:
            ratios = _by_case(paired.pairs, family or None, metric)
            if not ratios:
                continue
            means = case_means(ratios)
            beside = _by_case(null, family or None, metric)
            floor = noise_floor(case_means(beside)) if beside else None
            gain = estimate(means)
            far = max(gain.ratio, 1 / gain.ratio)
            found = gain.direction != "not told from 1" and (floor is None or far > floor)
            by_case = {case: estimate(case_means({case: values})).ratio for case, values in sorted(ratios.items())}
            yield Row(
                family, metric, sum(map(len, ratios.values())), by_case, gain, sign_test(means), floor, found
            )  # fmt: skip


def _sentence(rows: Sequence[Row], run: Run, caveats: Sequence[str]) -> str:
    headline = [row for row in rows if row.metric == "tpot" and row.family not in ("", UNREALISTIC)]
    told = [_told(row) for row in headline if row.found]
    few = [row.family for row in headline if row.gain.low is None]
    same = [row.family for row in headline if not row.found and row.gain.low is not None]
    load = f"at concurrency {run.concurrency}"
    parts = [f"{load} speculation made decoding (TPOT) " + "; ".join(told)] if told else []
    if same:
        parts.append(f"no difference in TPOT was shown for {_listed(same)}" + ("" if told else f" {load}"))
    if few:
        parts.append(f"too few cases for an interval, and so nothing shown, for {_listed(few)}")
    if not parts:
        parts.append(f"nothing about TPOT is shown {load}")
    parts.append("other loads, prompts and hardware were not measured")
    if caveats:
        more = f" (and {len(caveats) - 1} more)" if len(caveats) > 1 else ""
        parts.append(f"beware: {caveats[0]}{more}")
    text = "; ".join(parts)
    return text[0].upper() + text[1:] + "."


def _told(row: Row) -> str:
    gain = row.gain
    factor, low, high = gain.ratio, gain.low or 0.0, gain.high or 0.0
    word = "faster"
    if factor < 1:
        factor, low, high, word = 1 / factor, 1 / high, 1 / low, "slower"
    return f"{factor:.2f}x {word} for {row.family} (95 % interval {low:.2f} to {high:.2f}, {gain.cases} cases)"


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _caveats(places: Sequence[Placed], order: str) -> Iterator[str]:
    if not drift_cancels(order):
        yield f"the arms ran one after the other ({order}) without reversal, so a drift of the machine is in the ratio"
    for name, replicas in {(place.run.path.name, place.run.run.service.replicas) for place in places}:
        if replicas not in (None, 1):
            yield f"{replicas} replicas served {name}"
    for place in places:
        hits = prefix_hits(*_scrapes(place), place.run.run.service.model)
        if hits and not place.run.run.prefix_caching:
            yield f"{hits} tokens came from the prefix cache in block {place.block.order}, which was to be off"
    for folder in dict.fromkeys(place.run.path for place in places):
        notes = next(place.run.notes for place in places if place.run.path == folder)
        yield from (note.line() for note in notes)


def _differences(base: Sequence[Placed], spec: Sequence[Placed]) -> Iterator[str]:
    """What else the two engines differ in, as far as the runs tell; speculation's own arguments stand there too."""
    if not base or not spec:
        return
    one, other = (place[0].block.engine or place[0].run.run.engine for place in (base, spec))
    for name in ("image", "version", "args"):
        left, right = getattr(one, name), getattr(other, name)
        if left != right:
            shown = [" ".join(v) if isinstance(v, tuple) else v or "not told" for v in (left, right)]
            yield f"{name}: {shown[0] or 'none'} | {shown[1] or 'none'}"
    for group, left, right in (
        ("log", one.log_facts, other.log_facts), ("device", one.device, other.device)
    ):  # fmt: skip
        for key in sorted(left.keys() | right.keys()):
            if left.get(key) != right.get(key):
                yield f"{group} {key}: {left.get(key, 'not told')} | {right.get(key, 'not told')}"


def _equality(answered: Sequence[Pair], base: Sequence[Placed]) -> Equality:
    null = list(neighbours(base))
    different = [pair for pair in answered if pair.baseline.text != pair.speculative.text]
    found = [_difference(pair) for pair in different]
    first: dict[tuple[str, str], Difference] = {}
    for one in found:
        first.setdefault((one.family, one.case), one)
    lengths = [p.baseline.usage == p.speculative.usage for p in answered]
    same = [_normal(p.baseline.text) == _normal(p.speculative.text) for p in answered]
    return Equality(
        len(answered),
        1 - len(different) / len(answered),
        statistics.fmean(same),
        statistics.fmean(lengths),
        len(null),
        statistics.fmean(p.baseline.text == p.speculative.text for p in null) if null else None,
        min((one.at for one in found), default=None),
        tuple(list(first.values())[:SHOWN]),
    )


def _unequal(equality: Equality | None) -> Iterator[str]:
    """Differing answers weaken every number, unless repeats of the baseline differ as often."""
    if (
        equality
        and equality.exact is not None
        and equality.exact < (1 if equality.null_exact is None else equality.null_exact)
    ):
        beside = "" if equality.null_exact is None else f", {equality.null_exact:.0%} between repeats of the baseline"
        yield f"only {equality.exact:.0%} of the answers are equal in both arms{beside}"


def _normal(text: str) -> str:
    """Unicode composed and white space collapsed: what a reader would call the same."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def _difference(pair: Pair) -> Difference:
    one, other = pair.baseline.text, pair.speculative.text
    at = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    request = pair.baseline
    return Difference(
        request.family, request.case, request.repeat, at, one[at : at + _SNIPPET], other[at : at + _SNIPPET]
    )


def _acceptance(spec: Sequence[Placed], overall: Row | None) -> Acceptance | None:
    deltas = [_delta(place) for place in spec]
    if any(delta.state != "measured" for delta in deltas):
        return None
    drafts, drafted, accepted, generated, finished = (
        sum(getattr(delta, name) or 0 for delta in deltas)
        for name in ("drafts", "draft_tokens", "accepted", "generated", "finished")
    )
    # The first token of each request comes with its prompt, and each other step gives one token beside the accepted.
    steps = generated - finished - accepted
    engine = spec[0].block.engine or spec[0].run.run.engine
    return Acceptance(
        _definition(engine),
        drafts,
        accepted / drafted if drafted else None,
        1 + accepted / drafts if drafts else None,
        min(1.0, drafts / steps) if steps > 0 else None,
        1 + accepted / steps if steps > 0 else None,
        overall.gain.ratio if overall else None,
    )


def _definition(engine: Engine) -> str:
    """What the engine's counters count: its own log says the runner, else its version does."""
    version = EngineVersion.of_image(engine.image) if engine.image else EngineVersion.of_text(engine.version)
    runner = engine.log_facts.get("runner")
    if runner not in ("V1", "V2"):
        if version.number is None:
            return "the engine's version is not known, and so it is not what its drafts count"
        runner = version.ngram_runner
    return f"{version}, {runner} runner: drafts are {DRAFTS_COUNTED[runner]}"


def _delta(place: Placed) -> SpeculationDelta:
    """What the engine counted in a block, by the two scrapes around it."""
    return difference(*_scrapes(place), place.run.run.service.model)


def _scrapes(place: Placed) -> tuple[Scrape, Scrape]:
    path = f"blocks[{place.block.index}]"
    before, after = place.block.metrics_before, place.block.metrics_after
    return Scrape.from_json(before, f"{path}.metrics_before"), Scrape.from_json(after, f"{path}.metrics_after")


def _costs(arms: Iterable[Sequence[Placed]], price_per_hour: float | None) -> Iterator[Cost]:
    for arm in arms:
        tokens, seconds = 0, 0.0
        for place in arm:
            ended = [(r, r.sent + r.end_s) for r in place.requests if r.end_s is not None and r.usage]
            if ended:
                tokens += sum(r.usage.completion_tokens for r, _ in ended if r.usage)
                seconds += max(end for _, end in ended) - min(r.sent for r, _ in ended)
        if tokens and seconds > 0:
            rate = tokens / seconds
            yield Cost(arm[0].arm, rate, price_per_hour / 3600 / rate * 1e6 if price_per_hour is not None else None)
