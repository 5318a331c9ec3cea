"""What the stack hands to the Job: one JSON document, mounted as a file, read strictly."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from json import dumps

from engine import decode
from engine.findings import Problems

SCHEMA = 1
# Where the Job's volumes are mounted; the stack uses the same constants.
INPUT_PATH = "/etc/validation/input.json"
PROGRAM_PATH = "/opt/validation/validation.pyz"
# Label on the result: which run wrote it.
RUN_LABEL = "speculation/run"


@dataclass(frozen=True)
class DeclaredEngine:
    """One engine of the recipe: its name, image, container arguments and command as the deployment declares them."""

    name: str
    image: str
    args: tuple[str, ...]
    command: tuple[str, ...] = ()


@dataclass(frozen=True)
class Declared:
    """What the recipe declares."""

    engines: tuple[DeclaredEngine, ...]


@dataclass(frozen=True)
class ResultPlace:
    """The ConfigMap that takes the verdict."""

    namespace: str
    config_map: str


@dataclass(frozen=True)
class JobInput:
    """One validation run.

    run: the stack's id of it; service_address: as in ModelService.status.address, no trailing slash, no /v1; model: the
    name that clients send; namespace: where the engine pods run; replicas: ModelReplica names, at least one.
    """

    run: str
    service_address: str
    model: str
    namespace: str
    replicas: tuple[str, ...]
    declared: Declared
    result: ResultPlace
    schema: int = SCHEMA

    def to_json(self) -> str:
        """The document."""
        return dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> JobInput:
        """Read a document; Problems names everything that is wrong with it."""
        document = decode.load_object(text, "input")
        decode.require_schema(document, SCHEMA, "input")
        read = decode.build(cls, document, "input")
        findings = []
        if not read.replicas:
            findings.append(decode.error("input.replicas", [], "no replica to look at"))
        if not read.declared.engines:
            findings.append(decode.error("input.declared.engines", [], "no engine declared"))
        if not read.service_address.startswith(("http://", "https://")):
            findings.append(decode.error("input.service_address", read.service_address, "not an http(s) address"))
        if findings:
            raise Problems(findings)
        return read
