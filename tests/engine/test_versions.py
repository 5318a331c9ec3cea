from __future__ import annotations

from itertools import pairwise

import pytest

from engine.names import FLAGS, METHODS, METRICS, SPECULATIVE_KEYS, Presence, Span, presence
from engine.versions import (
    DIGESTS,
    NEWEST,
    TABLE,
    EngineVersion,
    Version,
    features_of,
    image_release,
    same_release,
)

PRESENT, ABSENT, OPEN = Presence.PRESENT, Presence.ABSENT, Presence.NOT_ESTABLISHED
DIGEST_23 = next(digest for digest, version in DIGESTS.items() if version == Version(0, 23))


@pytest.mark.parametrize(
    ("image", "number", "rules", "cpu", "why"),
    [
        ("vllm/vllm-openai:v0.23.0", "0.23.0", "0.23.0", False, None),
        ("vllm/vllm-openai:v0.11.2", "0.11.2", "0.11.2", False, None),
        ("vllm/vllm-openai:v0.11.2-x86_64", "0.11.2", "0.11.2", False, None),
        ("vllm/vllm-openai-cpu:v0.32.0", "0.32.0", "0.32.0", True, None),
        ("registry.example:5000/mirror/vllm-openai:0.33.0@sha256:00", "0.33.0", "0.33.0", False, None),
        (f"vllm/vllm-openai@{DIGEST_23}", "0.23.0", "0.23.0", False, None),
        ("vllm/vllm-openai:v0.21.1rc2", "0.21.1", "0.20.0", False, "info"),
        ("vllm/vllm-openai:v0.34.0", "0.34.0", "0.33.0", False, "warning"),
        ("vllm/vllm-openai:v1.0.0", "1.0.0", "0.33.0", False, "warning"),
        ("vllm/vllm-openai:v0.8.5", "0.8.5", "0.11.0", False, "warning"),
        ("vllm/vllm-openai:latest", None, "0.33.0", False, "warning"),
        ("vllm/vllm-openai", None, "0.33.0", False, "warning"),
        ("vllm/vllm-openai@sha256:1234", None, "0.33.0", False, "warning"),
        ("", None, "0.33.0", False, "warning"),
        ("lmsysorg/sglang:v0.5.0", "0.5.0", "0.11.0", False, "warning"),
    ],
)
def test_an_image_names_the_rules_that_hold(
    image: str, number: str | None, rules: str, cpu: bool, why: str | None
) -> None:
    version = EngineVersion.of_image(image)
    found = (
        str(version.number) if version.number else None,
        version.features.since,
        version.cpu,
        str(version.finding.severity) if version.finding else None,
    )
    wanted = Version.parse(rules)
    assert wanted is not None
    assert found == (number, Version(wanted.major, wanted.minor), cpu, why)


def test_an_unknown_version_is_handled_as_the_newest_and_said() -> None:
    version = EngineVersion.of_image("vllm/vllm-openai:nightly")
    assert version.effective == NEWEST
    assert version.finding is not None
    assert version.finding.line() == (
        "warning: image: vllm/vllm-openai:nightly: the version of vLLM is not known, so the rules of 0.33.0 are used; "
        "name a version in the image's tag"
    )


@pytest.mark.parametrize("minor", [14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 26, 29, 30, 31, 32, 33])
def test_every_version_in_use_has_a_row_no_newer_than_itself(minor: int) -> None:
    assert features_of(Version(0, minor)).since <= Version(0, minor)


def test_the_table_is_in_order_and_ends_with_the_newest() -> None:
    assert all(earlier.since < later.since for earlier, later in pairwise(TABLE))
    assert (TABLE[-1].since.major, TABLE[-1].since.minor) == (NEWEST.major, NEWEST.minor)


def test_what_changed_between_the_versions_that_this_stack_serves() -> None:
    def row(text: str) -> tuple[object, ...]:
        features = EngineVersion.of_text(text).features
        return (
            features.unknown_keys,
            features.async_by_default,
            features.ngram_runner,
            features.near_limit,
            features.min_p_refused,
            features.api_key_in_log,
            features.prefix,
            features.core_process,
            features.gpu_memory_utilization,
        )

    assert {text: row(text) for text in ("0.11.2", "0.14.0", "0.16.0", "0.23.0", "0.31.0", "0.32.0")} == {
        "0.11.2": ("dropped", False, "V1", "no drafts", False, True, "coloured", "EngineCore_DP0", 0.9),
        "0.14.0": ("dropped", None, "V1", "no drafts", True, True, "coloured", "EngineCore_DP0", 0.9),
        "0.16.0": ("refused", None, "V1", "no drafts", True, True, "coloured", "EngineCore_DP0", 0.9),
        "0.23.0": ("refused", True, "V1", "zero tokens", True, True, "wrapper", "EngineCore", 0.92),
        "0.31.0": ("refused", True, "V1", "zero tokens", True, False, "wrapper", "EngineCore", 0.92),
        "0.32.0": ("refused", True, "V2", "zero tokens", True, False, "formatter", "EngineCore", 0.92),
    }


def test_e34_rates_of_runners_that_count_differently_are_told_apart() -> None:
    counted = {
        image: EngineVersion.of_image(image).drafts_counted
        for image in ("vllm/vllm-openai:v0.23.0", "vllm/vllm-openai:v0.32.0", "vllm/vllm-openai-cpu:v0.32.0")
    }
    assert counted == {
        "vllm/vllm-openai:v0.23.0": "steps with a match",
        "vllm/vllm-openai:v0.32.0": "every decode step, padded to k",
        "vllm/vllm-openai-cpu:v0.32.0": "steps with a match",
    }


@pytest.mark.parametrize(
    ("table", "name", "states"),
    [
        (
            FLAGS,
            "default-chat-template-kwargs",
            {"0.11.2": ABSENT, "0.13.0": ABSENT, "0.14.0": PRESENT, "0.33.0": PRESENT},
        ),
        (FLAGS, "disable-log-requests", {"0.11.2": PRESENT, "0.16.0": PRESENT, "0.17.0": OPEN, "0.18.0": ABSENT}),
        (FLAGS, "spec-tokens", {"0.20.0": ABSENT, "0.21.0": OPEN, "0.22.1": OPEN, "0.23.0": PRESENT}),
        (FLAGS, "sc", {"0.18.1": ABSENT, "0.19.0": OPEN, "0.20.0": PRESENT}),
        (FLAGS, "per-request-spec-decode-metrics", {"0.26.0": ABSENT, "0.28.0": OPEN, "0.29.0": PRESENT}),
        (FLAGS, "enable-per-request-metrics", {"0.23.0": ABSENT, "0.26.0": PRESENT}),
        (SPECULATIVE_KEYS, "disable_by_batch_size", {"0.11.2": PRESENT, "0.14.0": OPEN, "0.23.0": ABSENT}),
        (SPECULATIVE_KEYS, "fly_window_size", {"0.32.0": ABSENT, "0.33.0": PRESENT}),
        (SPECULATIVE_KEYS, "prompt_lookup_min", {"0.11.2": PRESENT, "0.33.0": PRESENT}),
        (SPECULATIVE_KEYS, "no_such_key", {"0.11.2": ABSENT, "0.33.0": ABSENT}),
        (METHODS, "ngram_gpu", {"0.16.0": ABSENT, "0.17.0": OPEN, "0.18.0": PRESENT}),
        (METHODS, "medusa", {"0.11.2": PRESENT, "0.32.0": PRESENT, "0.33.0": ABSENT}),
        (METRICS, "vllm:gpu_cache_usage_perc", {"0.11.2": PRESENT, "0.23.0": ABSENT}),
    ],
)
def test_a_name_is_present_absent_or_not_established(
    table: dict[str, Span], name: str, states: dict[str, Presence]
) -> None:
    def at(text: str) -> Presence:
        version = Version.parse(text)
        assert version is not None
        return presence(table, name, version)

    assert {text: at(text) for text in states} == states


@pytest.mark.parametrize(
    ("image", "release"),
    [
        ("vllm/vllm-openai:v0.23.0", "0.23.0"),
        ("vllm/vllm-openai:v0.23.0-cu130", "0.23.0"),
        ("registry.example:5000/vllm-openai:0.23", "0.23"),
        ("registry.example/mirror/vllm:0.11.2-gpu-py312", "0.11.2"),
        ("vllm/vllm-openai-cpu:v0.32.0", "0.32.0"),
        ("vllm/vllm-openai:latest", ""),
        ("vllm/vllm-openai", ""),
        ("team/vllm-qwen:1.4.2", ""),
        (f"vllm/vllm-openai@{DIGEST_23}", "0.23.0"),
        ("vllm/vllm-openai@sha256:00", ""),
    ],
)
def test_an_image_names_a_release_or_none(image: str, release: str) -> None:
    assert image_release(image) == release


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("0.23.0", "0.23.0", True),
        ("0.23.0", "v0.23.0+cu129", True),
        ("0.23", "0.23.2", True),
        ("0.23.0", "0.23.1", False),
        ("0.2", "0.23.0", False),
        ("0.18.1", "0.18.1rc1", True),
        ("", "0.23.0", True),
        ("dev", "0.23.0", True),
    ],
)
def test_releases_are_compared_as_far_as_both_say(first: str, second: str, same: bool) -> None:
    assert (same_release(first, second), same_release(second, first)) == (same, same)
