"""Published devices against device requests: what counts, and why what does not fit does not."""

from __future__ import annotations

from typing import Any

import pytest

from modelplane.devices import Device, mismatch, published, requests_missing
from tests.modelplane.cases import SELECTOR


def entry(node: str, *memories: str, generation: int = 1, **spec: Any) -> dict[str, Any]:
    devices = [
        {
            "name": f"gpu-{index}",
            "capacity": {"memory": {"value": memory}},
            "attributes": {"productName": {"string": "NVIDIA L4" if memory == "23034Mi" else "Tesla T4"}},
        }
        for index, memory in enumerate(memories)
    ]
    pool = {"name": node, "generation": generation}
    return {"spec": {"driver": "gpu.nvidia.com", "nodeName": node, "pool": pool, "devices": devices, **spec}}


def request(count: int = 1, *selectors: str) -> dict[str, Any]:
    return {"name": "gpu", "count": count, "selectors": list(selectors or (SELECTOR,))}


MISSING = [
    pytest.param(1, [entry("gpu-1", "23034Mi")], [], id="one is enough"),
    pytest.param(
        1,
        [entry("gpu-1", "15360Mi")],
        [
            "device request gpu needs 1 on one node, and no published device fits: gpu-1/gpu-0 (Tesla T4): memory is "
            "15360Mi, wanted >= 20Gi"
        ],
        id="a smaller GPU is told with its memory and the wanted one",
    ),
    pytest.param(2, [entry("gpu-1", "23034Mi", "23034Mi")], [], id="two on one node"),
    pytest.param(
        2,
        [entry("gpu-1", "23034Mi"), entry("gpu-2", "23034Mi")],
        ["device request gpu needs 2 on one node, and no node publishes more than 1 that fits"],
        id="one on each of two nodes",
    ),
    pytest.param(
        1,
        [entry("gpu-1", "15360Mi", "15360Mi"), entry("gpu-2", "8Gi", "4Gi", "2Gi", "1Gi")],
        [
            "device request gpu needs 1 on one node, and no published device fits: gpu-1/gpu-0 and 1 more (Tesla T4): "
            "memory is 15360Mi, wanted >= 20Gi; gpu-2/gpu-0 (Tesla T4): memory is 8Gi, wanted >= 20Gi; gpu-2/gpu-1 "
            "(Tesla T4): memory is 4Gi, wanted >= 20Gi; and 2 other devices"
        ],
        id="alike devices are told once, and a few ways only",
    ),
]


@pytest.mark.parametrize(("count", "slices", "missing"), MISSING)
def test_e80_a_device_must_be_published_that_the_selector_matches(
    count: int, slices: list[dict[str, Any]], missing: list[str]
) -> None:
    assert requests_missing(published(slices), [request(count)]) == missing


def test_e85_a_slice_without_devices_publishes_nothing() -> None:
    assert published([entry("gpu-1"), {"spec": {"driver": "gpu.nvidia.com", "devices": None}}]) == []


def test_only_the_newest_generation_of_a_pool_counts() -> None:
    old, new = entry("gpu-1", "23034Mi", "23034Mi"), entry("gpu-1", "23034Mi", generation=2)
    assert [str(device) for device in published([old, new, entry("gpu-2", "15360Mi")])] == [
        "gpu-1/gpu-0: NVIDIA L4, 23034Mi",
        "gpu-2/gpu-0: Tesla T4, 15360Mi",
    ]


L40S = Device(
    "n",
    "n",
    "gpu-0",
    "gpu.nvidia.com",
    {"productName": {"string": "NVIDIA L40S"}, "other.example/slots": {"int": 2}, "tags": {"strings": ["a"]}},
    {"memory": {"value": "46068Mi"}},
)

WHY = [
    ('device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("48Gi")) >= 0', "memory is 46068Mi, wanted >= 48Gi"),
    ('device.capacity["gpu.nvidia.com"].cores.compareTo(quantity("1")) > 0', "cores is not published, wanted > 1"),
    (
        'device.attributes["gpu.nvidia.com"].productName == "NVIDIA L4"\n',
        'productName is NVIDIA L40S, wanted device.attributes["gpu.nvidia.com"].productName == "NVIDIA L4"',
    ),
    (
        "device.attributes['other.example']['slots'] > 3 && device.attributes['gpu.nvidia.com'].brand == 'x'",
        "slots is 2, brand is not published, wanted device.attributes['other.example']['slots'] > 3 && "
        "device.attributes['gpu.nvidia.com'].brand == 'x'",
    ),
    ('device.driver == "amd.com"', 'driver is gpu.nvidia.com, wanted device.driver == "amd.com"'),
    ('device.attributes["gpu.nvidia.com"].productName == "NVIDIA L40S"', ""),
]


@pytest.mark.parametrize(("selector", "why"), WHY)
def test_what_a_selector_reads_is_told_with_what_was_found(selector: str, why: str) -> None:
    assert mismatch(L40S, [selector]) == why


def test_a_selector_that_does_not_compile_is_an_error() -> None:
    with pytest.raises(ValueError, match="is not valid CEL"):
        requests_missing([L40S], [request(1, "device.capacity[")])
