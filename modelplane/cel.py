"""Device selectors: the CEL dialect of Kubernetes DRA, as far as the scheduler of Modelplane v0.3.1 knows it.

A selector is evaluated twice in a deployment: by Modelplane against the InferenceClass, and by the Kubernetes scheduler
against the ResourceSlice. Both store a device alike, so one evaluator answers for both:
attributes {"architecture": {"string": "Ada Lovelace"}}, capacity {"memory": {"value": "23034Mi"}}.
cel-python is imported on first use: loading it costs a preview a seventh of a second, and the one form that nearly
every recipe has, a capacity compared with a quantity, is evaluated without it.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from modelplane.quantity import is_quantity, parse_quantity
from modelplane.semver import Semver

if TYPE_CHECKING:
    import celpy

# device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("20Gi")) >= 0
_COMPARISON = re.compile(
    r'\s*device\.capacity\["(?P<domain>[\w./-]+)"\]\.(?P<name>[A-Za-z_]\w*)'
    r'\.compareTo\(quantity\("(?P<quantity>[\w.+-]+)"\)\) (?P<operator>>=|<=|==|!=|>|<) 0\s*',
    re.ASCII,
)
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
_MACROS = {"has", "all", "exists", "exists_one", "map", "filter"}
_TOO_DEEP = "nests too deeply to be evaluated"
_INT64 = 2**63


def matches(
    expressions: Iterable[str],
    driver: str,
    attributes: Mapping[str, Mapping[str, Any]],
    capacity: Mapping[str, Mapping[str, Any]],
) -> bool:
    """Whether one device satisfies all expressions. An evaluation error or a result that is no boolean: no match.

    Attribute and capacity names may be qualified ("domain/name"); a bare name is in the driver's domain.
    ValueError when an expression cannot be compiled, or nests too deeply.
    """
    rest = []
    for expression in expressions:
        compared = _compared(expression, driver, capacity)
        if compared is None:
            rest.append(expression)
        elif not compared:
            return False
    return not rest or _evaluated(rest, driver, attributes, capacity)


def _compared(expression: str, driver: str, capacity: Mapping[str, Mapping[str, Any]]) -> bool | None:
    """The answer to an expression of the one common form, as CEL gives it; None for any other expression."""
    found = _COMPARISON.fullmatch(expression)
    if found is None or not is_quantity(found["quantity"]):
        return None
    keys = [f"{found['domain']}/{found['name']}"] + ([found["name"]] if found["domain"] == driver else [])
    value = next((capacity[key]["value"] for key in keys if key in capacity), None)
    if value is None or not is_quantity(str(value)):
        return None
    return _OPERATORS[found["operator"]](parse_quantity(str(value)), parse_quantity(found["quantity"]))


def compared_values(expression: str) -> tuple[str, str, str, str] | None:
    """(domain, name, operator, quantity) of an expression of the one common form, None for any other."""
    found = _COMPARISON.fullmatch(expression)
    return (found["domain"], found["name"], found["operator"], found["quantity"]) if found else None


def _evaluated(
    expressions: Iterable[str],
    driver: str,
    attributes: Mapping[str, Mapping[str, Any]],
    capacity: Mapping[str, Mapping[str, Any]],
) -> bool:
    import celpy  # noqa: PLC0415 - lazy, see above

    device = _device(driver, attributes, capacity)
    for expression in expressions:
        try:
            result = _program(expression).evaluate({"device": device})
        except celpy.evaluation.CELEvalError:
            return False
        except RecursionError:
            raise ValueError(f"a selector of {len(expression)} characters {_TOO_DEEP}") from None
        if not isinstance(result, celpy.celtypes.BoolType) or not result:
            return False
    return True


def selector_problem(expression: str) -> str | None:
    """Why an expression can never select a device (syntax error, unknown function or name); None when it can."""
    common = _COMPARISON.fullmatch(expression)
    if common and is_quantity(common["quantity"]):
        return None
    import celpy  # noqa: PLC0415 - lazy, see above

    try:
        tree: Any = celpy.Environment().compile(expression)
    except celpy.celparser.CELParseError as error:
        where = f" at line {error.line}, column {error.column}" if error.line else ""
        return f"is not valid CEL: syntax error{where}"
    known = set(_functions()) | set(celpy.evaluation.base_functions) | _MACROS
    called = {str(node.children[1]) for node in tree.find_data("member_dot_arg")}
    called |= {str(node.children[0]) for node in tree.find_data("ident_arg")}
    unknown = sorted(called - known)
    if unknown:
        return f"calls {', '.join(unknown)}, which Modelplane's scheduler does not know, so it matches no device"
    names = {str(node.children[0]) for node in tree.find_data("ident")}
    stray = sorted(names - {"device"} - known - _bound(tree))
    if stray:
        return f"reads {', '.join(stray)}; the only name a selector has is device, so it matches no device"
    try:
        matches([expression], "", {}, {})
    except ValueError:
        return _TOO_DEEP
    return None


def _bound(tree: Any) -> set[str]:  # noqa: ANN401 - a lark tree; lark has no useful types here
    """Variables of comprehensions: the first argument of all(), exists(), map() and the like."""
    bound = set()
    for node in tree.find_data("member_dot_arg"):
        if str(node.children[1]) in _MACROS and len(node.children) == 3:
            first = node.children[2].children[0]
            bound |= {str(found.children[0]) for found in first.find_data("ident")}
    return bound


@functools.lru_cache(maxsize=256)
def _program(expression: str) -> celpy.Runner:
    import celpy  # noqa: PLC0415 - lazy, see above

    environment = celpy.Environment()
    try:
        tree = environment.compile(expression)
    except celpy.celparser.CELParseError as error:
        raise ValueError(f"{expression.strip()!r} is not valid CEL") from error
    return environment.program(tree, functions=_functions())


def _device(
    driver: str, attributes: Mapping[str, Mapping[str, Any]], capacity: Mapping[str, Mapping[str, Any]]
) -> celpy.celtypes.MapType:
    from celpy import celtypes  # noqa: PLC0415 - lazy, see above

    class Domains(celtypes.MapType):
        """A domain that the device does not have is an empty one."""

        def __missing__(self, _key: object) -> celtypes.MapType:
            return celtypes.MapType()

    def domains(values: Mapping[str, Mapping[str, Any]], convert: Callable[[Mapping[str, Any]], object]) -> Domains:
        found: dict[str, dict[object, object]] = {}
        for qualified, value in values.items():
            domain, _, name = qualified.rpartition("/")
            converted = convert(value)
            if converted is not None:
                found.setdefault(domain or driver, {})[celtypes.StringType(name)] = converted
        return Domains([(celtypes.StringType(name), celtypes.MapType(entries)) for name, entries in found.items()])

    def attribute(value: Mapping[str, Any]) -> object:
        """None for a type that Modelplane's scheduler does not know, such as lists: it is then not there."""
        types: dict[str, Callable[[Any], object]] = {
            "string": celtypes.StringType,
            "bool": celtypes.BoolType,
            "int": celtypes.IntType,
            "version": Semver.parse,
        }
        return next((types[kind](content) for kind, content in value.items() if kind in types), None)

    return celtypes.MapType(
        [
            (celtypes.StringType("driver"), celtypes.StringType(driver)),
            (celtypes.StringType("attributes"), domains(attributes, attribute)),
            (celtypes.StringType("capacity"), domains(capacity, lambda value: Quantity(str(value["value"])))),
        ]
    )


class Quantity:
    """A quantity as a CEL value."""

    def __init__(self, text: str) -> None:
        self.value = parse_quantity(text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)


@functools.cache
def _functions() -> dict[str, Callable[..., Any]]:
    """The functions that Modelplane registers; `a.f(b)` is called as f(a, b). TypeError means: no such overload."""
    from celpy import celtypes  # noqa: PLC0415 - lazy, see above

    def number(value: Quantity | celtypes.IntType) -> Any:  # noqa: ANN401 - Fraction or int
        return value.value if isinstance(value, Quantity) else int(value)

    def quantity_of(value: object) -> Quantity:
        if not isinstance(value, Quantity):
            raise TypeError(f"{type(value).__name__} is not a quantity")
        return value

    def combined(left: Quantity, amount: Any) -> Quantity:  # noqa: ANN401 - Fraction or int
        result = Quantity("0")
        result.value = quantity_of(left).value + amount
        return result

    def compare(left: Any, right: Any) -> int:  # noqa: ANN401 - any two CEL values
        if isinstance(left, Quantity) and isinstance(right, Quantity):
            return (left.value > right.value) - (left.value < right.value)
        if isinstance(left, Semver) and isinstance(right, Semver):
            return (left > right) - (left < right)
        raise TypeError("only two quantities or two versions can be compared")

    def is_integer(value: Quantity) -> bool:
        exact = quantity_of(value).value
        return exact.denominator == 1 and -_INT64 <= exact < _INT64

    def as_integer(value: Quantity) -> celtypes.IntType:
        if not is_integer(value):
            raise ValueError("not an integer")
        return celtypes.IntType(int(value.value))

    boolean, integer = celtypes.BoolType, celtypes.IntType
    return {
        "quantity": lambda text: Quantity(str(text)),
        "isQuantity": lambda text: boolean(is_quantity(str(text))),
        "sign": lambda q: integer((quantity_of(q).value > 0) - (q.value < 0)),
        "isInteger": lambda q: boolean(is_integer(q)),
        "asInteger": as_integer,
        "asApproximateFloat": lambda q: celtypes.DoubleType(float(quantity_of(q).value)),
        "add": lambda left, right: combined(left, number(right)),
        "sub": lambda left, right: combined(left, -number(right)),
        "semver": lambda text: Semver.parse(str(text)),
        "isSemver": lambda text: boolean(Semver.is_valid(str(text))),
        "major": lambda version: integer(version.major),
        "minor": lambda version: integer(version.minor),
        "patch": lambda version: integer(version.patch),
        "compareTo": lambda left, right: integer(compare(left, right)),
        "isGreaterThan": lambda left, right: boolean(compare(left, right) > 0),
        "isLessThan": lambda left, right: boolean(compare(left, right) < 0),
    }
