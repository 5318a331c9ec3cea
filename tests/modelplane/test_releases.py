"""Releases: what is read, what is refused and why."""

from __future__ import annotations

import pytest

from engine.findings import Problems
from modelplane.releases import DEPLOYED, Release, parse_release, release_of_package


@pytest.mark.parametrize("text", ["v0.1.0", "v0.2.0", "v0.3.1", "0.3.1"])
def test_a_release_that_works_is_taken(text: str) -> None:
    assert parse_release(text).value.endswith(text.removeprefix("v"))


@pytest.mark.parametrize("text", ["v0.3.0", "0.3.0"])
def test_release_0_3_0_is_refused_with_the_reason_and_the_release_to_use(text: str) -> None:
    with pytest.raises(Problems) as caught:
        parse_release(text, "platform.release")
    (finding,) = caught.value.findings
    assert finding.line().startswith(f"error: platform.release: {text}: ")
    assert "rejects its ModelDeployment and ModelReplica schemas" in finding.why
    assert finding.remedy == "use v0.3.1"


def test_an_unknown_release_is_refused_with_the_known_ones() -> None:
    with pytest.raises(Problems, match=r"use one of v0.1.0, v0.2.0, v0.3.1"):
        parse_release("v0.4.0")


def test_releases_are_ordered_() -> None:
    assert Release.V0_1_0.before(Release.V0_2_0)
    assert not DEPLOYED.before(DEPLOYED)


@pytest.mark.parametrize(
    ("image", "release"),
    [
        (DEPLOYED.package, DEPLOYED),
        ("mirror.example.com:5000/x/modelplane:v0.3.0", Release.V0_3_0),
        ("xpkg.upbound.io/modelplane/modelplane:v0.3.1@sha256:00", DEPLOYED),
        ("xpkg.upbound.io/modelplane/modelplane:v9", None),
        ("xpkg.upbound.io/modelplane/provider-helm:v0.3.1", None),
        ("modelplane", None),
    ],
)
def test_the_release_is_read_from_the_package(image: str, release: Release | None) -> None:
    assert release_of_package(image) is release
