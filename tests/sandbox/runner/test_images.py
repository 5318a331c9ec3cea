import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from sandbox import images
from sandbox.layout import Layout

POD_IP = "127.20.0.7"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return replace(Layout.from_env({}), home=tmp_path, cache=tmp_path / "cache")


def started(image: images.Image, folder: Path, *words: str, env: dict[str, str] | None = None) -> list[str]:
    """What a command of the image becomes: variables that matter, then the words that would be run."""
    for name, script in image.programs.items():
        # `exec` becomes a program that tells.
        tell = f'exec env PYTHONPATH="$PYTHONPATH" {folder}/tell '
        (folder / name).write_text(script.replace("exec ", tell))
        (folder / name).chmod(0o755)
    (folder / "tell").write_text(
        '#!/bin/sh\necho "$ENGINE_VERSION"; echo "$SANDBOX_POD_ADDRESS"; for word; do echo "$word"; done\n'
    )
    (folder / "tell").chmod(0o755)
    path = {"PATH": f"{folder}:/usr/bin:/bin"}
    result = subprocess.run(words, env=path | (env or {}), capture_output=True, text=True, check=False, cwd=folder)
    return (
        result.stdout.splitlines()[:2] + result.stdout.splitlines()[3:] if result.returncode == 0 else [result.stderr]
    )


@pytest.mark.parametrize(
    ("reference", "kind", "module", "version"),
    [
        ("vllm/vllm-openai:v0.23.0", "real", "fake", "0.23.0"),
        ("docker.io/vllm/vllm-openai:v0.23.0@sha256:abc", "real", "fake", "0.23.0"),
        ("vllm/vllm-openai-cpu:v0.32.0", "fake", "fake", "0.32.0"),
        ("vllm/vllm-openai-cpu:v0.32.0", "real", "real", "0.32.0"),
        ("vllm/vllm-openai:v0.8.5.post1", "fake", "fake", "0.8.5.post1"),
    ],
)
def test_an_engine_image_is_an_engine_that_listens_at_the_pods_address(
    layout: Layout, tmp_path: Path, reference: str, kind: str, module: str, version: str
) -> None:
    layout.engine_file.write_text(kind)
    image = images.find(reference, layout, POD_IP)
    assert image is not None and image.entrypoint == ("vllm", "serve")
    expected = [version, POD_IP, "-m", f"sandbox.engines.{module}", "--model=m", "--host=0.0.0.0", "--host", POD_IP]
    assert started(image, tmp_path, "vllm", "serve", "--model=m", "--host=0.0.0.0") == expected
    server = ("python3", "-m", "vllm.entrypoints.openai.api_server")
    assert started(image, tmp_path, *server, "--model=m", "--host=0.0.0.0") == expected
    assert started(image, tmp_path, "sh", "-c", "vllm serve --model=m --host=0.0.0.0") == expected


def test_vllm_without_serve_is_refused(layout: Layout, tmp_path: Path) -> None:
    image = images.find("vllm/vllm-openai:v0.23.0", layout, POD_IP)
    assert image is not None
    assert started(image, tmp_path, "vllm", "bench") == ["vllm: the sandbox only knows vllm serve\n"]


def test_a_python_image_is_an_interpreter_without_the_projects_packages(layout: Layout, tmp_path: Path) -> None:
    image = images.find("python:3.13-slim", layout, POD_IP)
    assert image is not None and (image.entrypoint, image.command) == ((), ("python3",))
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "python3").write_text(image.programs["python3"])
    (folder / "python3").chmod(0o755)
    code = (
        "import importlib.util, socket; s = socket.socket(); s.bind(('', 0)); print(s.getsockname()[0]);"
        "d = socket.create_server(('::', 0), family=socket.AF_INET6, dualstack_ipv6=True); print(d.getsockname()[0]);"
        "print(importlib.util.find_spec('lightkube'), importlib.util.find_spec('sandbox'))"
    )
    result = subprocess.run(
        ["python3", "-c", code], env={"PATH": f"{folder}:/bin"}, capture_output=True, text=True, check=True, cwd="/"
    )
    assert result.stdout.splitlines() == [POD_IP, f"::ffff:{POD_IP}", "None None"]


@pytest.mark.parametrize(
    "reference", ["vllm/vllm-openai-xpu:v0.23.0", "busybox", "ghcr.io/other/python:3.13", "lmsysorg/sglang:v0.5"]
)
def test_an_unknown_image_is_unknown(layout: Layout, reference: str) -> None:
    assert images.find(reference, layout, POD_IP) is None


def test_the_endpoint_picker_is_a_process_that_waits(layout: Layout) -> None:
    image = images.find("ghcr.io/llm-d/llm-d-router-endpoint-picker:v0.9.0", layout, POD_IP)
    assert image is not None and image.entrypoint == ("epp",)


def test_an_engine_is_real_unless_the_sandbox_says_fake(layout: Layout) -> None:
    assert images.engine_kind(layout) == "real"
    layout.engine_file.write_text("fake\n")
    assert images.engine_kind(layout) == "fake"
