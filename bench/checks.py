"""What makes a run or a pair unfit for a comparison, told from the files alone: a reader finds what the runner found.

An error spoils (the block, the run or the pair), a warning must be said beside every number. What is not known is a
warning, never a pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from bench.records import Arm, Block, Engine, Request, Run, RunFolder
from bench.schedule import Design
from bench.scrape import Scrape, difference, prefix_hits
from engine.findings import Finding, Severity

# From this share of a request's duration on, a pause of the client is seen in its times.
_LATE_SHARE = 0.1
# Any timer of a general operating system is late by this much now and then.
_LATE_S = 0.005
_ABBA = "measure both arms in one run with --order abba"


def block_findings(run: Run, block: Block, requests: Sequence[Request]) -> list[Finding]:
    """What the counters around a block say about it; requests: all of the block."""
    path = f"blocks[{block.index}]"
    if block.problems:
        again = any(other.order == block.order and other.index > block.index for other in run.blocks)
        severity, what = (Severity.WARNING, "done again later") if again else (Severity.ERROR, "go on with --resume")
        return [Finding(severity, path, block.arm.value, problem, what) for problem in block.problems]
    if not block.ended:
        why = "it was interrupted; what it measured until then counts"
        return [Finding(Severity.WARNING, path, block.arm.value, why)]
    before = Scrape.from_json(block.metrics_before, f"{path}.metrics_before")
    after = Scrape.from_json(block.metrics_after, f"{path}.metrics_after")
    measured = [request for request in requests if request.block == block.index and not request.warmup]
    return [*_engine_findings(path, run, before, after), *_counter_findings(path, run, before, after, measured)]


def _engine_findings(path: str, run: Run, before: Scrape, after: Scrape) -> Iterator[Finding]:
    delta = difference(before, after, run.service.model)
    if delta.state == "reset":
        yield Finding(Severity.ERROR, path, None, f"the engine is not the one it began with: {delta.reason}")
    elif delta.state == "unknown":
        why = f"no counters, so restarts and cache hits would go unseen: {delta.reason}"
        yield Finding(Severity.WARNING, path, None, why)
    many = max(before.engines or 0, after.engines or 0)
    if many > 1:
        remedy = "measure one replica, without autoscaling"
        yield Finding(Severity.ERROR, f"{path}.replicas", many, "several engines answer at the address", remedy)
    if before.version and after.version and before.version != after.version:
        yield Finding(Severity.ERROR, f"{path}.version", after.version, f"it was {before.version} at the beginning")
    hits = prefix_hits(before, after, run.service.model)
    if run.prefix_caching:
        if before.prefix_caching is False:
            why = "the engine caches no prefixes, but the run was declared with prefix caching"
            yield Finding(Severity.ERROR, f"{path}.prefix_caching", "off", why, "start both arms with it")
    elif hits:
        why = "prompt tokens came from the prefix cache, so repeats are not alike"
        remedy = "start both arms with --no-enable-prefix-caching, or declare --prefix-caching on"
        yield Finding(Severity.ERROR, f"{path}.prefix_cache_hits", hits, why, remedy)


def _counter_findings(
    path: str, run: Run, before: Scrape, after: Scrape, measured: Sequence[Request]
) -> Iterator[Finding]:
    delta = difference(before, after, run.service.model)
    answered = sum(request.error is None for request in measured)
    tokens = sum(request.usage.completion_tokens for request in measured if request.usage)
    if delta.finished is not None and delta.finished > len(measured):
        why = f"{delta.finished - len(measured)} requests of others ran on the engine beside {len(measured)} of ours"
        yield Finding(Severity.WARNING, path, None, why, "measure an engine that nobody else uses")
    if delta.generated is not None and delta.generated < tokens:
        why = f"the counters show {delta.generated} generated tokens where the client got {tokens}"
        yield Finding(Severity.WARNING, path, None, why, "look whether --disable-log-stats is set")
    if measured and not answered:
        yield Finding(Severity.ERROR, path, None, f"none of its {len(measured)} requests was answered whole")
    for problem in delta.problems:
        yield Finding(Severity.WARNING, path, None, f"the counters contradict themselves: {problem}")


def run_findings(read: RunFolder) -> list[Finding]:
    """All that is to say about one run."""
    run = read.run
    found = list(read.notes)
    for block in run.blocks:
        found += block_findings(run, block, read.requests)
    if run.arm is Arm.UNKNOWN:
        why = "nobody said which arm this is, and the engine shows no counters"
        found.append(Finding(Severity.WARNING, "arm", None, why, "give --arm"))
    if run.service.replicas not in {None, 1}:
        remedy = "measure one replica, without autoscaling"
        found.append(Finding(Severity.ERROR, "replicas", run.service.replicas, "not one replica", remedy))
    found += _engines_findings(run)
    failed = Counter(request.error for request in read.measured if request.error)
    for error, count in failed.most_common():
        share = f"{count} of {len(read.measured)} requests failed and are in no time"
        found.append(Finding(Severity.WARNING, "requests", None, f"{share}: {error}"))
    limits = [(request.loop_lag_s, max(_LATE_S, _LATE_SHARE * (request.end_s or 0.0))) for request in read.measured]
    if late := sum(lag > limit for lag, limit in limits):
        why = f"during {late} of {len(read.measured)} requests the client itself was late: its times are the client's"
        found.append(Finding(Severity.WARNING, "requests", None, why, "run the client on a machine that has time"))
    if thinking := sum(bool(request.reasoning) or "<think>" in request.text for request in read.measured):
        why = f"{thinking} answers begin with thinking, which n-gram drafts badly"
        found.append(Finding(Severity.WARNING, "requests", None, why, "let the engine's chat template turn it off"))
    return found


def _engines_findings(run: Run) -> Iterator[Finding]:
    """How the engines of a run's blocks differ from the first one's."""
    first = run.blocks[0].engine if run.blocks else None
    for block in run.blocks[1:]:
        if first is not None and block.engine is not None:
            yield from changed(f"blocks[{block.index}]", first, block.engine, "in the first block")


def pair_findings(a: RunFolder, b: RunFolder) -> list[Finding]:
    """What stands against comparing two runs as the two arms of one experiment."""
    found: list[Finding] = []
    for name in ("prompt_set", "concurrency", "repeats", "seed", "max_tokens", "prefix_caching"):
        one, other = getattr(a.run, name), getattr(b.run, name)
        if name == "prompt_set":
            one, other = one.digest, other.digest
        if one != other:
            found.append(Finding(Severity.ERROR, name, f"{one} and {other}", "the arms were asked differently"))
    for name in ("host", "location", "network_path"):
        one, other = getattr(a.run.client, name), getattr(b.run.client, name)
        if one != other:
            why = "the arms were measured from different places"
            found.append(Finding(Severity.WARNING, f"client.{name}", f"{one} and {other}", why))
    found += changed("engine", a.run.engine, b.run.engine, "in the other arm")
    return [*found, *_order_findings(a.run, b.run)]


def changed(path: str, one: Engine, other: Engine, where: str) -> Iterator[Finding]:
    """GPU, driver, image or version of `other` that are not those of `one`; of a pair also what is not known."""
    facts: list[tuple[str, object, object]] = [
        ("image", one.image, other.image),
        ("version", one.version, other.version),
    ]
    facts += [
        (f"device.{key}", one.device.get(key, ""), other.device.get(key, ""))
        for key in sorted({"gpu", "driver", *one.device, *other.device})
    ]
    for name, before, after in facts:
        if before and after and before != after:
            yield Finding(Severity.ERROR, f"{path}.{name}", after, f"it is {before} {where}")
        elif not (before and after) and path == "engine":
            why = "not known of both arms, so a change would be unseen"
            yield Finding(Severity.WARNING, f"{path}.{name}", None, why)


def _order_findings(a: Run, b: Run) -> Iterator[Finding]:
    if Design.ABBA.value in a.design and a.design == b.design:
        pairs = {(one.order < other.order) for one in a.blocks for other in b.blocks}
        if pairs == {True, False}:
            return
    why = "the arms were measured one after the other without a reversal: a drift looks like an effect"
    yield Finding(Severity.WARNING, "order", f"{a.design or '?'} and {b.design or '?'}", why, _ABBA)
