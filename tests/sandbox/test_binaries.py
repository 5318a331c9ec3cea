"""Which binary is used: from PATH, built earlier, or built now. Go is played by a script, the rest is real."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

from engine.findings import Problems
from sandbox import binaries, gobuild, tools
from sandbox.layout import Layout
from sandbox.tools import TOOLS, OnPath, Tool, printed_version, tool

pytestmark = pytest.mark.process

# Says its version; `build` runs $FAKE_BUILD and writes the program, `list` names a module's folder.
GO = """\
#!/bin/sh
case "$1" in
  version) echo "go version go${FAKE_GO:-1.26.9} linux/amd64" ;;
  build) [ -z "$FAKE_BUILD" ] || eval "$FAKE_BUILD" || exit 1
     while [ "$1" != -o ]; do shift; done; echo "built in $(pwd)" > "$2"; echo x >> "$FAKE_COUNT" ;;
  list) echo "$FAKE_MODULE" ;;
esac
"""


def program(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)
    return path


def prints(text: str) -> str:
    return f"#!/bin/sh\necho '{text}'\n"


@pytest.fixture
def wrappers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wrapper module `one`, a fake Go first on PATH, and nothing else that could be taken for a tool."""
    folder = tmp_path / "go"
    (folder / "one").mkdir(parents=True)
    (folder / "one" / "go.mod").write_text("module one\n\ngo 1.26.6\n")
    (folder / "one" / "go.sum").write_text("sums\n")
    (tmp_path / "module" / "cluster" / "crds").mkdir(parents=True)
    (tmp_path / "module" / "cluster" / "crds" / "a.yaml").write_text("kind: A\n")
    monkeypatch.setattr(gobuild, "WRAPPERS", folder)
    monkeypatch.setenv("PATH", f"{program(tmp_path / 'path', 'go', GO).parent}:/usr/bin:/bin")
    monkeypatch.setenv("FAKE_COUNT", str(tmp_path / "count"))
    monkeypatch.setenv("FAKE_MODULE", str(tmp_path / "module"))
    printed_version.cache_clear()
    return folder


ONE = Tool("one", "one", ".", 10, assets=(("crds", "example.org/one", "cluster/crds"),))


def builds(tmp_path: Path) -> int:
    count = tmp_path / "count"
    return len(count.read_text().splitlines()) if count.exists() else 0


def test_a_tool_is_built_once_and_its_assets_lie_beside_it(layout: Layout, wrappers: Path, tmp_path: Path) -> None:
    said: list[str] = []
    gobuild.build(layout, [ONE], said.append)
    gobuild.build(layout, [ONE], said.append)
    found = gobuild.built(layout, ONE)
    assert found
    assert found.parent.name == f"one-{gobuild.source_address(ONE)}-go1.26.9"
    assert found.read_text() == f"built in {wrappers / 'one'}\n"
    assert (found.parent / "crds" / "a.yaml").read_text() == "kind: A\n"
    assert builds(tmp_path) == 1
    assert said == [
        "building 1 binaries with go1.26.9, once (about 1 min on 2 cores when cold)",
        "[1/1] one (0% of the expected work done, 0 s so far)",
    ]


@pytest.mark.parametrize(
    "change",
    [
        lambda folder, _: (folder / "go.mod").write_text("module one\n\ngo 1.26.6\n\nrequire a v1\n"),
        lambda folder, _: (folder / "go.sum").write_text("other sums\n"),
        lambda folder, _: (folder / "main.go").write_text("package main\n"),
    ],
)
def test_a_changed_source_is_built_again(
    layout: Layout, wrappers: Path, tmp_path: Path, change: Callable[[Path, None], object]
) -> None:
    gobuild.build(layout, [ONE], lambda _: None)
    change(wrappers / "one", None)
    assert gobuild.built(layout, ONE) is None
    gobuild.build(layout, [ONE], lambda _: None)
    assert builds(tmp_path) == 2


def test_flags_and_package_belong_to_the_address(wrappers: Path) -> None:
    variants = [
        ONE,
        Tool("one", "one", "./other", 10, assets=ONE.assets),
        Tool("one", "one", ".", 10, lambda: "-X a=b", assets=ONE.assets),
    ]
    assert len({gobuild.source_address(variant) for variant in variants}) == 3


def test_another_toolchain_is_no_reason_to_build_again(
    layout: Layout, wrappers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gobuild.build(layout, [ONE], lambda _: None)
    monkeypatch.setenv("FAKE_GO", "1.27.3")
    printed_version.cache_clear()
    gobuild.build(layout, [ONE], lambda _: None)
    assert builds(tmp_path) == 1


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (
            "echo go: downloading x; echo main.go:3: undefined: y",
            "error: build of one: main.go:3: undefined: y; run the same command again: it goes on where it stopped",
        ),
        (
            "echo compile: write: no space left on device",
            "error: build of one: no space left on device; free some space, or set SPECULATION_CACHE, GOCACHE and "
            "GOMODCACHE",
        ),
        (
            "echo go: a@v1: Get https://x: dial tcp: lookup x: no such host",
            "error: build of one: go: a@v1: Get https://x: dial tcp: lookup x: no such host; the Go module proxy must "
            "be reachable once (see `go help goproxy`); then run the same command again",
        ),
    ],
)
def test_a_failed_build_is_one_line_and_leaves_nothing(
    layout: Layout, wrappers: Path, monkeypatch: pytest.MonkeyPatch, output: str, expected: str
) -> None:
    monkeypatch.setenv("FAKE_BUILD", f"{{ {output}; false; }}")
    with pytest.raises(Problems) as raised:
        gobuild.build(layout, [ONE], lambda _: None)
    assert str(raised.value) == expected
    assert [path.name for path in layout.binaries.iterdir()] == [".lock"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_build_leaves_no_half_binary_and_the_next_one_completes(
    layout: Layout, wrappers: Path, tmp_path: Path, number: signal.Signals
) -> None:
    script = textwrap.dedent(f"""
        from pathlib import Path
        from sandbox import gobuild
        from sandbox.layout import Layout
        from sandbox.tools import Tool
        gobuild.WRAPPERS = Path({str(wrappers)!r})
        gobuild.build(Layout.from_env(), [Tool("one", "one", ".", 10, assets={ONE.assets!r})], print)
    """)
    env = {**os.environ, **layout.env(), "FAKE_BUILD": "sleep 30", "PYTHONUNBUFFERED": "1"}
    child = subprocess.Popen(
        [sys.executable, "-c", script],
        env=env,
        cwd=layout.repository,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert child.stdout
        assert b"building 1" in child.stdout.readline()
        assert b"[1/1] one" in child.stdout.readline()
        time.sleep(0.2)
        child.send_signal(number)
        child.wait(10)
    finally:
        child.kill()
    assert gobuild.built(layout, ONE) is None
    gobuild.build(layout, [ONE], lambda _: None)
    assert gobuild.built(layout, ONE)
    assert not list(layout.binaries.glob(".making-*"))


def test_two_builds_at_once_build_once(
    layout: Layout, wrappers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_BUILD", "sleep 0.5")
    said: list[str] = []
    first = threading.Thread(target=gobuild.build, args=(layout, [ONE], lambda _: None))
    first.start()
    time.sleep(0.2)
    gobuild.build(layout, [ONE], said.append)
    first.join()
    assert builds(tmp_path) == 1
    assert said == ["another command is building the binaries: waiting for it"]


@pytest.mark.parametrize("on_path", ["1.26.5", "1.9.9"])
def test_a_go_that_is_too_old_is_not_used(wrappers: Path, monkeypatch: pytest.MonkeyPatch, on_path: str) -> None:
    monkeypatch.setenv("FAKE_GO", on_path)
    printed_version.cache_clear()
    monkeypatch.setattr(sys, "executable", str(wrappers / "bin" / "python"))
    (wrappers / "bin").mkdir()
    with pytest.raises(Problems, match=r"^error: Go toolchain: .*install Go 1\.26\.6 or newer from https://go\.dev/dl"):
        gobuild.toolchain(lambda _: None)


def test_the_go_of_the_python_environment_is_used_when_path_has_none(
    wrappers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = program(wrappers / "bin", "go", prints("go version go1.27.3 linux/amd64"))
    monkeypatch.setattr(sys, "executable", str(own.with_name("python")))
    monkeypatch.setenv("PATH", "/nowhere")
    assert gobuild.toolchain(lambda _: None) == gobuild.Toolchain(own, "go1.27.3")


RANGES = [
    # tool, what it prints, used
    ("etcd", "etcd Version: 3.5.7", False),
    ("etcd", "etcd Version: 3.5.8", True),
    ("etcd", "etcd Version: 3.6.16\nGo Version: go1.26.8", True),
    ("etcd", "etcd Version: 4.0.0", False),
    ("kube-apiserver", "Kubernetes v1.36.3", True),
    ("kube-apiserver", "Kubernetes v1.35.9", False),
    ("kube-apiserver", "Kubernetes v0.0.0-master+$Format:%H$", False),
    ("kubectl", "Client Version: v1.32.4-dispatcher\nKustomize Version: v5.5.0", False),
    ("kubectl", "Client Version: v1.35.0", True),
    ("kubectl", "Client Version: v1.37.1", True),
    ("kubectl", "Client Version: v1.38.0", False),
    ("kwok", "kwok version v0.7.0 go1.26.8 (linux/amd64)", True),
    ("kwok", "kwok version v0.8.0", False),
    ("pulumi", "v3.199.0", False),
    ("pulumi", "v3.274.1", True),
    ("pulumi", "v4.0.0", False),
    ("crossplane", "v2.3.4", False),
    ("provider-kubernetes", "v1.2.1", False),
    ("pulumi-resource-kubernetes", "4.34.2", False),
]


@pytest.mark.parametrize(("name", "output", "used"), RANGES)
def test_what_is_on_path_is_used_in_a_fitting_version_only(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, output: str, *, used: bool
) -> None:
    found = program(tmp_path / "path", name, prints(output))
    for beside in ("pulumi-language-python", "pulumi-resource-pulumi-python"):
        program(tmp_path / "path", beside, prints(""))
    monkeypatch.setenv("PATH", str(found.parent))
    printed_version.cache_clear()
    assert binaries.on_path(layout, tool(name)) == (found if used else None)


def test_a_pulumi_without_its_hosts_is_not_used(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(program(tmp_path / "path", "pulumi", prints("v3.274.1")).parent))
    printed_version.cache_clear()
    assert binaries.on_path(layout, tool("pulumi")) is None


def test_a_program_that_fails_or_hangs_when_asked_for_its_version_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "_VERSION_SECONDS", 0.2)
    rule = OnPath(("--version",), (1, 0, 0), (2, 0, 0), "")
    assert not rule.fits(program(tmp_path, "fails", "#!/bin/sh\necho 1.2.3; exit 1\n"))
    assert not rule.fits(program(tmp_path, "hangs", "#!/bin/sh\nexec sleep 5\n"))
    assert not rule.fits(program(tmp_path, "other", "not a program"))


def test_the_sandboxs_own_shell_does_not_count_as_path(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    program(layout.bin, "kubectl", prints("Client Version: v1.36.3"))
    monkeypatch.setenv("PATH", str(layout.bin))
    assert binaries.on_path(layout, tool("kubectl")) is None


def test_a_missing_binary_is_one_line(layout: Layout) -> None:
    with pytest.raises(Problems) as raised:
        binaries.installed(layout, "etcd")
    assert str(raised.value) == "error: binary etcd: not in place; run `python -m sandbox up`"


def test_ensure_links_what_it_chose(layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = program(tmp_path / "path", "kubectl", prints("Client Version: v1.36.0"))
    monkeypatch.setenv("PATH", f"{found.parent}:/usr/bin:/bin")
    printed_version.cache_clear()
    binaries.ensure(layout, lambda _: None, ["kubectl"])
    assert binaries.installed(layout, "kubectl") == str(found)


def test_every_tool_of_the_table_has_its_wrapper_module_with_sums() -> None:
    for item in TOOLS:
        folder = tools.WRAPPERS / item.module
        assert (folder / "go.mod").is_file(), item.name
        assert (folder / "go.sum").is_file(), item.name
        assert item.package != "." or (folder / "main.go").is_file(), item.name
    assert gobuild.needed_go() >= (1, 26)


def test_the_provider_has_the_version_of_its_sdk() -> None:
    assert tools.provider_version() == version("pulumi-kubernetes")


def test_bubblewrap_is_there() -> None:
    done = subprocess.run([binaries.bubblewrap(), "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("bubblewrap ")
