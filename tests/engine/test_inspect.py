from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import zipapp
from pathlib import Path

import pytest

import engine
from engine.__main__ import main
from engine.inspect import Inspection, Outcome, Witness, inspect
from tests.engine.samples import DATA, own, sample
from tests.engine.test_log import INIT, NGRAM5
from tests.engine.test_metrics import ZERO, Engines, page

ON = f"{INIT.replace('{}', NGRAM5)}\nINFO:     Application startup complete."
OFF = f"{INIT.replace('{}', 'None')}\nINFO:     Application startup complete."
WORKED: Engines = {"0": (100, 200, [90, 60], 260)}
K3 = {"speculative_config": {"method": "ngram", "num_speculative_tokens": 3}}
ARGS = "(APIServer pid=1) INFO 03-02 09:15:01 [utils.py:1] non-default args: {}"


def test_a_log_and_two_scrapes_that_agree_prove_speculation() -> None:
    found = inspect(ON, (page(ZERO, model="m"), page(WORKED, model="m")))
    assert found == Inspection(
        outcome=Outcome.ON,
        witnesses=(
            Witness("start-up line", "on", f"speculative_config={NGRAM5}"),
            Witness("periodic lines", "unknown", "no SpecDecoding line"),
            Witness("metrics", "on", "100 drafts, 200 tokens drafted, 150 accepted"),
        ),
        facts=(
            ("engine", "vLLM 0.23.0, model m"),
            ("generated", "260 tokens, 0 requests finished"),
            ("acceptance", "75.0% of drafted tokens, mean acceptance length 2.50 (drafted steps only)"),
            ("all steps", "2.36 tokens a step, 96.2% of tokens from drafted steps"),
        ),
        problems=(),
    )


@pytest.mark.parametrize(
    ("log", "scrapes", "outcome", "problems"),
    [
        (ON, None, Outcome.ON, ()),
        (OFF, None, Outcome.OFF, ()),
        ("", None, Outcome.UNKNOWN, ()),
        (ARGS.replace("{}", "{'speculative_config': {'method': 'ngram'}}"), None, Outcome.UNKNOWN, ()),
        ("", (page(ZERO), page(WORKED)), Outcome.ON, ()),
        ("", (page(ZERO, speculates=False),) * 2, Outcome.OFF, ()),
        ("", ("", ""), Outcome.UNKNOWN, ()),
        (OFF, (page(ZERO, model="m"), page(WORKED, model="m")), Outcome.CONTRADICTION, ()),
        (ON, (page(ZERO, model="m", speculates=False),) * 2, Outcome.CONTRADICTION, ()),
        (
            ON,
            (page(ZERO, model="m"), page({"0": (0, 0, [0, 0], 99)}, model="m")),
            Outcome.INERT,
            ("speculation is on, but nothing was drafted",),
        ),
        (
            f"{ARGS}\n{ON}",
            None,
            Outcome.CONTRADICTION,
            ("the args do not ask for speculation, and the engine started with speculation on",),
        ),
        (f"{ARGS.replace('{}', '{Config(x=1)}')}\n{ON}", None, Outcome.ON, ()),
        (
            f"{ARGS.replace('{}', repr(K3))}\n{ON}",
            None,
            Outcome.CONTRADICTION,
            ("the args ask for k=3, and the engine started with k=5",),
        ),
        (
            ON.replace("ngram", "suffix")
            + ARGS.replace("(", "\n(").replace(
                "{}", repr({"speculative_config": {"method": "ngram", "num_speculative_tokens": 5}})
            ),
            None,
            Outcome.CONTRADICTION,
            ("the args ask for method ngram, and the engine started with suffix",),
        ),
        (
            ON,
            (page(ZERO, model="m"), page({"0": (10, 90, [9, 9], 99)}, model="m")),
            Outcome.CONTRADICTION,
            ("90 tokens drafted in 10 drafts of at most 5",),
        ),
    ],
)
def test_the_outcome_follows_from_the_witnesses(
    log: str, scrapes: tuple[str, str] | None, outcome: Outcome, problems: tuple[str, ...]
) -> None:
    found = inspect(log, scrapes)
    assert (found.outcome, found.problems) == (outcome, problems)


def test_e17_little_coverage_is_on_and_not_off() -> None:
    found = inspect(ON, (page(ZERO, model="m"), page({"0": (4, 8, [2, 0], 600)}, model="m")))
    assert found.outcome is Outcome.ON
    assert dict(found.facts)["all steps"] == "1.00 tokens a step, 1.0% of tokens from drafted steps"


def test_a_restart_between_the_scrapes_leaves_the_log_as_witness() -> None:
    found = inspect(ON, (page(WORKED, model="m"), page(ZERO, model="m")))
    assert found.outcome is Outcome.ON
    assert found.witnesses[2].says == "unknown"


def test_a_dead_engine_is_shown_with_its_cause() -> None:
    found = inspect(own("dies-kv-cache.log"))
    assert found.outcome is Outcome.ON
    assert found.text().endswith(
        "cause: a context of 40960 tokens needs 5.62 GiB of KV cache and 3.10 GiB are there; set --max-model-len to at "
        "most 22560\nspeculation: on"
    )


def test_an_engine_that_dies_while_serving_is_shown_with_its_cause() -> None:
    log = f"{ON}\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 892.00 MiB\nEngineDeadError: x"
    found = inspect(log)
    assert found.cause is not None
    assert (found.error, found.cause.id) == (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 892.00 MiB",
        "gpu-out-of-memory",
    )
    assert inspect(f"{ON}\nValueError: of one request").error is None


@pytest.mark.parametrize(
    ("name", "code", "shown"),
    [
        (
            "0.11.2-ngram.log",
            0,
            "on: speculative_config=SpeculativeConfig(method='ngram', model=None, num_spec_tokens=4)",
        ),
        ("0.23.0-two-engines.log", 0, "method ngram, k=3, n-grams of 2 to 4 tokens"),
        ("dies-loading.log", 1, "the log ends while the weights are loading"),
        ("dies-unknown-argument.log", 3, "last error: vllm serve: error: unrecognized arguments"),
        ("no-such-file.log", 2, ""),
    ],
)
def test_the_command_line_prints_and_exits_as_it_says(
    name: str, code: int, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(DATA / name)]) == code
    printed = capsys.readouterr()
    assert shown in printed.out
    assert ("No such file" in printed.err) == (code == 2)


def test_the_log_may_come_from_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(OFF.encode())))
    assert main(["inspect", "-"]) == 1
    assert capsys.readouterr().out.endswith("speculation: off\n")


@pytest.mark.parametrize("argv", [[], ["look"], ["inspect"], ["inspect", "a", "--metrics", "b"]])
def test_wrong_usage_exits_with_2(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main(argv)
    assert raised.value.code == 2
    assert "usage" in capsys.readouterr().err


def test_the_real_samples_prove_what_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(kind: str) -> tuple[int, dict[str, object]]:
        after = sample(f"0.32.0-{kind}.metrics.txt")
        files = {"log": sample(f"0.32.0-{kind}.log"), "after": after}
        # The counters of a fresh engine: the same page with every total at zero.
        files["before"] = re.sub(r"(?m)^(vllm:\w+_total\{[^}]*\}) .*", r"\1 0.0", after)
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        names = [str(tmp_path / name) for name in ("log", "before", "after")]
        code = main(["inspect", names[0], "--metrics", *names[1:], "--json"])
        return code, json.loads(capsys.readouterr().out)

    assert run("ngram") == (
        0,
        {
            "outcome": "on",
            "witnesses": [
                {"name": "start-up line", "says": "on", "evidence": f"speculative_config={NGRAM5}"},
                {
                    "name": "periodic lines",
                    "says": "on",
                    "evidence": "2 SpecDecoding lines, 540 tokens drafted, 363 accepted",
                },
                {"name": "metrics", "says": "on", "evidence": "108 drafts, 540 tokens drafted, 363 accepted"},
            ],
            "facts": {
                "engine": "vLLM 0.32.0, model smol",
                "args": "method ngram, k=5, n-grams of 2 to 4 tokens",
                "model runner": "V1",
                "async scheduling": "off",
                "KV cache": "46592 tokens (CPU)",
                "generated": "480 tokens, 3 requests finished",
                "acceptance": "67.2% of drafted tokens, mean acceptance length 4.36 (drafted steps only)",
                "all steps": "4.10 tokens a step, 98.1% of tokens from drafted steps",
            },
            "problems": [],
            "error": None,
            "cause": None,
        },
    )
    code, baseline = run("baseline")
    assert (code, baseline["outcome"], baseline["problems"], baseline["error"]) == (1, "off", [], None)


def test_it_runs_from_a_zipapp_with_the_standard_library_alone(tmp_path: Path) -> None:
    package = Path(engine.__file__).parent
    source = tmp_path / "source"
    (source / "engine").mkdir(parents=True)
    for path in package.glob("*.py"):
        (source / "engine" / path.name).write_text(path.read_text())
    modules = [f"engine.{path.stem}" for path in package.glob("*.py") if path.stem not in ("__init__", "__main__")]
    (source / "__main__.py").write_text(
        f"import importlib, sys\nfor name in {modules!r}: importlib.import_module(name)\n"
        "from engine.__main__ import main\nsys.exit(main(sys.argv[1:]))\n"
    )
    archive = tmp_path / "engine.pyz"
    zipapp.create_archive(source, archive)
    # -I -S: no site-packages, no current directory.
    command = [sys.executable, "-I", "-S", str(archive), "inspect", str(DATA / "0.11.2-ngram.log")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("speculation: on\n")
