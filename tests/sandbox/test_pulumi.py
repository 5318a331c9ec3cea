"""Plain `pulumi` in the sandbox's shell: real CLI and real Kubernetes provider with our hosts, on a real cluster."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox import binaries, procfs, pulumi_home
from sandbox.layout import Layout
from tests.sandbox.kubectl import Kubectl, eventually

pytestmark = [pytest.mark.sandbox, pytest.mark.timeout(180)]

PROGRAM = """
import os
import pulumi
import helper
from pulumi_kubernetes import Provider
from pulumi_kubernetes.apiextensions import CustomResource

config = pulumi.Config()
print("in", os.getcwd())
provider = Provider("workload", kubeconfig=open(os.environ["KUBECONFIG_WORKLOAD"]).read())
CustomResource(
    "lease", api_version="coordination.k8s.io/v1", kind="Lease",
    metadata={"name": "by-pulumi", "namespace": "default"}, spec={"holderIdentity": "42"},
    opts=pulumi.ResourceOptions(provider=provider),
)
waited = helper.Waiting("waiting", seconds=config.get_int("seconds") or 0)
pulumi.export("done", waited.done)
if config.get("fault") == "run":
    raise pulumi.RunError("error: settings.a: wrong; remedy a\\nerror: settings.b: wrong; remedy b")
if config.get("fault") == "bug":
    helper.bug()
"""
HELPER = """
import time
import pulumi
from pulumi.dynamic import CreateResult, Resource, ResourceProvider

class Waits(ResourceProvider):
    def create(self, props):
        time.sleep(props["seconds"])
        return CreateResult("waited", {"done": True})

class Waiting(Resource):
    done: pulumi.Output[bool]
    def __init__(self, name, seconds):
        super().__init__(Waits(), name, {"seconds": seconds, "done": None})

def bug():
    {}["absent"]
"""


class Project:
    """A project folder and its stack `test`."""

    def __init__(self, folder: Path, layout: Layout) -> None:
        self.folder, self.layout = folder, layout
        self.env = pulumi_home.environment(layout) | {"KUBECONFIG_WORKLOAD": str(layout.workload.kubeconfig)}
        for name, text in (("Pulumi.yaml", "{name: trial, runtime: python}"), ("__main__.py", PROGRAM)):
            (folder / name).write_text(text)
        (folder / "helper.py").write_text(HELPER)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        argv = ["pulumi", "--non-interactive", "--color=never", *arguments]
        pipe = subprocess.PIPE
        return subprocess.Popen(argv, cwd=self.folder, env=self.env, stdout=pipe, stderr=subprocess.STDOUT, text=True)

    def run(self, *arguments: str) -> tuple[int, str]:
        child = self.start(*arguments)
        output, _ = child.communicate(timeout=90)
        return child.returncode, output

    def __call__(self, *arguments: str) -> str:
        status, output = self.run(*arguments)
        assert status == 0, output
        return output


@pytest.fixture
def project(clusters: Layout, tmp_path: Path) -> Iterator[Project]:
    binaries.ensure(clusters, lambda _: None)
    pulumi_home.ensure(clusters)
    made = Project(tmp_path, clusters)
    made("stack", "init", "test")
    yield made
    made.run("cancel", "--yes")
    made.run("destroy", "--yes", "--skip-preview")
    made.run("stack", "rm", "test", "--yes", "--force")


def hosts(project: Project) -> list[str]:
    """Commands of language host, dynamic provider and Kubernetes provider that run for this project's folder."""
    found = []
    for item in procfs.stats():
        try:
            here = item.alive and Path(f"/proc/{item.pid}/cwd").readlink() == project.folder
        except OSError:
            continue
        command = procfs.command(item.pid)
        if here and ("_host.py" in command or "pulumi-resource-" in command):
            found.append(command)
    return found


def test_preview_up_and_destroy_work_without_a_warning(project: Project) -> None:
    output = project("preview") + project("up", "--yes", "--skip-preview")
    assert "warning" not in output
    assert f"in {project.folder}" in output
    assert Kubectl(project.layout).get("lease", "by-pulumi")["spec"] == {"holderIdentity": "42"}
    assert project("stack", "output", "done").strip() == "true"
    project("preview", "--expect-no-changes")
    output = project("destroy", "--yes", "--skip-preview")
    assert "warning" not in output
    assert Kubectl(project.layout).run("get", "lease", "by-pulumi").returncode == 1
    assert hosts(project) == []


@pytest.mark.parametrize(
    ("fault", "shown"),
    [
        ("run", ["error: settings.a: wrong; remedy a", "error: settings.b: wrong; remedy b"]),
        ("bug", ["error: Program failed with an unhandled exception:", "helper.bug()", "KeyError: 'absent'"]),
    ],
)
def test_a_programs_error_is_shown_once_without_frames_of_the_host(
    project: Project, fault: str, shown: list[str]
) -> None:
    project("config", "set", "fault", fault)
    status, output = project.run("preview")
    assert status != 0
    diagnostics = output[output.index("Diagnostics:") :]
    assert [diagnostics.count(line) for line in shown] == [1] * len(shown)
    assert "language_host" not in output
    assert "runpy" not in output


def test_ctrl_c_ends_an_up_quietly_and_leaves_no_host(project: Project) -> None:
    project("config", "set", "seconds", "4")
    child = project.start("up", "--yes", "--skip-preview")
    eventually(lambda: Kubectl(project.layout).run("get", "lease", "by-pulumi").returncode == 0)
    child.send_signal(signal.SIGINT)
    output, _ = child.communicate(timeout=60)
    assert child.returncode != 0
    assert "Traceback" not in output
    eventually(lambda: not hosts(project))


def test_kill_9_of_pulumi_leaves_no_host_behind_and_cancel_frees_the_stack(project: Project) -> None:
    project("config", "set", "seconds", "30")
    child = project.start("up", "--yes", "--skip-preview")
    eventually(lambda: Kubectl(project.layout).run("get", "lease", "by-pulumi").returncode == 0)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    eventually(lambda: not hosts(project))
    project("cancel", "--yes")
    project("config", "set", "seconds", "0")
    project("refresh", "--yes", "--skip-preview", "--clear-pending-creates")
    project("up", "--yes", "--skip-preview")


def test_a_refused_resource_is_said_once(project: Project) -> None:
    program = project.folder / "__main__.py"
    program.write_text(PROGRAM.replace('"coordination.k8s.io/v1"', '"v1"'))
    status, output = project.run("preview")
    assert status != 0
    diagnostics = output[output.index("Diagnostics:") :]
    assert diagnostics.count("error: ") == 1
    assert 'error: apiVersion does not have both a group and a version: "v1"' in diagnostics
