"""The validation program as one file: a zipapp of `engine` and `validation` that any Python from 3.11 on runs.

The bytes depend on the sources only (fixed timestamps, order and permissions; stored, since zlib's output differs by
version), so that a stack whose sources did not change has nothing to update.
"""

from __future__ import annotations

import functools
import hashlib
import io
import zipfile
from importlib import resources
from importlib.resources.abc import Traversable

# The earliest time that the zip format can hold; any fixed time would do.
_TIMESTAMP = (1980, 1, 1, 0, 0, 0)
_FILE_MODE = 0o100644 << 16
_PACKAGES = ("engine", "validation")
_MAIN = b"import sys\n\nfrom validation.__main__ import main\n\nsys.exit(main())\n"
# What only the stack and people need.
_LEFT_OUT = ("validation/package.py", "validation/commands/")


@functools.cache
def build_zipapp() -> bytes:
    """The program's bytes: run it with `python FILE [arguments]`. Fits a ConfigMap (limit 1 MiB)."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, content in sorted(_sources().items()):
            entry = zipfile.ZipInfo(name, _TIMESTAMP)
            entry.external_attr = _FILE_MODE
            entry.create_system = 3  # Unix, on every system: part of the bytes
            archive.writestr(entry, content)
    return buffer.getvalue()


@functools.cache
def content_hash() -> str:
    """SHA-256 of the program's bytes, in hex."""
    return hashlib.sha256(build_zipapp()).hexdigest()


@functools.cache
def _sources() -> dict[str, bytes]:
    """Path inside the archive -> content."""
    found = {"__main__.py": _MAIN}
    for package in _PACKAGES:
        found.update(_walk(resources.files(package), package))
    return {name: content for name, content in found.items() if not name.startswith(_LEFT_OUT)}


def _walk(folder: Traversable, path: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for entry in folder.iterdir():
        name = f"{path}/{entry.name}"
        if entry.is_dir():
            found.update(_walk(entry, name) if entry.name != "__pycache__" else {})
        elif entry.name.endswith(".py"):
            found[name] = entry.read_bytes()
    return found
