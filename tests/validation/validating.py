"""Runs a validation of fake engines against the API server of a test."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.validation.engines import Engine
from tests.validation.kube_server import KubeServer
from validation.kube import Kube
from validation.run import validate
from validation.settings import Declared, DeclaredEngine, JobInput, ResultPlace
from validation.verdict import Verdict, WitnessName


def job(engines: Sequence[Engine], address: str = "", declared: Sequence[str] | None = None) -> JobInput:
    first = engines[0]
    args = tuple(first.args if declared is None else declared)
    return JobInput(
        run="r-1",
        service_address=address or first.url,
        model="qwen",
        namespace="default",
        replicas=tuple(dict.fromkeys(engine.replica for engine in engines)),
        declared=Declared((DeclaredEngine("qwen", first.image, args),)),
        result=ResultPlace("speculation-validation", "verdict"),
    )


def run(
    kube: KubeServer,
    given: JobInput,
    engines: Sequence[Engine],
    patience_s: float = 0.0,
    copied: Callable[[], object] = lambda: None,
) -> Verdict:
    """copied: called when the counters are no longer watched (perhaps several times)."""
    kube.pods = [engine.pod() for engine in engines]
    kube.logs |= {(engine.name, False): engine.log_file.read_text() for engine in engines}

    def progress(line: str) -> None:
        if line.endswith("for the chat task"):
            copied()

    return validate(given, Kube(kube.url, kube.service_account), patience_s=patience_s, progress=progress)


def readings(verdict: Verdict) -> str:
    """Declared args, live args, engine log, metrics, behaviour, in a line."""
    return " ".join(verdict.witness(name).reading for name in WitnessName)
