"""One validation: look at the pods, watch the counters while copies are made, ask the rest, let the rules decide."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from engine.metrics import SpeculationDelta
from engine.rules import ngram_runner
from engine.versions import EngineVersion, drafts_counted, image_release
from validation import configured, rules, witnesses
from validation.answer import CHAT, COPY, EDIT, GUIDED, Task, is_thinking
from validation.behaviour import behaviour_sight, untold
from validation.http import HttpError, get
from validation.kept import KeptLines
from validation.kube import ApiError, Kube, Log
from validation.measure import Scrape, metrics_sight, numbers, scrape, settle
from validation.pods import CONTAINER, SERVING_LABEL, Pod, declared_engine, judged, read_pod, selector
from validation.probe import PATIENCE_S, Answer, ask
from validation.settings import JobInput
from validation.verdict import Numbers, Outcome, Reading, Says, Verdict, WitnessName
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
    drafted: set[str] = field(default_factory=set)
    notes: dict[str, None] = field(default_factory=dict)

    def note(self, *texts: str) -> None:
        """Something to be said beside the verdict, once."""
        self.notes |= {clean(text): None for text in texts if text}


def validate(
    job: JobInput, kube: Kube, *, patience_s: float = PATIENCE_S, progress: Progress = lambda _: None
) -> Verdict:
    """Run one validation; what cannot be seen becomes an unknown with its reason, so a verdict always comes back."""
    started = witnesses.now()
    found = _Seen()
    pods = _find_pods(job, kube, found)
    progress(f"{len(pods)} engine pods of {', '.join(job.replicas)}")
    kept = KeptLines.load(kube, job.result.namespace)
    for pod in pods:
        _look_at(pod, job, kube, kept, found)
    if problem := kept.save(kube, pods):
        found.note(f"start-up lines could not be kept for later validations: {problem}")
    targets = _targets(job, pods)
    before = {subject: _scrape(url, job, alone=len(targets) == 1) for subject, url in targets.items()}
    began = time.monotonic()
    probe = _Probe(job, pods, targets, patience_s, progress)
    probe.copies()
    _measure(job, before, probe.answers, found)
    seconds = time.monotonic() - began
    answered = any(answer.completion for answer in probe.every())
    measured = numbers(found.deltas, probe.every(), seconds, found.drafted) if answered else None
    probe.rest()
    return _verdict(job, found, probe.answers, measured, started)


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


def _look_at(pod: Pod, job: JobInput, kube: Kube, kept: KeptLines, found: _Seen) -> None:
    declared = declared_engine(pod, job.declared.engines)
    found.live[pod.name] = configured.live_args(pod, declared)
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
    parsed, kept_at = kept.complete(pod, log.text)
    if not kept_at and parsed.starts:
        kept.keep(pod, log.text)
    if kept_at:
        found.note(f"the start-up lines of {pod.name} are those that the validation of {kept_at} kept")
    found.versions[pod.name] = said = served or parsed.version or ""
    version = EngineVersion.of_text(said, cpu=pod.version.cpu) if said else pod.version
    # An unknown name of an image is no matter where the engine itself says what it is.
    found.note(version.finding.why if version.finding else "")
    if not image_release(pod.image):
        found.note(f"image {pod.image} names no release of vLLM, so the engine's own version is compared with nothing")
    found.note(configured.runner_note(parsed, configured.declared(declared), version))
    found.drafted.add(drafts_counted(parsed.runner or ngram_runner(version, pod.env)))
    account = configured.LogAccount(parsed, log, served, kept_at, previous)
    found.log[pod.name] = configured.engine_log(pod, declared, account)


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


class _Probe:
    """Asks the tasks and keeps the answers, by where they were asked.

    Copies go through the service address, and one more to each pod when there are several. The rest is asked of each
    engine once: directly when there are several.
    """

    def __init__(
        self, job: JobInput, pods: Sequence[Pod], targets: Mapping[str, str], patience_s: float, progress: Progress
    ) -> None:
        self._job, self._patience_s, self._progress = job, patience_s, progress
        self._key = next((pod.api_key for pod in pods if pod.api_key), "")
        self._targets = {subject: url for subject, url in targets.items() if url} if len(targets) > 1 else {}
        self.answers: dict[str, list[Answer]] = {_SERVICE: [], **{subject: [] for subject in self._targets}}

    def every(self) -> list[Answer]:
        """All answers so far."""
        return [answer for asked in self.answers.values() for answer in asked]

    def copies(self) -> None:
        """What drafts help with, while the counters are watched."""
        for task in (EDIT, COPY):
            self._ask(_SERVICE, self._job.service_address, task)
        for subject, url in self._targets.items():
            self._ask(subject, url, COPY)

    def rest(self) -> None:
        """What no copy shows, asked where copies were answered."""
        for subject, url in (self._targets or {_SERVICE: self._job.service_address}).items():
            for task in (CHAT, GUIDED):
                if self.answers[subject][-1].completion is not None:
                    self._ask(subject, url, task)

    def _ask(self, subject: str, address: str, task: Task) -> None:
        before = self.answers[subject]
        # A route that did not come up for the first task is not waited for twice.
        patience = 0.0 if before and before[-1].completion is None else self._patience_s
        # Thinking is for the copies to show; here it would take all tokens.
        thinks = any(answer.completion and is_thinking(answer.completion) for answer in before)
        self._progress(f"asking {address} for the {task.name} task")
        answer = ask(
            address,
            self._job.model,
            task,
            api_key=self._key,
            no_thinking=thinks and not task.copied,
            patience_s=patience,
            progress=self._progress,
        )
        before.append(answer)


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
    job: JobInput, found: _Seen, answers: Mapping[str, Sequence[Answer]], measured: Numbers | None, started: str
) -> Verdict:
    declared_sights = configured.declared_args(job.declared.engines)
    on = any(sight.reading is Reading.ON for sight in declared_sights.values())
    no_thinking = all(configured.declared(engine).thinking_off for engine in job.declared.engines)
    behaviour = {
        subject: behaviour_sight(asked, thinking_off=no_thinking) for subject, asked in answers.items() if asked
    }
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
    for asked in answers.values():
        found.note(*(f"not known of the answers: {part}" for part in untold(asked)))
    return Verdict(
        verdict=outcome,
        declared=declared,
        ok=outcome is declared,
        sentence=clean(rules.sentence(outcome, told), _SENTENCE_LIMIT),
        witnesses=told,
        numbers=measured,
        run=job.run,
        # The engine's own word, of each pod.
        engine_version=", ".join(sorted({version for version in found.versions.values() if version})),
        started=started,
        ended=witnesses.now(),
        notes=tuple(found.notes),
    )
