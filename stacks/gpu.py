"""The GPU of this stack: one NVIDIA L4 a node, as the DRA driver publishes it
(kubernetes-sigs/dra-driver-nvidia-gpu 0.4).

The same figures are declared to Modelplane and judged against a recipe's selectors.
"""

from __future__ import annotations

from typing import Any

DRIVER = "gpu.nvidia.com"
DEVICE_CLASS = "gpu.nvidia.com"
PRODUCT = "NVIDIA L4"
# What the driver reports; with the nominal 24Gi a selector would pass here and match no real GPU.
MEMORY = "23034Mi"
DEVICES_PER_NODE = 1

ATTRIBUTES: dict[str, dict[str, Any]] = {"productName": {"string": PRODUCT}, "architecture": {"string": "Ada Lovelace"}}
CAPACITY = {"memory": {"value": MEMORY}}


def device() -> dict[str, Any]:
    """The device as an InferenceClass declares it."""
    return {
        "name": "gpu",
        "driver": DRIVER,
        "claim": "DRA",
        "deviceClassName": DEVICE_CLASS,
        "count": DEVICES_PER_NODE,
        "attributes": ATTRIBUTES,
        "capacity": CAPACITY,
    }
