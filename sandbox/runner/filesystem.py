"""What a container sees of the file system, as bubblewrap arguments.

The machine's root, read-only, without the sandbox's own state; fresh /dev, /proc, /tmp, /run and /var/tmp; volumes at
their paths. A mount point that the machine lacks (/opt/validation, /mnt/models) needs a directory that holds it beside
all that the machine has there: that directory is built anew, entry by entry. Nothing is ever made on the machine
itself, so root is not needed and no empty directories are left behind.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

_ROOT = Path("/")
# Fresh and writable in each container. /var/run is a link to /run on current distributions.
_FRESH = (Path("/tmp"), Path("/run"), Path("/var/tmp"))
# Made by bubblewrap itself.
_SPECIAL = (Path("/dev"), Path("/proc"))


@dataclass(frozen=True)
class Mount:
    """A file or directory of the machine at a path of the container; without a source, fresh memory."""

    source: Path | None
    target: Path
    read_only: bool = True

    def arguments(self) -> list[str]:
        if self.source is None:
            return ["--perms", "1777", "--tmpfs", str(self.target)]
        return ["--ro-bind" if self.read_only else "--bind", str(self.source), str(self.target)]


def arguments(mounts: Iterable[Mount], visible: Sequence[Path] = (), hidden: Sequence[Path] = ()) -> list[str]:
    """bubblewrap's arguments for the file system of one container.

    visible: directories of the machine that must be there even below a fresh or hidden one; hidden: those shown empty.
    """
    targets = [Mount(mount.source, _resolved(mount.target), mount.read_only) for mount in mounts]
    targets.sort(key=lambda mount: len(mount.target.parts))
    fresh = (*_SPECIAL, *_FRESH)
    built = {
        parent
        for mount in targets
        if not _below(mount.target, fresh) and not _exists(mount)
        for parent in mount.target.parents
        if _needs_building(parent, mount.target)
    }
    result = _directory(_ROOT, built | {_ROOT}, {mount.target for mount in targets})
    result += ["--dev", "/dev", "--proc", "/proc"]
    for path in _FRESH:
        # /tmp and the like exist everywhere; one that does not is simply made in the root that we build.
        result += ["--tmpfs", str(path)]
    shown = _outermost(path for path in visible if path.exists())
    covered = [path for path in shown if _below(path, fresh)]
    for path in covered:
        result += Mount(path, path).arguments()
    for path in hidden:
        if path.is_dir() and (not _below(path, fresh) or _below(path, covered)):
            result += ["--tmpfs", str(path)]
    for path in visible:
        if path.exists() and _below(path, hidden):
            result += Mount(path, path).arguments()
    for mount in targets:
        result += mount.arguments()
    return result


def _directory(path: Path, built: set[Path], targets: set[Path]) -> list[str]:
    """A directory that is made anew, with everything the machine has in it."""
    result = [] if path == _ROOT else ["--dir", str(path)]
    with os.scandir(path) as entries:
        listed = sorted(entries, key=lambda entry: entry.name)
    for entry in listed:
        child = path / entry.name
        if child in _SPECIAL or child in _FRESH or child in targets:
            continue
        if entry.is_symlink():
            result += ["--symlink", str(child.readlink()), str(child)]
        elif child in built:
            result += _directory(child, built, targets)
        else:
            # An entry may have gone since it was listed.
            result += ["--ro-bind-try", str(child), str(child)]
    return result


def _resolved(path: Path) -> Path:
    """The path without the machine's symbolic links: /var/run/secrets is /run/secrets."""
    return Path(os.path.realpath(path))


def _exists(mount: Mount) -> bool:
    """Can the mount go on top of what the machine has at its target?"""
    directory = mount.source is None or mount.source.is_dir()
    return mount.target.is_dir() if directory else mount.target.is_file()


def _needs_building(parent: Path, target: Path) -> bool:
    """The directories from the root down to the last one that the machine has; below that, bubblewrap makes them."""
    return parent.is_dir() and parent != target


def _outermost(paths: Iterable[Path]) -> list[Path]:
    """Each path, and where its links lead, unless another of them holds it: nothing can be mounted on a link in it."""
    every = {found for path in paths for found in (path, _resolved(path))}
    return sorted(path for path in every if not _below(path, every))


def _below(path: Path, parents: Iterable[Path]) -> bool:
    return any(parent in path.parents for parent in parents)
