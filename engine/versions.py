"""The one version table of vLLM that drives rules, flag gates, log dialects and metric names.

Established by reading the released sources of 0.11.2, 0.12-0.16, 0.18, 0.20, 0.23, 0.26, 0.29-0.33 (0.32 as its CPU
build, which was also run). A version in between behaves as the nearest older one that was read, one newer than all of
them (or not named at all) as the newest; both are said in a finding. Which names (flags, config keys, methods,
metrics) exist in which version is in engine/names.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

from engine.findings import Finding, Severity

UnknownKeys = Literal["dropped", "refused"]
Runner = Literal["V1", "V2"]
# The V1 runner drafts what follows the first match and nothing without one; V2 the last match, and always k tokens.
DraftsCounted = Literal["steps with a match", "every decode step, padded to k"]


# Names under which images carry the release of vLLM as their tag, also in mirrors.
_RELEASED_AS = re.compile(r"vllm(?:-(?:openai|cpu)\b.*)?")
_RELEASE = re.compile(r"v?(\d{1,4}\.\d{1,4}(?:\.\d{1,4})?)(?!\d)")


@dataclass(frozen=True, order=True)
class Version:
    """A release of vLLM; suffixes such as rc1, post1 and +cu129 are dropped (the code is that of the release)."""

    major: int
    minor: int
    patch: int = 0

    @classmethod
    def parse(cls, text: str) -> Version | None:
        """The version that the text begins with ("v0.23.0-cu130" is 0.23.0), or None."""
        match = re.match(r"v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?(?![\d])", text)
        return cls(int(match[1]), int(match[2]), int(match[3] or 0)) if match else None

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


@dataclass(frozen=True)
class EngineFeatures:
    """How one version of vLLM behaves, as far as this project depends on it; None: not established for it."""

    since: Version
    # Keys of the speculative config that no field has.
    unknown_keys: UnknownKeys
    # "prompt-lookup-min" in the JSON.
    hyphenated_keys: Literal["dropped", "refused", "rewritten"] | None
    # Async scheduling when nobody asks, without speculation.
    async_by_default: bool | None
    # Methods that an explicit --async-scheduling may be combined with, and the message for all others.
    async_methods: frozenset[str]
    async_refusal: str
    # Whether the V2 runner schedules n-gram asynchronously (then an explicit flag is fine there).
    async_ngram_on_v2: bool
    # Which model runner serves ngram on CUDA when VLLM_USE_V2_MODEL_RUNNER is unset; a CPU build always has V1.
    ngram_runner: Runner
    # The same without speculation; "V2 for some": dense unquantised Llama, Mistral and Qwen3 only.
    baseline_runner: Literal["V1", "V2 for some", "V2"]
    # Near max_model_len no request of the batch is drafted for, or each gets k times token 0 (counted, rejected).
    near_limit: Literal["no drafts", "zero tokens"]
    # Sampling with min_p or logit_bias is HTTP 400; before, they had no effect or stopped drafting.
    min_p_refused: bool
    # Penalties and logprobs silently stop drafting for their request.
    penalties_stop_drafting: bool
    # Drafts of mixed batches land on wrong rows: acceptance is under-reported (PR 29779).
    drafts_misplaced: bool
    # Method draft_model: NotImplementedError in 0.11.
    draft_model: bool | None
    # CPU builds: an assertion "spec decode is not supported." refuses any speculation.
    cpu_speculates: bool | None
    # Log dialect.
    prefix: Literal["coloured", "wrapper", "formatter"]
    core_process: Literal["EngineCore_DP0", "EngineCore"]
    kv_size_and_concurrency_in_one_line: bool
    kv_usage_names_device: bool
    prefix_cache_rate_always: bool
    async_line: bool
    api_key_in_log: bool
    # Default of --gpu-memory-utilization.
    gpu_memory_utilization: float


_EAGLE = frozenset({"eagle", "eagle3", "mtp"})

V0_11 = EngineFeatures(
    since=Version(0, 11),
    unknown_keys="dropped",
    hyphenated_keys="dropped",
    async_by_default=False,
    async_methods=_EAGLE,
    async_refusal="Currently, async scheduling is only supported with EAGLE/MTP kind of speculative decoding",
    async_ngram_on_v2=False,
    ngram_runner="V1",
    baseline_runner="V1",
    near_limit="no drafts",
    min_p_refused=False,
    penalties_stop_drafting=True,
    drafts_misplaced=True,
    draft_model=False,
    cpu_speculates=False,
    prefix="coloured",
    core_process="EngineCore_DP0",
    kv_size_and_concurrency_in_one_line=False,
    kv_usage_names_device=False,
    prefix_cache_rate_always=True,
    async_line=False,
    api_key_in_log=True,
    gpu_memory_utilization=0.9,
)
V0_12 = replace(V0_11, since=Version(0, 12), async_by_default=None, drafts_misplaced=False, draft_model=None)
V0_13 = replace(V0_12, since=Version(0, 13))
V0_14 = replace(V0_13, since=Version(0, 14), min_p_refused=True, penalties_stop_drafting=False)
V0_15 = replace(V0_14, since=Version(0, 15))
V0_16 = replace(V0_15, since=Version(0, 16), unknown_keys="refused", hyphenated_keys="refused")
V0_18 = replace(V0_16, since=Version(0, 18), core_process="EngineCore", prefix="wrapper")
V0_20 = replace(V0_18, since=Version(0, 20), near_limit="zero tokens", cpu_speculates=True, gpu_memory_utilization=0.92)
V0_23 = replace(
    V0_20,
    since=Version(0, 23),
    async_by_default=True,
    async_methods=_EAGLE | {"dflash", "extract_hidden_states", "ngram_gpu", "draft_model"},
    async_refusal=(
        "Currently, async scheduling is only supported with EAGLE/MTP/Draft Model/NGram GPU "
        "kind of speculative decoding"
    ),
    baseline_runner="V2 for some",
    draft_model=True,
    async_line=True,
)
V0_26 = replace(V0_23, since=Version(0, 26), hyphenated_keys=None)
V0_29 = replace(V0_26, since=Version(0, 29), baseline_runner="V2", api_key_in_log=False)
V0_30 = replace(V0_29, since=Version(0, 30), kv_usage_names_device=True)
V0_31 = replace(V0_30, since=Version(0, 31))
V0_32 = replace(
    V0_31,
    since=Version(0, 32),
    hyphenated_keys="rewritten",
    async_methods=V0_31.async_methods | {"dspark"},
    async_refusal=(
        "Currently, async scheduling is only supported with EAGLE/MTP/Draft Model/NGram GPU/DSpark/DFlash "
        "kind of speculative decoding"
    ),
    ngram_runner="V2",
    prefix="formatter",
    kv_size_and_concurrency_in_one_line=True,
    prefix_cache_rate_always=False,
    async_line=False,
)
V0_33 = replace(V0_32, since=Version(0, 33), async_ngram_on_v2=True)

TABLE: tuple[EngineFeatures, ...] = (
    V0_11, V0_12, V0_13, V0_14, V0_15, V0_16, V0_18, V0_20, V0_23, V0_26, V0_29, V0_30, V0_31, V0_32, V0_33,
)  # fmt: skip
# The newest release that was read, with its patch number.
NEWEST = Version(0, 33, 0)

# Digests of images whose tag is known from several independent public places (not looked up in the registry).
DIGESTS: dict[str, Version] = {
    "sha256:6d8429e38e3747723ca07ee1b17972e09bb9c51c4032b266f24fb1cc3b22ed8f": Version(0, 23, 0),
    "sha256:2c908d5a84ed251b6a17d179f42d06df1aff353007779ac5eecd8a0ea3fe9331": Version(0, 11, 2),
    "sha256:47a9896f86818fea323b2d38082758c62d9a0155d6fe6c4dbd7d735c556f680a": Version(0, 11, 2),
}


@dataclass(frozen=True)
class EngineVersion:
    """The engine that an image (or a version text) stands for.

    number: the version as read, None when nothing names it; effective: the version whose rules are used;
    cpu: a CPU build; finding: says when rules of another version are used, None when they are its own.
    """

    source: str
    number: Version | None
    effective: Version
    features: EngineFeatures
    cpu: bool = False
    finding: Finding | None = None

    @classmethod
    def of_image(cls, image: str) -> EngineVersion:
        """Read an image reference such as "vllm/vllm-openai:v0.23.0" or "…@sha256:…" (tag first, then digest)."""
        name, _, digest = image.partition("@")
        repository, tag = _split_tag(name)
        number = Version.parse(tag) or DIGESTS.get(digest)
        cpu = "cpu" in repository.rpartition("/")[2] or "cpu" in tag.split("-")
        if "vllm" not in repository.lower():
            found = Finding(
                Severity.WARNING,
                "image",
                image,
                "this image is not known to be vLLM, and its arguments are read as those of vLLM",
                "use an image of vLLM, such as vllm/vllm-openai:v0.23.0",
            )
            return replace(cls._of(image, number, cpu=cpu), finding=found)
        return cls._of(image, number, cpu=cpu)

    @classmethod
    def of_text(cls, text: str, *, cpu: bool = False) -> EngineVersion:
        """Read a version as vLLM prints it, such as "0.32.0" or "0.18.1rc1"."""
        return cls._of(text, Version.parse(text), cpu=cpu)

    @classmethod
    def _of(cls, source: str, number: Version | None, *, cpu: bool) -> EngineVersion:
        effective, why, severity = _effective(number)
        finding = None
        if why:
            remedy = "check the engine's own start-up log" if number else "name a version in the image's tag"
            finding = Finding(severity, "image", source, why, remedy)
        return cls(source, number, effective, features_of(effective), cpu, finding)

    @property
    def read_itself(self) -> bool:
        """Whether the rules in use are those of exactly this release line."""
        return self.number is not None and (self.number.major, self.number.minor) == (
            self.features.since.major,
            self.features.since.minor,
        )

    @property
    def ngram_runner(self) -> Runner:
        """Which model runner serves n-gram when nothing overrides it: a CPU build has no Triton, hence V1."""
        return "V1" if self.cpu else self.features.ngram_runner

    @property
    def drafts_counted(self) -> DraftsCounted:
        """What the n-gram counters count; acceptance rates of engines that differ in it must not be compared."""
        return drafts_counted(self.ngram_runner)

    def __str__(self) -> str:
        return f"vLLM {self.number or self.effective}"


def image_release(image: str) -> str:
    """The release of vLLM that an image reference names, with as many numbers as its tag has ("0.23.0", "0.23"); ""
    when neither tag nor digest names one, or the repository numbers its images in a way of its own.
    """
    name, _, digest = image.partition("@")
    repository, tag = _split_tag(name)
    match = _RELEASE.match(tag) if _RELEASED_AS.fullmatch(repository.rpartition("/")[2]) else None
    return match[1] if match else str(DIGESTS.get(digest, ""))


def same_release(first: str, second: str) -> bool:
    """Whether two texts name one release, as far as both say: 0.23, v0.23.0 and 0.23.0+cu129 do, 0.23.0 and 0.23.1
    do not. A text that names none ("latest") contradicts nothing.
    """
    numbers = [_RELEASE.match(text) for text in (first, second)]
    parts = [match[1].split(".") if match else [] for match in numbers]
    return all(int(a) == int(b) for a, b in zip(*parts, strict=False))


def drafts_counted(runner: Runner) -> DraftsCounted:
    """What the n-gram counters count on this model runner."""
    return "every decode step, padded to k" if runner == "V2" else "steps with a match"


def features_of(version: Version) -> EngineFeatures:
    """The row of the table for a version: the newest one that is not newer; the oldest for anything older."""
    return next((row for row in reversed(TABLE) if row.since <= version), TABLE[0])


def _effective(number: Version | None) -> tuple[Version, str, Severity]:
    if number is None:
        return NEWEST, f"the version of vLLM is not known, so the rules of {NEWEST} are used", Severity.WARNING
    if (number.major, number.minor) > (NEWEST.major, NEWEST.minor):
        return NEWEST, f"vLLM {number} is newer than what is known, so the rules of {NEWEST} are used", Severity.WARNING
    oldest = TABLE[0].since
    if number < oldest:
        why = f"vLLM {number} is older than what is known, so the rules of 0.11.2 are used"
        return Version(0, 11, 2), why, Severity.WARNING
    row = features_of(number)
    if (row.since.major, row.since.minor) != (number.major, number.minor):
        why = f"vLLM {number} was not read itself, so the rules of {row.since.major}.{row.since.minor} are used"
        return number, why, Severity.INFO
    return number, "", Severity.INFO


def _split_tag(name: str) -> tuple[str, str]:
    head, slash, last = name.rpartition("/")
    repository, _, tag = last.partition(":")
    return f"{head}{slash}{repository}", tag
