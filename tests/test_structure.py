"""The layout's promises: who may import whom, small files, and a project that speaks of itself alone."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("engine", "modelplane", "pages", "recipes", "stacks", "components", "validation", "bench", "sandbox")
# A folder with rules of its own: it does not travel with its package, so it may use what travels nowhere.
COMMANDS = "validation/commands"

# A package may import itself and these; nothing imports the sandbox.
MAY_IMPORT = {
    "engine": set(),
    "modelplane": {"engine"},
    "pages": set(),
    "recipes": {"engine", "modelplane"},
    "stacks": {"engine", "modelplane", "recipes"},
    "validation": {"engine"},
    COMMANDS: {"engine", "pages", "components", "validation"},
    "bench": {"engine"},
    "components": {"engine", "modelplane", "recipes", "stacks", "validation"},
    "sandbox": {"engine", "modelplane"},
}

# The first two travel into the validation Job, whose image has nothing but Python.
STANDARD_LIBRARY_ONLY = ("engine", "validation", "pages")

# A file longer than this has two purposes (golden data and generated files aside).
MAX_LINES = 400


def tracked(suffix: str) -> list[Path]:
    listing = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / line for line in listing.splitlines() if line.endswith(suffix) and (ROOT / line).is_file()]


def files_of(package: str) -> list[Path]:
    """The sources of a package or of COMMANDS, which is not counted to its package."""
    names = {path: path.relative_to(ROOT).as_posix() for path in tracked(".py")}
    of = {path: COMMANDS if name.startswith(f"{COMMANDS}/") else name.split("/")[0] for path, name in names.items()}
    files = [path for path in of if of[path] == package]
    assert files, f"no files in {package}/"
    return files


def imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module.split(".")[0])
    return found


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_a_package_imports_only_those_it_may(package: str) -> None:
    files = files_of(package)
    allowed = MAY_IMPORT[package] | {package}
    wrong = {str(path.relative_to(ROOT)): imported(path) & set(PACKAGES) - allowed for path in files}
    assert {path: packages for path, packages in wrong.items() if packages} == {}


@pytest.mark.parametrize("package", STANDARD_LIBRARY_ONLY)
def test_a_package_of_the_standard_library_needs_nothing_but_python(package: str) -> None:
    known = set(sys.stdlib_module_names) | set(STANDARD_LIBRARY_ONLY)
    wrong = {str(path.relative_to(ROOT)): imported(path) - known for path in files_of(package)}
    assert {path: modules for path, modules in wrong.items() if modules} == {}


def test_files_stay_small() -> None:
    long = {str(p.relative_to(ROOT)): n for p in tracked(".py") if (n := len(p.read_text().splitlines())) > MAX_LINES}
    assert long == {}


def test_no_host_of_a_language_package_registry_is_written_down() -> None:
    # Joined here so that this file does not write them down either.
    hosts = [".".join(parts) for parts in (("pypi", "org"), ("pythonhosted", "org"), ("proxy", "golang", "org"),
             ("sum", "golang", "org"), ("registry", "npmjs", "org"), ("crates", "io"))]  # fmt: skip
    pattern = re.compile("|".join(re.escape(host) for host in hosts))
    listing = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    wrong = [
        name
        for name in listing.splitlines()
        if (ROOT / name).is_file() and pattern.search((ROOT / name).read_text(errors="replace"))
    ]
    assert wrong == []


def test_every_requirement_is_pinned_exactly() -> None:
    lines = [line.split("#")[0].strip() for line in (ROOT / "requirements.txt").read_text().splitlines()]
    assert [line for line in lines if line and "==" not in line] == []


def test_documents_link_to_what_is_there() -> None:
    link = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
    wrong = [
        f"{path.relative_to(ROOT)}: {target}"
        for path in tracked(".md")
        for target in link.findall(path.read_text())
        if "://" not in target and not (path.parent / target).exists()
    ]
    assert wrong == []


def test_no_placeholder_is_left_in_a_document() -> None:
    assert [str(path.relative_to(ROOT)) for path in tracked(".md") if re.search(r"@@|TODO|TBD", path.read_text())] == []
