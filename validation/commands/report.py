"""A verdict as one HTML page: the sentence, the witnesses side by side, acceptance by draft position as a picture."""

from __future__ import annotations

from collections.abc import Iterator

from pages import Bar, Html, bar_chart, cards, element, mark, page, section, side_by_side, table
from validation.verdict import Numbers, Outcome, Says, Verdict, Witness

_TONES = {Says.YES: "good", Says.NO: "bad", Says.UNKNOWN: "open"}


def verdict_page(verdict: Verdict) -> str:
    """The whole document. Everything in a verdict is text here, whatever it looks like."""
    return page(
        f"{verdict.verdict}: validation of {verdict.ended}",
        element("h1", "Is it really speculating?"),
        element(
            "p",
            mark(f"{'OK' if verdict.ok else 'WRONG'}: {verdict.verdict}", _tone(verdict)),
            f" declared: {verdict.declared}",
        ),
        element("p", verdict.sentence, class_="lead"),
        *(element("p", f"Note: {note}", class_="faint") for note in verdict.notes),
        section("Witnesses", cards(_card(verdict, witness) for witness in verdict.witnesses)),
        side_by_side(
            section("Acceptance by draft position", *_acceptance(verdict.numbers)),
            section("What was counted", _counted(verdict.numbers)),
        ),
        section("This run", table(_run(verdict))),
        footer="The witnesses and the rule from their answers to the verdict: docs/validation.md.",
    )


def _tone(verdict: Verdict) -> str:
    if verdict.verdict is Outcome.CANNOT_TELL:
        return "open"
    return "good" if verdict.ok else "bad"


def _card(verdict: Verdict, witness: Witness) -> tuple[object, object, str, list[object]]:
    """What it saw is good when it is what the recipe declares: "no" is right for a baseline."""
    tone = _TONES[witness.says]
    if verdict.declared is Outcome.BASELINE and witness.reading == "off":
        tone = "good"
    parts: list[object] = []
    if witness.why:
        parts.append(element("p", witness.why))
    if witness.evidence:
        parts.append(element("ul", *(element("li", line) for line in witness.evidence)))
    parts.append(element("p", witness.source, element("br"), witness.time, class_="faint"))
    word = witness.says if witness.says is Says.UNKNOWN else f"{witness.says}: {witness.reading}"
    return str(witness.name).replace("_", " "), word, tone, parts


def _acceptance(numbers: Numbers | None) -> list[Html]:
    if numbers is None or not numbers.drafts:
        return [element("p", "Nothing was drafted while the probe ran, so there is nothing to draw.")]
    shares = [count / numbers.drafts for count in numbers.accepted_per_position]
    bars = [Bar(str(place), share, f"{share:.0%}") for place, share in enumerate(shares, 1)]
    words = f"Share of the {numbers.drafts} drafts whose tokens were accepted at least as far as each position."
    return [element("p", words), bar_chart("Acceptance by draft position", bars, across="draft position")]


def _counted(numbers: Numbers | None) -> Html:
    if numbers is None:
        return element("p", "No answer came back, so nothing was counted.")
    return element("div", table(_numbers(numbers)), element("p", numbers.conditions, class_="faint"))


def _numbers(numbers: Numbers) -> Iterator[tuple[str, str]]:
    if numbers.acceptance_length is not None and numbers.acceptance_rate is not None:
        yield "mean acceptance length", f"{numbers.acceptance_length:.2f} tokens per step with a draft"
        accepted = f"{numbers.accepted_tokens} of {numbers.draft_tokens} draft tokens"
        yield "acceptance rate", f"{numbers.acceptance_rate:.0%} ({accepted})"
    yield "drafts", str(numbers.drafts)
    yield "answer", f"{numbers.completion_tokens} tokens in {numbers.chunks} chunks"
    if numbers.tokens_per_chunk is not None:
        yield "tokens per chunk", f"{numbers.tokens_per_chunk:.2f}"
    yield "prompt", f"{numbers.prompt_tokens} tokens"


def _run(verdict: Verdict) -> Iterator[tuple[str, str]]:
    yield "run", verdict.run
    yield "engine", f"vLLM {verdict.engine_version}" if verdict.engine_version else "version unknown"
    yield "started", verdict.started
    yield "ended", verdict.ended
