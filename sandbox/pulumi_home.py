"""The shell in which plain `pulumi` and `kubectl` work against the sandbox, and what Pulumi needs for that.

State, plugins and passphrase are the sandbox's own: nothing in the user's ~/.pulumi is read or written.
"""

from __future__ import annotations

import filecmp
import os
import shlex
import shutil
import sys
from pathlib import Path

from sandbox import state
from sandbox.binaries import installed, link
from sandbox.layout import DEFAULT_PORT_BASE, Layout
from sandbox.tools import provider_version

PROVIDER = "pulumi-resource-kubernetes"
# Host programs that come with an official Pulumi; one built from source has none.
_HOSTS = {"pulumi-language-python": "language_host.py", "pulumi-resource-pulumi-python": "dynamic_host.py"}
# Protects nothing: whoever reads the state file of this sandbox can read its cluster-admin keys beside it.
_PASSPHRASE = "sandbox"


def ensure(layout: Layout) -> None:
    """Launchers, the provider plugin and the shell file. Needs the binaries in place. Idempotent."""
    link(layout.bin / "kubectl", Path(installed(layout, "kubectl")))
    _cli(layout)
    plugin = layout.pulumi_home / "plugins" / f"resource-kubernetes-v{provider_version()}"
    plugin.mkdir(parents=True, exist_ok=True)
    link(plugin / PROVIDER, Path(installed(layout, PROVIDER)))
    layout.pulumi_backend.mkdir(parents=True, exist_ok=True)
    state.write(layout.env_file, shell(layout))


def variables(layout: Layout) -> dict[str, str]:
    """What the shell file sets, without PATH."""
    found = {
        "KUBECONFIG": str(layout.kubeconfig),
        "PULUMI_HOME": str(layout.pulumi_home),
        "PULUMI_BACKEND_URL": layout.pulumi_backend.as_uri(),
        "PULUMI_CONFIG_PASSPHRASE": _PASSPHRASE,
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        # What is missing is said at once instead of being looked for in the network.
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        # The text of an error may hold a secret; here it is worth more to see it.
        "PULUMI_ERROR_OUTPUT_STRING": "true",
    }
    if layout.port_base != DEFAULT_PORT_BASE or layout.home != layout.repository / ".sandbox":
        found |= {"SANDBOX_HOME": str(layout.home), "SANDBOX_PORT_BASE": str(layout.port_base)}
    return found


def environment(layout: Layout) -> dict[str, str]:
    """The whole environment in which to run `pulumi` and `kubectl` as a person would in the sandbox's shell."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("PULUMI_")}
    return {**inherited, **variables(layout), "PATH": os.pathsep.join([*_folders(layout), _outer_path(layout)])}


def shell(layout: Layout) -> str:
    """The text of `.sandbox/env`, for `. .sandbox/env`."""
    lines = ["# Sourced by a shell: pulumi and kubectl work against the sandbox in it."]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in variables(layout).items()]
    for folder in reversed(_folders(layout)):
        quoted = shlex.quote(folder)
        lines.append(f'case ":$PATH:" in *:{quoted}:*) ;; *) PATH={quoted}:"$PATH" ;; esac')
    return "\n".join([*lines, "export PATH", ""])


def _folders(layout: Layout) -> list[str]:
    """First on PATH: the chosen binaries, then this Python environment (an official language host looks there)."""
    return [str(layout.bin), str(Path(sys.executable).parent)]


def _outer_path(layout: Layout) -> str:
    ours = set(_folders(layout))
    return os.pathsep.join(part for part in os.environ.get("PATH", os.defpath).split(os.pathsep) if part not in ours)


def _cli(layout: Layout) -> None:
    """pulumi, and the hosts beside it unless it has its own.

    The CLI looks for hosts in the folder of its own file and warns about those it finds elsewhere on PATH: so ours is a
    file there, not a link. The provider is not on PATH for the same reason.
    """
    chosen, ours = Path(installed(layout, "pulumi")), layout.bin / "pulumi"
    official = all((chosen.parent / name).exists() for name in _HOSTS)
    if official:
        link(ours, chosen)
    elif ours.is_symlink() or not ours.exists() or not filecmp.cmp(ours, chosen):
        _place(chosen, ours)
    for name, script in _HOSTS.items():
        if official:
            (layout.bin / name).unlink(missing_ok=True)
            continue
        program = layout.repository / "sandbox" / script
        text = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -u {shlex.quote(str(program))} "$@"\n'
        state.write(layout.bin / name, text, mode=0o755)


def _place(source: Path, target: Path) -> None:
    """The same file (or a copy, on another file system) at another path, in one step."""
    making = target.with_name(f".{target.name}.{os.getpid()}")
    making.unlink(missing_ok=True)
    try:
        making.hardlink_to(source)
    except OSError:
        shutil.copy2(source, making)
    making.replace(target)
