"""Image references as container runtimes write them in a pod's status."""

from __future__ import annotations

import hashlib


def canonical_reference(reference: str) -> str:
    """An image reference as container runtimes write it: `python:3.13` is `docker.io/library/python:3.13`."""
    first, slash, _ = reference.partition("/")
    if not slash:
        reference = f"docker.io/library/{reference}"
    elif "." not in first and ":" not in first and first != "localhost":
        reference = f"docker.io/{reference}"
    name = reference.rpartition("/")[2]
    return reference if ":" in name or "@" in name else f"{reference}:latest"


def image_id(reference: str) -> str:
    """Names the image in the form of a digest. There is no image here: it is a digest of the reference."""
    canonical = canonical_reference(reference)
    if "@" in canonical:
        return canonical
    repository = canonical.rpartition(":")[0]
    return f"{repository}@sha256:{hashlib.sha256(canonical.encode()).hexdigest()}"
