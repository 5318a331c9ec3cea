"""The comparison as Markdown for a pull request: sentence, picture of the intervals, tables, what was left out."""

from __future__ import annotations

import math
from collections.abc import Iterator

from bench.compare import Comparison, Row
from bench.pairs import Metric

_NAMES: dict[Metric, str] = {
    "tpot": "TPOT",
    "ttft": "TTFT",
    "latency": "latency",
    "throughput": "throughput of a request",
}
_WIDTH = 41  # characters of the picture; odd, so that 1 has a place in the middle


def markdown(found: Comparison) -> str:
    """The whole document, ending with a line end."""
    lines = [f"**{found.sentence}**", ""]
    lines += [f"{found.model}, concurrency {found.concurrency or 'not the same'}, blocks {found.order}.", ""]
    if found.rows:
        lines += [*_picture(found), "", *_table(found), ""]
    lines += [*_acceptance(found), *_equality(found), *_costs(found)]
    counts = [
        f"{n} {arm.value} ({reason})" for arm, by_reason in found.excluded.items() for reason, n in by_reason.items()
    ]
    lines += [f"Left out: {', '.join(counts) if counts else 'nothing'}.", ""]
    for title, entries in (("Beware", found.caveats), ("The engines differ in", found.differences)):
        if entries:
            lines += [f"{title}:", "", *(f"* {entry}" for entry in entries), ""]
    lines += [
        "Gain: baseline over speculative for times, speculative over baseline for throughput; geometric mean over "
        "cases, 95 % interval, its unit the case. TPOT = (latency - TTFT)/(tokens - 1), tokens from usage. A closed "
        "loop: these are latencies at a concurrency, not at a request rate.",
    ]
    return "\n".join(lines) + "\n"


def _picture(found: Comparison) -> list[str]:
    """TPOT intervals on one logarithmic scale around 1."""
    rows = [row for row in found.rows if row.metric == "tpot"]
    ends = [end for row in rows for end in (row.gain.low or row.gain.ratio, row.gain.high or row.gain.ratio)]
    reach = max(abs(math.log(end)) for end in ends) or 1.0

    def place(ratio: float) -> int:
        return round((math.log(ratio) / reach + 1) / 2 * (_WIDTH - 1))

    width = max(len(_family(row)) for row in rows)
    lines = [
        "```",
        f"{'TPOT gain':{width}}  {1 / math.exp(reach):<{_WIDTH // 2}.2f}1{math.exp(reach):>{_WIDTH // 2}.2f}",
    ]
    for row in rows:
        signs = [" "] * _WIDTH
        signs[_WIDTH // 2] = "|"
        for spot in range(place(row.gain.low or row.gain.ratio), place(row.gain.high or row.gain.ratio) + 1):
            signs[spot] = "-"
        signs[place(row.gain.ratio)] = "o"
        lines.append(f"{_family(row):{width}}  {''.join(signs)}  {row.gain.ratio:.2f}".rstrip())
    return [*lines, "```"]


def _table(found: Comparison) -> list[str]:
    lines = [
        "| family | metric | gain | 95 % interval | cases for, against | sign test p | A/A noise floor | shown |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in found.rows:
        gain, sign = row.gain, row.sign
        interval = gain.method if gain.low is None or gain.high is None else f"{gain.low:.2f} to {gain.high:.2f}"
        floor = "not measured" if row.floor is None else f"{row.floor:.2f}"
        lines.append(
            f"| {_family(row)} | {_NAMES[row.metric]} | {gain.ratio:.2f} | {interval} | {sign.above}, {sign.below} | "
            f"{sign.p:.3f} | {floor} | {'yes' if row.found else 'no'} |"
        )
    return lines


def _acceptance(found: Comparison) -> Iterator[str]:
    seen = found.acceptance
    if seen is None:
        yield from () if found.refused else ("Acceptance: not known, the scrapes do not tell.", "")
        return
    yield (
        f"Acceptance ({seen.definition}): length {_number(seen.length)}, rate {_share(seen.rate)}, coverage (decode "
        f"steps with a draft) {_share(seen.coverage)}; {_number(seen.tokens_per_step)} tokens per step predict a gain "
        f"of at most {_number(seen.tokens_per_step)}x in TPOT, measured {_number(seen.measured)}x."
    )
    yield ""


def _equality(found: Comparison) -> Iterator[str]:
    seen = found.equality
    if seen is None:
        return
    yield (
        f"Answers equal in both arms: {_share(seen.exact)} of {seen.pairs} pairs, {_share(seen.normalised)} when "
        f"normalised, {_share(seen.equal_length)} of equal length; between repeats of the baseline: "
        f"{_share(seen.null_exact)} of {seen.null_pairs}."
    )
    for difference in seen.differences:
        yield (
            f"* {difference.family}/{difference.case}, repeat {difference.repeat}, from character {difference.at}: "
            f"{_code(difference.baseline)} | {_code(difference.speculative)}"
        )
    yield ""


def _costs(found: Comparison) -> Iterator[str]:
    for cost in found.costs:
        price = "" if cost.per_million is None else f", {cost.per_million:.2f} per million output tokens"
        yield f"* {cost.arm.value}: {cost.tokens_per_s:.1f} output tokens/s of the whole load{price}"
    if found.costs:
        yield ""


def _family(row: Row) -> str:
    return row.family or "all families"


def _code(text: str) -> str:
    return f"`{' '.join(text.replace('`', chr(39)).split())}`" if text.strip() else "(ends)"


def _number(value: float | None) -> str:
    return "not known" if value is None else f"{value:.2f}"


def _share(value: float | None) -> str:
    return "not known" if value is None else f"{value:.0%}"
