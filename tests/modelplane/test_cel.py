"""Device selectors: what an L4 answers, and which expressions can never match."""

from __future__ import annotations

from typing import Any

import pytest

from modelplane.cel import _compared, _evaluated, matches, selector_problem

L4_ATTRIBUTES: dict[str, dict[str, Any]] = {
    "architecture": {"string": "Ada Lovelace"},
    "cudaComputeCapability": {"version": "8.9.0"},
    "ecc": {"bool": True},
    "index": {"int": 0},
    "resource.example.com/rack": {"string": "r1"},
}
L4_CAPACITY = {"memory": {"value": "23034Mi"}}
GPU = 'device.capacity["gpu.nvidia.com"].memory'
ATTRIBUTE = 'device.attributes["gpu.nvidia.com"]'


def l4(*expressions: str) -> bool:
    return matches(expressions, "gpu.nvidia.com", L4_ATTRIBUTES, L4_CAPACITY)


@pytest.mark.parametrize(
    ("expression", "matched"),
    [
        (f'{GPU}.compareTo(quantity("20Gi")) >= 0', True),
        (f'{GPU}.compareTo(quantity("24Gi")) >= 0', False),  # the nominal figure of an L4 is not what its driver says
        (f'{GPU}.isGreaterThan(quantity("23033Mi")) && {GPU}.isLessThan(quantity("23035Mi"))', True),
        (f'{GPU}.sub(quantity("34Mi")).asInteger() == 24117248000', True),
        (f'{GPU} == quantity("23034Mi")', True),
        ('device.driver == "gpu.nvidia.com"', True),
        (f'{ATTRIBUTE}.architecture == "Ada Lovelace"', True),
        (f'{ATTRIBUTE}.architecture.startsWith("Hop")', False),
        (f'{ATTRIBUTE}.cudaComputeCapability.compareTo(semver("8.0.0")) > 0', True),
        (f"{ATTRIBUTE}.cudaComputeCapability.major() == 8 && {ATTRIBUTE}.cudaComputeCapability.minor() == 9", True),
        (f"{ATTRIBUTE}.ecc && {ATTRIBUTE}.index == 0", True),
        ('device.attributes["resource.example.com"].rack == "r1"', True),
        ('has(device.attributes["other.example.com"].rack)', False),
        ('device.attributes["other.example.com"].rack == "r1"', False),
        (f"{ATTRIBUTE}.missing > 1", False),
        (f'["Hopper", "Ada Lovelace"].exists(a, a == {ATTRIBUTE}.architecture)', True),
        (f'isQuantity("1Gi") && !isSemver("8.9") && quantity("-1").sign() == -1 && {GPU}.isInteger()', True),
        ('quantity("many").sign() == 0', False),
        (f'{GPU}.compareTo("20Gi") >= 0', False),
        ("device.driver", False),  # no boolean
        ("1 == 1", True),
    ],
)
def test_an_l4_answers_a_selector(expression: str, matched: bool) -> None:
    assert selector_problem(expression) is None
    assert l4(expression) is matched


def test_all_selectors_must_hold() -> None:
    assert l4("true", 'device.driver == "gpu.nvidia.com"')
    assert not l4("true", "false")


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("device.capacity[", "syntax error at line 1, column 16"),
        (f'{GPU}.compareTo(quantity("20Gi") >= 0', "syntax error"),
        ("device.driver.lowerAscii() == 'x'", "calls lowerAscii, which Modelplane's scheduler does not know"),
        ('quantitiy("20Gi").sign() == 1', "calls quantitiy"),
        ("devices.driver == 'x'", "reads devices; the only name a selector has is device"),
        ("true || " * 1200 + "true", "nests too deeply"),
        ("['a'].all(x, y == device.driver)", "reads y"),
    ],
)
def test_a_selector_that_can_never_match_is_named(expression: str, problem: str) -> None:
    assert problem in str(selector_problem(expression))


def test_a_selector_that_is_no_cel_is_an_error_not_a_mismatch() -> None:
    with pytest.raises(ValueError, match="not valid CEL"):
        l4("device.driver ==")


@pytest.mark.parametrize(
    ("smaller", "greater"),
    [("8.9.0", "8.10.0"), ("1.0.0-rc.1", "1.0.0"), ("1.0.0-1", "1.0.0-a"), ("1.0.0-a", "1.0.0-a.1")],
)
def test_versions_are_ordered_by_their_meaning(smaller: str, greater: str) -> None:
    assert l4(f'semver("{smaller}").isLessThan(semver("{greater}"))')
    assert l4(f'semver("{greater}+build").compareTo(semver("{greater}")) == 0')


@pytest.mark.parametrize("driver", ["gpu.nvidia.com", "other.example.com"])
@pytest.mark.parametrize("sign", [">=", "<=", "==", "!=", ">", "<"])
@pytest.mark.parametrize("size", ["20Gi", "23034Mi", "24Gi", "24152899584", "1e3", "many"])
@pytest.mark.parametrize("name", ["memory", "missing"])
def test_the_common_form_is_answered_as_cel_answers_it(driver: str, sign: str, size: str, name: str) -> None:
    expression = f'device.capacity["gpu.nvidia.com"].{name}.compareTo(quantity("{size}")) {sign} 0\n'
    short = _compared(expression, driver, L4_CAPACITY)
    whole = _evaluated([expression], driver, L4_ATTRIBUTES, L4_CAPACITY)
    assert matches([expression], driver, L4_ATTRIBUTES, L4_CAPACITY) is whole
    assert short in (whole, None)
    assert (short is None) is (size == "many" or name == "missing" or driver != "gpu.nvidia.com")
    assert selector_problem(expression) is None
