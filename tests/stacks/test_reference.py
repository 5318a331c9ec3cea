"""The configuration reference says what the code reads."""

from __future__ import annotations

from pathlib import Path

import yaml

from stacks.reference import configuration_reference
from stacks.schema import SECTIONS, TEXT_KEYS

ROOT = Path(__file__).resolve().parents[2]


def test_the_reference_in_docs_is_the_generated_one() -> None:
    text = (ROOT / "docs" / "configuration.md").read_text()
    assert text == configuration_reference(), "run `python -m stacks.settings > docs/configuration.md`"


def test_every_stack_file_uses_known_keys_and_no_default_provider() -> None:
    files = sorted((ROOT / "stacks").glob("Pulumi.*.yaml"))
    assert files
    for file in files:
        config = yaml.safe_load(file.read_text())["config"]
        keys = {key.split(":")[1] for key in config if key.startswith("speculation:")}
        assert keys <= {*TEXT_KEYS, *SECTIONS}, file.name
        assert config["pulumi:disable-default-providers"] == ["kubernetes"], file.name
