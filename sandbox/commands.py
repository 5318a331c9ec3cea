"""What the commands do: `up`, `down`, `status`, `env`."""

from __future__ import annotations

import importlib
import importlib.util
import json
import shutil
import time

from sandbox import binaries, clusters, nodes, state, supervisor
from sandbox.layout import Layout
from sandbox.processes import Process, records
from sandbox.supervisor import Say

# Modules with `processes(layout) -> list[Process]`, and perhaps `ensure(layout)`: what must be there before them, in
# this order, on answering clusters.
PARTS = ("sandbox.crossplane", "sandbox.runner", "sandbox.gateway")
REAL_ENGINE = "sandbox.engines.real"


def up(layout: Layout, say: Say, *, engine: str | None, only_clusters: bool) -> int:
    """Start what is missing or changed. engine: "real", "fake", or None for what it was (at first: real)."""
    begun = time.monotonic()
    state.need_space(layout.home, state.UP_NEEDS_BYTES, "a sandbox")
    with state.locked(layout, "python -m sandbox up"):
        state.prepare(layout)
        state.write(layout.ports_file, json.dumps(layout.ports, indent=1))
        binaries.ensure(layout, say, binaries.CLUSTER_TOOLS)
        started = _start_clusters(layout, say)
        if not only_clusters:
            binaries.ensure(layout, say)
            started += _start_parts(layout, say, engine)
    what = f"started {len(started)}: {', '.join(started)}" if started else "everything ran already"
    say(f"sandbox is up after {time.monotonic() - begun:.1f} s ({what})")
    return 0


def _start_clusters(layout: Layout, say: Say) -> list[str]:
    clusters.prepare(layout)
    nodes.prepare(layout)
    started = supervisor.up(layout, clusters.processes(layout), say)
    nodes.apply(layout)
    return started + supervisor.up(layout, nodes.processes(layout), say)


def _start_parts(layout: Layout, say: Say, engine: str | None) -> list[str]:
    if engine or not layout.engine_file.exists():
        state.write(layout.engine_file, engine or "real")
    parts = [importlib.import_module(name) for name in PARTS if importlib.util.find_spec(name)]
    if layout.engine_file.read_text() == "real" and importlib.util.find_spec(REAL_ENGINE):
        parts.insert(0, importlib.import_module(REAL_ENGINE))
    wanted: list[Process] = []
    for part in parts:
        if hasattr(part, "ensure"):
            part.ensure(layout)
        if hasattr(part, "processes"):
            wanted += part.processes(layout)
    return supervisor.up(layout, wanted, say)


def down(layout: Layout, say: Say, *, delete: bool) -> int:
    """End every process of this sandbox; with delete, remove its state too."""
    if not layout.home.exists():
        say("no sandbox here")
        return 0
    with state.locked(layout, "python -m sandbox down"):
        stopped = supervisor.down(layout, say)
        if delete:
            shutil.rmtree(layout.home)
    say(f"sandbox is down ({len(stopped)} processes ended)" if stopped else "sandbox is down (nothing ran)")
    return 0


def status(layout: Layout, say: Say) -> int:
    """One line for each process on record. 1 when there is none or one does not run."""
    known = records(layout)
    for record in known.values():
        what = f"running (process {record.pid})" if record.running else f"ended; see {layout.log(record.name)}"
        say(f"{record.name:36} {what}")
    ready = nodes.ready_nodes(layout) if known else []
    say(f"{'nodes ready':36} {', '.join(ready) or 'none'}")
    return 0 if known and all(record.running for record in known.values()) else 1


def env(layout: Layout, say: Say) -> int:
    """The shell file's text."""
    say(layout.env_file.read_text().rstrip() if layout.env_file.exists() else f"# no sandbox in {layout.home}")
    return 0 if layout.env_file.exists() else 1
