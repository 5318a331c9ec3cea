"""Modelplane's releases: which are read, which one is deployed, which is refused and why."""

from __future__ import annotations

from enum import StrEnum

from engine.findings import Finding, Problems


class Release(StrEnum):
    """A tagged release, oldest first."""

    V0_1_0 = "v0.1.0"
    V0_2_0 = "v0.2.0"
    V0_3_0 = "v0.3.0"
    V0_3_1 = "v0.3.1"

    def before(self, other: Release) -> bool:
        """Whether this release is older than other."""
        order = list(Release)
        return order.index(self) < order.index(other)

    @property
    def package(self) -> str:
        """Image of the Crossplane Configuration package."""
        return f"{PACKAGE}:{self.value}"


PACKAGE = "xpkg.upbound.io/modelplane/modelplane"

# Kinds are typed, and manifests are written, in the form of this release: the newest one, and its schemas establish.
DEPLOYED = Release.V0_3_1

REFUSED = {
    Release.V0_3_0: (
        "the API server rejects its ModelDeployment and ModelReplica schemas (a broken regular expression and a rule "
        "over the cost limit, Modelplane issue 399), so neither kind exists although the Configuration says Healthy"
    ),
}


def parse_release(text: str, path: str = "release") -> Release:
    """The release named by text ("v0.3.1" or "0.3.1"); Problems when it is unknown or refused. path names the input."""
    try:
        release = Release(text if text.startswith("v") else f"v{text}")
    except ValueError:
        known = ", ".join(release.value for release in Release if release not in REFUSED)
        raise Problems(
            [Finding.error(path, text, "is not a release of Modelplane known here", f"use one of {known}")]
        ) from None
    if release in REFUSED:
        raise Problems([Finding.error(path, text, REFUSED[release], f"use {DEPLOYED.value}")])
    return release


def release_of_package(image: str) -> Release | None:
    """The release of a Configuration's spec.package; None for another package or a tag not known here."""
    name, _, tag = image.partition("@")[0].rpartition(":")
    if name.rsplit("/", 1)[-1] != "modelplane" or tag not in {release.value for release in Release}:
        return None
    return Release(tag)
