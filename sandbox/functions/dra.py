"""What the NVIDIA DRA driver (kubernetes-sigs/dra-driver-nvidia-gpu 0.4) publishes on a node with one L4."""

from __future__ import annotations

from sandbox.functions.model import Manifest

DRIVER = "gpu.nvidia.com"
# What NVML reports as total memory of an L4. A catalogue's 24 GiB is more: a selector of 24Gi never matches.
L4_MEMORY = "23034Mi"


def device_class() -> Manifest:
    expression = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == 'gpu'"
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": DRIVER},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }


def resource_slice(node: str) -> Manifest:
    """One pool, named after its node, with one L4. Uuid, versions and PCI address are made up, in the real formats."""
    attributes = {
        "type": {"string": "gpu"},
        "uuid": {"string": "GPU-5a6b0c1d-2e3f-4a5b-8c6d-7e8f9a0b1c2d"},
        "productName": {"string": "NVIDIA L4"},
        "brand": {"string": "Nvidia"},
        "architecture": {"string": "Ada Lovelace"},
        "cudaComputeCapability": {"version": "8.9.0"},
        "driverVersion": {"version": "580.95.5"},
        "cudaDriverVersion": {"version": "13.0.0"},
        "resource.kubernetes.io/pciBusID": {"string": "0000:00:03.0"},
        "resource.kubernetes.io/pcieRoot": {"string": "pci0000:00"},
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{DRIVER}"},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0", "attributes": attributes, "capacity": {"memory": {"value": L4_MEMORY}}}],
        },
    }
