"""vLLM's n-gram drafting re-stated plainly, with the offline replay that gave the real engine's numbers."""

from __future__ import annotations

from engine.versions import Runner
from sandbox.engines.fake.drafting import Rules


def propose(ctx: list[int], lower: int, upper: int, k: int, limit: int, runner: Runner) -> list[int]:
    """vLLM's proposal, word for word as documented: longest n first; leftmost match, or rightmost and padded."""
    length = len(ctx)
    if length < lower and runner == "V1":
        return []
    count = k if runner == "V2" else min(k, limit - length)
    for n in range(min(upper, length - 1), lower - 1, -1):
        starts = [p for p in range(length - n) if ctx[p : p + n] == ctx[length - n :]]
        if starts:
            p = starts[-1] if runner == "V2" else starts[0]
            found = ctx[p + n : p + n + max(0, count)]
            return found + [ctx[-1]] * (k - len(found)) if runner == "V2" else found
    return [ctx[-1]] * k if runner == "V2" else []


def replay(prompt: list[int], answer: list[int], made: Rules, max_tokens: int) -> list[tuple[int, int]]:
    """(drafted, accepted) of each drafted step, by the offline replay that gave the real engine's numbers."""
    assert made.config is not None
    config, limit = made.config, made.max_model_len
    output, found, i, previous = answer[:max_tokens], [], 1, len(prompt)
    while i < len(output):
        ctx = prompt + output[:i]
        k = config.num_speculative_tokens
        if made.runner == "V1" and previous + k > limit:
            draft = [] if made.features.near_limit == "no drafts" else [0] * k
        else:
            draft = propose(ctx, config.lookup_min or 0, config.lookup_max or 0, k, limit, made.runner)
        draft = draft[: max(0, limit - 1 - len(ctx))]
        if made.features.since.minor < 12:
            draft = draft[: max(0, max_tokens - i - 1)]
        accepted = 0
        while accepted < len(draft) and i + accepted < len(answer) and draft[accepted] == answer[i + accepted]:
            accepted += 1
        if draft:
            found.append((len(draft), accepted))
        previous = len(ctx) + len(draft)
        i += accepted + 1
    return found
