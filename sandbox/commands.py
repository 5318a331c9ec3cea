"""What the commands do: `build`, `up`, `local`, `down`, `status`, `env`."""

from __future__ import annotations

import json
import shutil
import time

from engine.findings import Problems
from sandbox import binaries, clusters, crossplane, gateway, local, nodes, pulumi_home, runner, state, supervisor
from sandbox.engines import real
from sandbox.layout import Layout
from sandbox.processes import records
from sandbox.stack import Stack, StackError
from sandbox.steps import Say


def build(layout: Layout, say: Say) -> int:
    """Put all that a sandbox needs into the cache, and start nothing."""
    binaries.build(layout, say)
    real.ensure(layout, say)
    return 0


def up(layout: Layout, say: Say, *, engine: str | None, only_clusters: bool) -> int:
    """Start what is missing or changed. engine: "real", "fake", or None for what it was (at first: real)."""
    with state.locked(layout, "python -m sandbox up"):
        _up(layout, say, engine=engine, only_clusters=only_clusters)
    return 0


def run_local(layout: Layout, say: Say) -> int:
    """The sandbox, the stack `local` on it, its outputs and a completion."""
    with state.locked(layout, "python -m sandbox local"):
        _up(layout, say, engine=None, only_clusters=False)
        stack = Stack(layout, pulumi_home.environment(layout))
        try:
            stack.up()
            local.show(stack, say)
        except StackError as failed:
            return failed.status
    return 0


def down(layout: Layout, say: Say, *, delete: bool) -> int:
    """Destroy the stack, end every process, free every port. delete: remove the state instead of destroying in it."""
    if not layout.home.exists():
        say("no sandbox here")
        return 0
    with state.locked(layout, "python -m sandbox down"):
        destroyed = delete or _destroy(layout, say)
        stopped = supervisor.down(layout, say)
        if delete:
            shutil.rmtree(layout.home)
    say(f"sandbox is down ({len(stopped)} processes ended)" if stopped else "sandbox is down (nothing ran)")
    return 0 if destroyed else 1


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


def _up(layout: Layout, say: Say, *, engine: str | None, only_clusters: bool) -> None:
    begun = time.monotonic()
    state.need_space(layout.home, state.UP_NEEDS_BYTES, "a sandbox")
    state.prepare(layout)
    supervisor.check_ports(layout)
    state.write(layout.ports_file, json.dumps(layout.ports, indent=1))
    binaries.ensure(layout, say, binaries.CLUSTER_TOOLS if only_clusters else None)
    started = _start_clusters(layout, say)
    if not only_clusters:
        pulumi_home.ensure(layout)
        started += _start_parts(layout, say, engine)
    what = f"started {len(started)} processes" if started else "all of it ran already"
    say(f"sandbox is up after {time.monotonic() - begun:.1f} s ({what})")


def _start_clusters(layout: Layout, say: Say) -> list[str]:
    clusters.prepare(layout)
    nodes.prepare(layout)
    started = supervisor.up(layout, clusters.processes(layout), say)
    nodes.apply(layout)
    started += supervisor.up(layout, nodes.processes(layout), say)
    nodes.settle(layout)
    return started


def _start_parts(layout: Layout, say: Say, engine: str | None) -> list[str]:
    if engine or not layout.engine_file.exists():
        state.write(layout.engine_file, engine or "real")
    if layout.engine_file.read_text().strip() == "real":
        real.ensure(layout, say)
    crossplane.ensure(layout)
    wanted = [*crossplane.processes(layout), *runner.processes(layout), *gateway.processes(layout)]
    return supervisor.up(layout, wanted, say)


def _destroy(layout: Layout, say: Say) -> bool:
    """`pulumi destroy` of the stack, starting again what a crash has ended. False when that failed (state is kept)."""
    stack = Stack(layout, pulumi_home.environment(layout))
    if not stack.exists:
        return True
    try:
        if not stack.resources():
            return True
        _up(layout, say, engine=None, only_clusters=False)
        stack.destroy()
    except (Problems, StackError) as failed:
        say(str(failed))
        say("the stack is not destroyed: `make down` tries again, `python -m sandbox down --delete` drops all state")
        return False
    return True
