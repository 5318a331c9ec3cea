"""Who is measured when: blocks of two arms in an order that a drift cannot favour, cases shuffled under a seed.

ABBA puts both arms at the same mean place in time, so a drift that grows evenly adds the same to both; the next cycle
is BAAB, the same in reversed order. The n-th block of A and the n-th of B do the same repeats of the same cases in the
same order: each request has its twin in the other arm.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from engine.findings import Finding, Problems, Severity

T = TypeVar("T")


class Design(StrEnum):
    """The order of blocks; SINGLE: one arm alone."""

    SINGLE = "single"
    AB = "ab"
    ABBA = "abba"


@dataclass(frozen=True)
class Slot:
    """One block of the plan. order: its place among all; side: "A" or "B"; number: counts the blocks of its side."""

    order: int
    side: str
    number: int
    repeats: tuple[int, ...]


def sides(design: Design, cycles: int) -> str:
    """The sides of all blocks, in order."""
    if design is Design.SINGLE:
        return "A"
    if design is Design.AB:
        return "AB"
    return "".join("ABBA" if cycle % 2 == 0 else "BAAB" for cycle in range(cycles))


def slots(design: Design, cycles: int, repeats: int) -> tuple[Slot, ...]:
    """The blocks; the repeats of an arm are spread over its blocks. Problems when there are fewer than blocks."""
    order = sides(design, cycles)
    blocks = order.count("A")
    if repeats < blocks:
        why = f"fewer than the {blocks} blocks of an arm"
        remedy = f"give --repeats {blocks} or more, or fewer --cycles"
        raise Problems([Finding(Severity.ERROR, "repeats", repeats, why, remedy)])
    parts = _spread(range(repeats), blocks)
    found: list[Slot] = []
    for place, side in enumerate(order):
        number = sum(slot.side == side for slot in found)
        found.append(Slot(place, side, number, parts[number]))
    return tuple(found)


def shuffled(cases: Sequence[T], seed: int, repeat: int) -> list[T]:
    """The cases in the order of this repeat: the same for each arm, another for each repeat."""
    order = list(cases)
    random.Random(f"{seed}/{repeat}").shuffle(order)
    return order


def levels(concurrencies: Sequence[int], slot: Slot) -> tuple[int, ...]:
    """The concurrencies in the order of this block: reversed in every second block of a side."""
    return tuple(concurrencies) if slot.number % 2 == 0 else tuple(reversed(concurrencies))


def steady(passes: Sequence[float], gain: float = 0.05) -> bool:
    """Whether warm-up can end: the last pass (seconds) was not faster than the one before by more than the gain."""
    return len(passes) >= 2 and passes[-1] >= passes[-2] * (1 - gain)


def _spread(items: Sequence[int], parts: int) -> list[tuple[int, ...]]:
    """The items in so many runs of nearly equal length."""
    small, more = divmod(len(items), parts)
    found, start = [], 0
    for part in range(parts):
        end = start + small + (part < more)
        found.append(tuple(items[start:end]))
        start = end
    return found
