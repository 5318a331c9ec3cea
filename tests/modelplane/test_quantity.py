"""Quantities compare as in Kubernetes."""

from __future__ import annotations

from fractions import Fraction

import pytest

from modelplane.quantity import is_quantity, parse_quantity


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("1", 1),
        ("+1", 1),
        ("-1", -1),
        ("1.", 1),
        (".5", Fraction(1, 2)),
        ("20Gi", 20 * 2**30),
        ("23034Mi", 23034 * 2**20),
        ("1.5Ki", 1536),
        ("2k", 2000),
        ("1M", 10**6),
        ("1E", 10**18),
        ("1E3", 1000),
        ("1e-3", Fraction(1, 1000)),
        ("100m", Fraction(1, 10)),
        ("7u", Fraction(7, 10**6)),
        ("7n", Fraction(7, 10**9)),
        ("0.1n", Fraction(1, 10**9)),
        ("-0.1n", Fraction(-1, 10**9)),
        ("1.0000000001", Fraction(10**9 + 1, 10**9)),
        ("8Ei", 2**63 - 1),
        ("1e999999999", 2**63 - 1),
        ("1e-999999999", Fraction(1, 10**9)),
        ("0e999999999", 0),
    ],
)
def test_a_quantity_is_exact_within_kubernetes_bounds(text: str, value: Fraction) -> None:
    assert parse_quantity(text) == value


@pytest.mark.parametrize(
    "text", ["", "Gi", ".", "1 Gi", "1gi", "1K", "1KiB", "0x10", "1e", "1e1.5", "--1", "\u0661", "1\n"]
)
def test_other_text_is_no_quantity(text: str) -> None:
    assert not is_quantity(text)
    with pytest.raises(ValueError, match="not a Kubernetes quantity"):
        parse_quantity(text)
