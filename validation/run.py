"""One validation: look at the pods, watch the counters while the probe is answered, and let the rules decide."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from engine.log import parse_log
from engine.metrics import SpeculationDelta
from validation import rules, witnesses
from validation.answer import COPY, EDIT
from validation.http import HttpError, get
from validation.kube import ApiError, Kube, Log
from validation.measure import Scrape, behaviour_sight, metrics_sight, numbers, scrape, settle
from validation.pods import CONTAINER, SERVING_LABEL, Pod, declared_engine, judged, read_pod, selector
from validation.probe import PATIENCE_S, Answer, ask
from validation.settings import JobInput
from validation.verdict import Outcome, Reading, Says, Verdict, WitnessName
from validation.witnesses import Sight, clean, unseen

Progress = Callable[[str], None]
# The sentence quotes a line of evidence from each witness (bytes).
_SENTENCE_LIMIT = 2000
_SERVICE = "service address"


@dataclass
class _Seen:
    """What was seen so far, by subject: a pod, a replica without one, or the service address."""

    live: dict[str, Sight] = field(default_factory=dict)
    log: dict[str, Sight] = field(default_factory=dict)
    metrics: dict[str, Sight] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    deltas: dict[str, SpeculationDelta] = field(default_factory=dict)


def validate(
    job: JobInput, kube: Kube, *, patience_s: float = PATIENCE_S, progress: Progress = lambda _: None
) -> Verdict:
    """Run one validation; what cannot be seen becomes an unknown with its reason, so a verdict always comes back."""
    started = witnesses.now()
    found = _Seen()
    pods = _find_pods(job, kube, found)
    progress(f"{len(pods)} engine pods of {', '.join(job.replicas)}")
    for pod in pods:
        _look_at(pod, job, kube, found)
    targets = _targets(job, pods)
    before = {subject: _scrape(url, job, alone=len(targets) == 1) for subject, url in targets.items()}
    began = time.monotonic()
    answers = _probe(job, pods, targets, patience_s, progress)
    _measure(job, before, answers, found)
    seconds = time.monotonic() - began
    return _verdict(job, found, answers, seconds, started)


def _find_pods(job: JobInput, kube: Kube, found: _Seen) -> list[Pod]:
    """The judged pods; every replica without one leaves unknowns."""
    source = f"pods of namespace {job.namespace}"
    try:
        pods = judged([read_pod(pod) for pod in kube.list_pods(job.namespace, selector(job.replicas))])
    except ApiError as problem:
        sight = unseen(str(problem), source)
        found.live = dict.fromkeys(job.replicas, sight)
        found.log = dict(found.live)
        return []
    for replica in set(job.replicas) - {pod.replica for pod in pods}:
        why = f"no running pod is labelled {SERVING_LABEL}={replica} in namespace {job.namespace}"
        found.live[replica] = found.log[replica] = found.metrics[replica] = unseen(why, source)
    return pods


def _look_at(pod: Pod, job: JobInput, kube: Kube, found: _Seen) -> None:
    declared = declared_engine(pod, job.declared.engines)
    found.live[pod.name] = witnesses.live_args(pod, declared)
    found.versions[pod.name] = served = _served_version(pod.url)
    try:
        log = kube.pod_log(pod.namespace, pod.name, CONTAINER)
    except ApiError as problem:
        found.log[pod.name] = unseen(str(problem), f"log of Pod {pod.namespace}/{pod.name}, container {CONTAINER}")
        return
    previous: Log | None = None
    if pod.restarts:
        try:
            previous = kube.pod_log(pod.namespace, pod.name, CONTAINER, previous=True)
        except ApiError:
            previous = None  # it is only asked for its last error, and a node keeps it for a while only
    parsed = parse_log(log.text)
    found.versions[pod.name] = served or parsed.version or ""
    found.log[pod.name] = witnesses.engine_log(pod, declared, parsed, log=log, served=served, previous=previous)


def _served_version(url: str) -> str:
    if not url:
        return ""
    try:
        document = json.loads(get(f"{url}/version"))
    except (HttpError, ValueError):
        return ""
    version = document.get("version") if isinstance(document, dict) else None
    return version if isinstance(version, str) else ""


def _targets(job: JobInput, pods: Sequence[Pod]) -> dict[str, str]:
    """Where the counters are read: each pod, or the service address while no pod is known."""
    if not pods:
        return {_SERVICE: job.service_address}
    return {pod.name: pod.url for pod in pods}


def _scrape(url: str, job: JobInput, *, alone: bool) -> Scrape:
    """Scrape a pod; through the service address only while it can lead to one engine."""
    direct = scrape(f"{url}/metrics") if url else Scrape("", why="the pod has no address")
    if direct.metrics is not None or not alone or len(job.replicas) > 1:
        return direct
    through = scrape(f"{job.service_address.rstrip('/')}/metrics")
    return through if through.metrics is not None else direct


def _probe(
    job: JobInput, pods: Sequence[Pod], targets: Mapping[str, str], patience_s: float, progress: Progress
) -> dict[str, list[Answer]]:
    """Both tasks through the service address; one more to each pod when there are several."""
    key = next((key for pod in pods if (key := pod.engine_args.value("api-key"))), "")

    def one(address: str, task_answers: list[Answer], *, both: bool) -> None:
        for task in (EDIT, COPY) if both else (COPY,):
            # A route that did not come up for the first task is not waited for twice.
            patience = 0.0 if task_answers and task_answers[-1].completion is None else patience_s
            progress(f"asking {address} for the {task.name} task")
            answer = ask(address, job.model, task, api_key=key, patience_s=patience, progress=progress)
            task_answers.append(answer)

    answers: dict[str, list[Answer]] = {_SERVICE: []}
    one(job.service_address, answers[_SERVICE], both=True)
    if len(targets) > 1:
        for subject, url in targets.items():
            answers[subject] = []
            if url:
                one(url, answers[subject], both=False)
    return answers


def _measure(
    job: JobInput, before: Mapping[str, Scrape], answers: Mapping[str, Sequence[Answer]], found: _Seen
) -> None:
    for subject, first in before.items():
        # One engine answered everything; of several, each is only known to have answered what it was sent itself.
        known = answers.get(subject, ()) if len(before) > 1 else answers[_SERVICE]
        tokens = sum(answer.tokens for answer in known)
        after, delta = settle(first, job.model, tokens)
        found.deltas[subject] = delta
        found.metrics[subject] = metrics_sight(after.url or subject, delta, tokens)


def _verdict(
    job: JobInput, found: _Seen, answers: Mapping[str, Sequence[Answer]], seconds: float, started: str
) -> Verdict:
    declared_sights = witnesses.declared_args(job.declared.engines)
    on = any(sight.reading is Reading.ON for sight in declared_sights.values())
    behaviour = {subject: behaviour_sight(asked) for subject, asked in answers.items() if asked}
    sights = {
        WitnessName.DECLARED_ARGS: declared_sights,
        WitnessName.LIVE_ARGS: found.live,
        WitnessName.ENGINE_LOG: found.log,
        WitnessName.METRICS: found.metrics,
        WitnessName.BEHAVIOUR: behaviour,
    }
    told = tuple(witnesses.combine(name, sights[name], declared=on) for name in WitnessName)
    outcome = rules.decide({witness.name: witness.reading for witness in told})
    declared = Outcome.SPECULATING if told[0].says is Says.YES else Outcome.BASELINE
    every = [answer for asked in answers.values() for answer in asked]
    return Verdict(
        verdict=outcome,
        declared=declared,
        ok=outcome is declared,
        sentence=clean(rules.sentence(outcome, told), _SENTENCE_LIMIT),
        witnesses=told,
        numbers=numbers(found.deltas, every, seconds) if any(answer.completion for answer in every) else None,
        run=job.run,
        # The engine's own word, of each pod.
        engine_version=", ".join(sorted({version for version in found.versions.values() if version})),
        started=started,
        ended=witnesses.now(),
    )
