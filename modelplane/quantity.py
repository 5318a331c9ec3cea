"""Kubernetes quantities, exact: "23034Mi" and "20Gi" compare as the API server compares them."""

from __future__ import annotations

import re
from fractions import Fraction

_BINARY = {f"{prefix}i": Fraction(1024) ** power for power, prefix in enumerate("KMGTPE", start=1)}
_DECIMAL = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    "": Fraction(1),
    **{prefix: Fraction(10) ** (3 * power) for power, prefix in enumerate("kMGTPE", start=1)},
}
_SUFFIXES = {**_BINARY, **_DECIMAL}
_SYNTAX = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)(?:[eE]([+-]?\d+)|([KMGTPE]i|[numkMGTPE]?))", re.ASCII)
_NANO = 10**9
_LIMIT = 2**63 - 1  # Kubernetes caps a quantity at the largest int64
# More digits of exponent cannot change the result (capped, or rounded to one nano) but would cost memory.
_EXPONENT_LIMIT = 30


def parse_quantity(text: str) -> Fraction:
    """The number that a quantity stands for; ValueError when it is not one.

    As Kubernetes does, a value finer than a nano is rounded away from zero and a magnitude above 2^63-1 is cut.
    """
    match = _SYNTAX.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a Kubernetes quantity (a number with a suffix such as Mi, Gi, k or M)")
    sign, number, exponent, suffix = match.groups()
    scale = _SUFFIXES[suffix] if exponent is None else Fraction(10) ** _clamped(int(exponent), len(number))
    magnitude = Fraction(number.removesuffix(".")) * scale
    magnitude = Fraction(-(-magnitude.numerator * _NANO // magnitude.denominator), _NANO)
    magnitude = min(magnitude, Fraction(_LIMIT))
    return -magnitude if sign == "-" else magnitude


def is_quantity(text: str) -> bool:
    """Whether text is a Kubernetes quantity."""
    return _SYNTAX.fullmatch(text) is not None


def _clamped(exponent: int, digits: int) -> int:
    limit = _EXPONENT_LIMIT + digits
    return max(-limit, min(limit, exponent))
