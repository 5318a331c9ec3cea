"""ResourceQuotas of the engines' namespace against the pods that Modelplane makes there.

Engine pods have neither requests nor limits and no priority class (Modelplane v0.3.1 passes none on), so a quota on
CPU or memory refuses them unless a LimitRange fills them in. Quotas whose scopes cannot be judged here are left out:
a refusal shows later in the events.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction

from components.gates.kube import Manifest
from modelplane.names import ENGINE_NAMESPACE
from modelplane.quantity import is_quantity, parse_quantity

# A replica is an engine and its endpoint picker: a Deployment with one pod each.
PODS = 2
COUNTED: Mapping[str, int] = {
    "pods": PODS,
    "count/pods": PODS,
    "count/deployments.apps": PODS,
    "count/replicasets.apps": PODS,
    "count/resourceclaims.resource.k8s.io": 1,
    "count/resourceclaimtemplates.resource.k8s.io": 1,
}
# Compute quotas that refuse a pod which does not say what it takes (Kubernetes' pod evaluator): key -> (field of a
# LimitRange item that fills it in, resource).
COMPUTE = {
    "cpu": ("defaultRequest", "cpu"),
    "memory": ("defaultRequest", "memory"),
    "requests.cpu": ("defaultRequest", "cpu"),
    "requests.memory": ("defaultRequest", "memory"),
    "limits.cpu": ("default", "cpu"),
    "limits.memory": ("default", "memory"),
}
# The scopes that pods without requests, deadline and priority class are in.
SCOPES = {"BestEffort", "NotTerminating"}


def quota_problems(
    quotas: Iterable[Manifest], limit_ranges: Iterable[Manifest], *, device_class: str = "", running: bool = False
) -> list[str]:
    """Quotas that would keep engine pods out, a sentence each.

    running: engines of this stack already count in them, so that what is used may be theirs to give back.
    """
    filled = _defaults(limit_ranges)
    found = []
    for quota in quotas:
        name = f"ResourceQuota {ENGINE_NAMESPACE}/{quota['metadata']['name']}"
        spec = quota.get("spec") or {}
        hard, used = spec.get("hard") or {}, (quota.get("status") or {}).get("used") or {}
        if not _applies(spec):
            continue
        unsaid = sorted(key for key, source in COMPUTE.items() if key in hard and source not in filled)
        if unsaid:
            found.append(
                f"{name} limits {', '.join(unsaid)}, so engine pods are refused: Modelplane gives them no requests or "
                "limits; remove it, or fill them in with a LimitRange"
            )
        if running:
            continue
        needed: dict[str, Fraction] = {key: Fraction(number) for key, number in COUNTED.items()}
        needed |= {key: filled[source] * PODS for key, source in COMPUTE.items() if source in filled}
        if device_class:
            needed[f"{device_class}.deviceclass.resource.k8s.io/devices"] = Fraction(1)
        for key in sorted(needed.keys() & hard.keys()):
            limit, taken = _number(hard[key]), _number(used.get(key, "0"))
            if limit is not None and taken is not None and taken + needed[key] > limit:
                found.append(
                    f"{name} has {used.get(key, '0')} of {hard[key]} {key} used, so the engine or its endpoint picker "
                    "is refused; raise it, or delete what uses it"
                )
    return found


def _applies(spec: Manifest) -> bool:
    scopes = set(spec.get("scopes") or [])
    for expression in (spec.get("scopeSelector") or {}).get("matchExpressions") or []:
        if expression.get("operator") != "Exists":
            return False
        scopes.add(expression.get("scopeName"))
    return scopes <= SCOPES


def _defaults(limit_ranges: Iterable[Manifest]) -> dict[tuple[str, str], Fraction]:
    """(field, resource) -> what a container without it gets."""
    found: dict[tuple[str, str], Fraction] = {}
    for limit_range in limit_ranges:
        for item in (limit_range.get("spec") or {}).get("limits") or []:
            if item.get("type") != "Container":
                continue
            for field in ("default", "defaultRequest"):
                for resource, quantity in (item.get(field) or {}).items():
                    number = _number(quantity)
                    if number is not None:
                        found[field, resource] = number
    # A limit without a request is also the request.
    for (field, resource), number in list(found.items()):
        if field == "default":
            found.setdefault(("defaultRequest", resource), number)
    return found


def _number(quantity: object) -> Fraction | None:
    return parse_quantity(str(quantity)) if is_quantity(str(quantity)) else None
