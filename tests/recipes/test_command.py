"""`python -m recipes check`: what it prints and how it exits."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from modelplane.releases import REFUSED, Release
from recipes import load_recipe
from recipes.__main__ import main
from tests.recipes.test_check import RECIPE, renamed, write


def test_a_deployable_recipe_is_printed_as_manifests_that_kubectl_takes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "smollm2-135m-spec"]) == 0
    output = capsys.readouterr()
    assert tuple(yaml.safe_load_all(output.out)) == load_recipe("smollm2-135m-spec").manifests
    assert output.out.endswith("# deployable\n")
    assert output.err == ""


def test_findings_are_printed_as_comments_with_their_severity(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    documents = [renamed("3b")[0], {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml-team"}}]
    assert main(["check", str(write(tmp_path, documents))]) == 1
    output = capsys.readouterr().out
    assert list(yaml.safe_load_all(output)) == [documents[0]]
    comments = [line for line in output.splitlines() if line.startswith("#")]
    assert [line.split()[1] for line in comments] == ["info:", "error:", "not"]
    assert comments[-1] == "# not deployable: 1 error"


def test_the_json_document_says_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(write(tmp_path, renamed("3b"))), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document == {
        "release": "v0.3.1",
        "deployable": False,
        "findings": [
            {
                "severity": "error",
                "path": "ModelDeployment/ml-team/3b: metadata.name",
                "value": "3b",
                "why": "begins the names of Services, which are lower case letters, digits and hyphens "
                "and begin with a letter",
                "remedy": "rename it",
            }
        ],
        "manifests": renamed("3b"),
    }


def test_release_0_3_0_is_refused_with_its_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(write(tmp_path, RECIPE))
    assert main(["check", file, "--release", "v0.3.0"]) == 1
    assert REFUSED[Release.V0_3_0] in capsys.readouterr().err
    assert main(["check", file, "--release", "v0.3.0", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["findings"][0]["path"] == "release"


@pytest.mark.parametrize("release", ["v0.1.0", "v0.2.0", "v0.3.1"])
def test_a_recipe_is_deployable_whatever_release_it_was_written_for(tmp_path: Path, release: str) -> None:
    assert main(["check", str(write(tmp_path, RECIPE)), "--release", release]) == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["check", "nosuch"],
            "error: recipe: nosuch: there is no such file, and no recipe of this name; "
            "give a path, or one of qwen3-8b-baseline, qwen3-8b-spec, smollm2-135m-spec\n",
        ),
        (
            ["check", "/"],
            "error: recipe: /: is a folder; "
            "give a path, or one of qwen3-8b-baseline, qwen3-8b-spec, smollm2-135m-spec\n",
        ),
        (
            ["check", "qwen3-8b-spec", "--release", "v9"],
            "error: release: v9: is not a release of Modelplane known here; use one of v0.1.0, v0.2.0, v0.3.1\n",
        ),
    ],
)
def test_wrong_usage_is_one_line_and_exits_2(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    output = capsys.readouterr()
    assert (output.out, output.err) == ("", said)


@pytest.mark.parametrize("arguments", [[], ["check"], ["deploy"], ["check", "a", "--what"]])
def test_an_unknown_command_line_exits_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        main(arguments)
    assert exited.value.code == 2
    assert "usage: python -m recipes" in capsys.readouterr().err


def test_a_file_that_is_no_text_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF\xff\xfe")
    assert main(["check", str(file)]) == 2
    assert capsys.readouterr().err == f"error: recipe: {file}: cannot be read: is not UTF-8 text; give another file\n"


def test_the_command_runs_as_a_module_and_survives_a_closed_pipe() -> None:
    command = f"{sys.executable} -m recipes check qwen3-8b-spec | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("apiVersion: modelplane.ai/v1alpha1\n", "")
