"""Builds Go binaries from the wrapper modules, each once, as a whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.findings import Finding, Problems, Severity
from sandbox import state
from sandbox.layout import Layout
from sandbox.steps import Say, one_at_a_time, run
from sandbox.tools import WRAPPERS, Tool, printed_version

# Module and build caches of a whole cold build, divided by the number of tools (measured: 17 GiB for all).
_BYTES_PER_TOOL = 2 * 2**30


def source_address(tool: Tool) -> str:
    """Changes with anything a binary is made from: module files, own sources, package, flags. Not the toolchain."""
    folder = WRAPPERS / tool.module
    digest = hashlib.sha256("\n".join([tool.package, tool.flags(), repr(tool.assets)]).encode())
    for path in sorted([folder / "go.mod", folder / "go.sum", *folder.glob("*.go")]):
        digest.update(path.name.encode())
        with contextlib.suppress(FileNotFoundError):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def built(layout: Layout, tool: Tool, go_version: str | None = None) -> Path | None:
    """The finished binary of exactly these sources.

    One that another toolchain has built is as good: an upgrade of Go is no reason to build for half an hour again.
    """
    found = sorted(layout.binaries.glob(f"{tool.name}-{source_address(tool)}-{go_version or '*'}/{tool.name}"))
    return found[-1] if found else None


@dataclass(frozen=True)
class Toolchain:
    """A Go toolchain: its program and its version, such as "go1.26.8"."""

    program: Path
    version: str


def needed_go() -> tuple[int, ...]:
    """The newest `go` directive of the wrapper modules."""
    found = []
    for path in WRAPPERS.glob("*/go.mod"):
        if directive := re.search(r"^go (\S+)$", path.read_text(), re.MULTILINE):
            found.append(tuple(int(part) for part in directive[1].split(".")))
    return max(found)


def toolchain(say: Say) -> Toolchain:
    """The Go on PATH when new enough, else the one of the project's Python environment, put there when missing."""
    own = Path(sys.executable).parent / "go"
    on_path = shutil.which("go")
    for program in [Path(on_path)] if on_path else []:
        if fitting := _fitting(program):
            return fitting
    if not own.exists():
        say(f"no Go {_dotted(needed_go())} or newer on PATH: putting it into this Python environment (once)")
        _install_go()
    if fitting := _fitting(own):
        return fitting
    raise Problems([_no_go("the toolchain in this Python environment is too old or does not start")])


def build(layout: Layout, tools: Sequence[Tool], say: Say) -> None:
    """Build these tools in order, with progress. Safe to interrupt, and to run twice at once: the second one waits."""
    layout.binaries.mkdir(parents=True, exist_ok=True)
    with one_at_a_time(layout.binaries / ".lock", say, "another command is building the binaries: waiting for it"):
        missing = [tool for tool in tools if not built(layout, tool)]
        if not missing:
            return
        state.need_space(layout.binaries, _BYTES_PER_TOOL * len(missing), f"building {len(missing)} binaries")
        go = toolchain(say)
        for leftover in layout.binaries.glob(".making-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        total, done, begun = sum(tool.seconds for tool in missing), 0, time.monotonic()
        minutes = total // 60 + 1
        say(f"building {len(missing)} binaries with {go.version}, once (about {minutes} min on 2 cores when cold)")
        with _downloading(go, missing[1:]):
            for number, tool in enumerate(missing, 1):
                share = f"{100 * done // total}% of the expected work done, {time.monotonic() - begun:.0f} s so far"
                say(f"[{number}/{len(missing)}] {tool.name} ({share})")
                _build_one(layout, tool, go, say)
                done += tool.seconds


@contextlib.contextmanager
def _downloading(go: Toolchain, tools: Sequence[Tool]) -> Iterator[None]:
    """Meanwhile load the modules of these tools: while a compiler runs, the network has nothing to do (30 s each)."""
    lists = [
        f"(cd {shlex.quote(str(WRAPPERS / tool.module))} && "
        + shlex.join([str(go.program), "list", "-mod=readonly", "-deps", tool.package])
        + ")"
        for tool in tools
    ]
    child = subprocess.Popen(
        ["/bin/sh", "-c", "; ".join(lists) or ":"],
        env=_go_env(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,  # what fails here is said by the build itself
        start_new_session=True,
    )
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGTERM)
        child.wait()


def _build_one(layout: Layout, tool: Tool, go: Toolchain, say: Say) -> None:
    final = layout.binaries / f"{tool.name}-{source_address(tool)}-{go.version}"
    making = layout.binaries / f".making-{final.name}"
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir()
    try:
        flags = f"-s -w {tool.flags()}".rstrip()
        arguments = ["build", "-mod=readonly", "-trimpath", "-buildvcs=false", f"-ldflags={flags}"]
        _go(go, tool, [*arguments, "-o", str(making / tool.name), tool.package], say)
        for name, module, folder in tool.assets:
            where = _go(go, tool, ["list", "-mod=readonly", "-m", "-f", "{{.Dir}}", module], say).strip()
            # copyfile: files in the module cache are read-only, and would stay so.
            shutil.copytree(Path(where) / folder, making / name, copy_function=shutil.copyfile)
        making.rename(final)
    finally:
        # Also after Ctrl-C: the binary is there as a whole or not at all.
        shutil.rmtree(making, ignore_errors=True)


def _go(go: Toolchain, tool: Tool, arguments: list[str], say: Say) -> str:
    """Run go in a wrapper module; its output. Problems with the compiler's last words when it fails."""
    status, text = run([go.program, *arguments], tool.name, say, env=_go_env(), cwd=WRAPPERS / tool.module)
    if status:
        raise Problems([_failed(tool, text)])
    return text


def _failed(tool: Tool, text: str) -> Finding:
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("go: downloading")]
    last = lines[-1] if lines else "without a word"
    remedy = "run the same command again: it goes on where it stopped"
    if "no space left on device" in text:
        last, remedy = "no space left on device", "free some space, or set SPECULATION_CACHE, GOCACHE and GOMODCACHE"
    elif re.search(r"dial tcp|no such host|i/o timeout|proxyconnect|TLS handshake", text):
        remedy = "the Go module proxy must be reachable once (see `go help goproxy`); then run the same command again"
    return Finding(Severity.ERROR, f"build of {tool.name}", None, last, remedy)


def _go_env() -> dict[str, str]:
    """The user's environment (proxies, cache folders), without what would change the result."""
    env = {key: value for key, value in os.environ.items() if key not in ("GOFLAGS", "GOOS", "GOARCH", "GOEXPERIMENT")}
    return env | {"GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GOWORK": "off", "GO111MODULE": "on", "GOFLAGS": ""}


def _fitting(program: Path) -> Toolchain | None:
    version = printed_version(program, ("version",))
    return Toolchain(program, "go" + _dotted(version)) if version and version >= needed_go() else None


def _install_go() -> None:
    root = WRAPPERS.parent.parent
    local_uv = Path(sys.executable).parent / "uv"
    uv = str(local_uv) if local_uv.exists() else shutil.which("uv")
    if uv is None:
        raise Problems([_no_go("neither Go nor uv was found")])
    argv = [uv, "pip", "install", "--quiet", "--python", sys.executable, "--group", "go"]
    done = subprocess.run(argv, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Problems([_no_go((done.stderr.strip().splitlines() or ["the installation failed"])[-1])])


def _no_go(why: str) -> Finding:
    remedy = (
        f"run `{sys.executable} -m pip install uv` and try again, or install Go {_dotted(needed_go())} or newer from "
        "https://go.dev/dl and put it on PATH"
    )
    return Finding(Severity.ERROR, "Go toolchain", None, why, remedy)


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
