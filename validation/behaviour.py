"""What the answers of the probe say: several tokens a chunk where drafts help, and sound in all that was asked."""

from __future__ import annotations

from collections.abc import Sequence

from validation.answer import Grade, is_thinking, quoted
from validation.probe import Answer
from validation.verdict import Reading
from validation.witnesses import Sight, seen, unseen

# From here on a stream carries more than one token a step. Without speculation it has exactly one, merges aside.
SEVERAL_PER_CHUNK = 1.05
_SOUND = frozenset({Grade.FAIR, Grade.EXACT, Grade.UNFINISHED})
_COPY = "copy"


def behaviour_sight(answers: Sequence[Answer], *, thinking_off: bool) -> Sight:
    """The answers from one address; thinking_off: the recipe declares that the model does not think."""
    source = ", ".join(dict.fromkeys(answer.url for answer in answers))
    lines = [_answer_line(answer) for answer in answers]
    corrupt = next((answer for answer in answers if _is_corrupt(answer, answers)), None)
    if corrupt and corrupt.graded:
        return seen(Reading.CORRUPT, [f"{corrupt.task.name}: {corrupt.graded.why}", *lines], source)
    if thinking_off:
        for answer in answers:
            if answer.completion and is_thinking(answer.completion):
                thought = quoted(answer.completion.reasoning.strip() or answer.completion.text)
                said = f"thinking is declared off, and the answer to {answer.task.name} thinks: {thought}"
                return seen(Reading.DIFFERS, [said, *lines], source)
    for answer in answers:
        if not answer.unsupported and (answer.problem or answer.graded is None):
            return unseen(f"{answer.task.name}: {answer.problem or 'no answer'}", source, lines)
    copied = [answer for answer in answers if answer.task.copied]
    tokens, chunks = sum(answer.tokens for answer in copied), sum(answer.chunks for answer in copied)
    if not tokens or not chunks:
        return unseen(f"{tokens} tokens in {chunks} chunks", source, lines)
    ratio = tokens / chunks
    summary = f"{tokens} tokens in {chunks} chunks ({ratio:.2f} a chunk), {_soundness(answers)}"
    return seen(Reading.ON if ratio >= SEVERAL_PER_CHUNK else Reading.OFF, [summary, *lines], source)


def untold(answers: Sequence[Answer]) -> list[str]:
    """Parts of the probe that say nothing, each with why; they are no yes and no no."""
    found = [f"{answer.task.name} ({answer.problem})" for answer in answers if answer.unsupported]
    for answer in answers:
        if answer.graded and answer.graded.grade is Grade.UNFINISHED:
            found.append(f"{answer.task.name} ({answer.graded.why})")
    return found


def _soundness(answers: Sequence[Answer]) -> str:
    forgiven = any(answer.graded and answer.graded.grade not in _SOUND for answer in answers)
    unknown = untold(answers)
    return ("sound beside exact copies" if forgiven else "sound") + (
        f"; not known: {'; '.join(unknown)}" if unknown else ""
    )


def _is_corrupt(answer: Answer, answers: Sequence[Answer]) -> bool:
    graded = answer.graded
    if graded is None or graded.grade in _SOUND:
        return False
    copies = [a.graded.grade if a.graded else None for a in answers if a.task.name == _COPY]
    forgiven = answer.task.copied and answer.task.name != _COPY and graded.grade is not Grade.EMPTY
    return not (forgiven and copies and all(copy is Grade.EXACT for copy in copies))


def _answer_line(answer: Answer) -> str:
    if answer.completion is None or answer.graded is None:
        return f"{answer.task.name}: {answer.problem}"
    completion = answer.completion
    thinking = ", thinking" if is_thinking(completion) else ""
    return (
        f"{answer.task.name}: {answer.graded.grade.value} ({answer.graded.why}){thinking}, "
        f"{answer.tokens} tokens in {answer.chunks} chunks in {answer.seconds:.1f} s, "
        f"finish {completion.finish_reason}: {quoted(completion.text or completion.reasoning)}"
    )
