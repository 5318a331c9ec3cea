"""How fast the offline replay is: a million tokens against the plain loop over the same rules, on one core.

usage: python -m benchmarks.replay [--tokens N]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence

import numpy as np

from bench.drafts import ACCEPTED, Copies, Rules, Tokens

_PROMPT, _ANSWER, _COPIED = 250, 150, 60
_WINDOW, _K = (2, 4), 5
Requests = list[tuple[list[int], list[int]]]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("benchmarks.replay", description=__doc__)
    parser.add_argument("--tokens", type=int, default=1_000_000, help="in prompts and answers (default a million)")
    count = max(1, parser.parse_args(argv).tokens // (_PROMPT + _ANSWER))
    requests = _requests(count)
    few = requests[: max(1, count // 50)]  # the plain loop is too slow for all
    Copies(Tokens.of(few), _WINDOW[1]).replay(*_WINDOW, Rules(_K))  # compiled now, or read from the cache
    seconds, accepted = _timed(lambda: _replayed(requests))
    fast, same = _timed(lambda: _replayed(few))
    plain, expected = _timed(lambda: sum(_plain(prompt, answer) for prompt, answer in few))
    if same != expected:
        raise SystemExit(f"the replay accepts {same} drafted tokens where the plain loop accepts {expected}")
    tokens = count * (_PROMPT + _ANSWER)
    ratio = plain / fast
    print(f"{tokens} tokens: {seconds:.2f} s, {tokens / seconds / 1e6:.2f} million tokens/s, {accepted} accepted")
    print(f"plain loop on {len(few)} of {count} requests: {plain:.2f} s, the replay {fast:.3f} s ({ratio:.0f} times)")
    return 0


def _requests(count: int) -> Requests:
    """Tokens as frequent as words are, and answers that copy a part of their prompt."""
    generator = np.random.default_rng(1)
    made = []
    for _ in range(count):
        prompt, answer = generator.zipf(1.3, _PROMPT) % 50_000, generator.zipf(1.3, _ANSWER) % 50_000
        answer[20 : 20 + _COPIED] = prompt[50 : 50 + _COPIED]
        made.append((prompt.tolist(), answer.tolist()))
    return made


def _replayed(requests: Requests) -> int:
    return int(Copies(Tokens.of(requests), _WINDOW[1]).replay(*_WINDOW, Rules(_K))[:, ACCEPTED].sum())


def _plain(prompt: list[int], answer: list[int]) -> int:
    """Accepted tokens, found by looking at every place for every size in every step."""
    lowest, highest = _WINDOW
    total, made = 0, 1
    while made < len(answer):
        text = prompt + answer[:made]
        draft: list[int] = []
        for n in range(min(highest, len(text) - 1), lowest - 1, -1):
            begin = next((p for p in range(len(text) - n) if text[p : p + n] == text[-n:]), None)
            if begin is not None:
                draft = text[begin + n : begin + n + _K]
                break
        accepted = 0
        while accepted < len(draft) and answer[made + accepted :][:1] == [draft[accepted]]:
            accepted += 1
        total, made = total + accepted, made + accepted + 1
    return total


def _timed(work: Callable[[], int]) -> tuple[float, int]:
    begin = time.perf_counter()
    result = work()
    return time.perf_counter() - begin, result


if __name__ == "__main__":
    raise SystemExit(main())
