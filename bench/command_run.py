"""`python -m bench run`: measure one arm, or both in blocks whose order no drift can favour.

    one arm     --url ADDRESS (or SERVICE_URL in the environment)
    a pair      --baseline ADDRESS --speculative ADDRESS: two engines that run already
    a pair      --switch COMMAND: each block gets a fresh engine. COMMAND is called with ARM and the block's place in
                the order; it ends the engine that runs, makes sure that it is gone, starts this one, waits until it
                serves, and prints one JSON line: {"address": ..., "image": ..., "args": [...], "device": {"gpu": ...,
                "driver": ...}, "replicas": 1, "service_run": ..., "log": FILE}, all but the address optional.
                At the end it is called with "stop".
    a null pair --null with --url or --switch: the same engine as both arms, which gives the noise floor

Exit status: 0 measured, 1 refused or spoilt (what was measured is kept, --resume goes on), 2 wrong usage, 130 Ctrl-C.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.http1 import Url
from bench.plan import Plan
from bench.progress import Progress
from bench.prompts import SHIPPED, load_prompts
from bench.records import Arm
from bench.runner import Experiment
from bench.schedule import Design
from bench.switch import CommandSwitch, GivenAddresses, Placed, Switch
from engine import decode
from engine.findings import Finding, Problems, Severity, errors

_DONE, _REFUSED, _USAGE, _INTERRUPTED = 0, 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    options = _parser().parse_args(argv)
    try:
        plan = read_plan(options)
        switch = _switch(options, plan.arms)
        progress = Progress(sys.stderr, plan.requests, terminal=sys.stderr.isatty())
    except Problems as problems:
        print(problems, file=sys.stderr)
        return _USAGE
    try:
        found = asyncio.run(Experiment(plan, switch, progress).run())
    except Problems as problems:
        progress.say(str(problems))
        return _REFUSED
    except KeyboardInterrupt:
        progress.say(f"interrupted: {plan.out} keeps what was measured; the same command with --resume goes on")
        return _INTERRUPTED
    for finding in found:
        progress.say(finding.line())
    progress.say(f"{'spoilt' if errors(found) else 'measured'}: {plan.out}")
    return _REFUSED if errors(found) else _DONE


def read_plan(options: argparse.Namespace) -> Plan:
    """The plan that the options ask for; Problems when they do not fit together."""
    pair = bool(options.null or options.switch or options.baseline or options.speculative)
    _one_source(options)
    arms, names = _arms(options, pair=pair)
    design = Design(options.order or ("abba" if pair else "single"))
    if pair == (design is Design.SINGLE):
        why = "a pair has blocks of both arms" if pair else "one arm alone has no order of arms"
        raise _wrong("--order", design.value, why, "leave --order out")
    return Plan(
        out=options.out,
        arms=arms,
        names=names,
        design=design,
        prompts=load_prompts(options.prompts),
        concurrencies=tuple(dict.fromkeys(options.concurrency)),
        repeats=options.repeats,
        cycles=options.cycles,
        seed=options.seed,
        max_tokens=options.max_tokens,
        warmup_passes=options.warmup_passes,
        prefix_caching=options.prefix_caching == "on",
        thinking=options.thinking == "leave",
        per_chunk=options.usage_per_chunk == "on",
        model=options.model,
        headers=_headers(options.token_env, options.token_scheme),
        service_run=options.service_run,
        location=options.location,
        network_path=options.network_path,
        patience_s=options.patience,
        resume=options.resume,
    )


def _one_source(options: argparse.Namespace) -> None:
    """Exactly one way to an engine."""
    if not (options.switch or options.baseline or options.speculative):
        options.url = options.url or os.environ.get("SERVICE_URL", "")
    given = [name for name in ("url", "switch", "baseline") if getattr(options, name)]
    if len(given) != 1 or bool(options.baseline) != bool(options.speculative):
        remedy = "give --url (or SERVICE_URL), or --baseline and --speculative, or --switch"
        raise _wrong("address", " and ".join(f"--{name}" for name in given) or None, "not one way to engines", remedy)
    if options.null and options.baseline:
        raise _wrong("--null", None, "a null pair is one engine twice", "give --url or --switch")


def _arms(options: argparse.Namespace, *, pair: bool) -> tuple[dict[str, Arm], dict[str, str]]:
    """Arms and names by side."""
    arm = Arm(options.arm) if options.arm else Arm.BASELINE if options.switch else Arm.UNKNOWN
    if options.null:
        return {"A": arm, "B": arm}, {"A": "null-a", "B": "null-b"}
    if pair:
        if options.arm:
            raise _wrong("--arm", options.arm, "a pair has both arms", "leave --arm out")
        return {"A": Arm.BASELINE, "B": Arm.SPECULATIVE}, {"A": "baseline", "B": "speculative"}
    return {"A": arm}, {"A": arm.value if options.arm else "run"}


def _switch(options: argparse.Namespace, arms: Mapping[str, Arm]) -> Switch:
    facts = _facts(options.facts)
    if options.switch:
        return CommandSwitch(options.switch, options.switch_timeout)
    addresses = {Arm.BASELINE: options.baseline, Arm.SPECULATIVE: options.speculative}
    engines = {}
    for arm in arms.values():
        address = options.url or addresses[arm]
        Url.parse(address)
        told = {"address": address, **facts.get(arm.value, facts.get("engine", {}))}
        engines[arm] = decode.build(Placed, told, "facts")
    return GivenAddresses(engines)


def _facts(path: Path | None) -> dict[str, dict[str, object]]:
    """What is known of engines at given addresses: {"baseline": {...}, "speculative": {...}} or {"engine": {...}}."""
    if path is None:
        return {}
    try:
        facts = decode.load_object(path.read_bytes(), str(path))
    except OSError as problem:
        raise _wrong("--facts", str(path), str(problem.strerror), "give a JSON file") from problem
    for name, value in facts.items():
        if name not in {"engine", *Arm} or not isinstance(value, dict):
            raise _wrong(f"{path}.{name}", value, "not the facts of an arm", "give baseline, speculative or engine")
    return facts


def _headers(variable: str, scheme: str) -> dict[str, str]:
    token = os.environ.get(variable, "").strip()
    if not token.isascii() or not token.isprintable() or " " in token:
        raise _wrong(variable, "***", "not a token: it has spaces or signs that no header can carry", "set it anew")
    return {"Authorization": f"{scheme} {token}"} if token else {}


def _wrong(path: str, value: object, why: str, remedy: str) -> Problems:
    return Problems([Finding(Severity.ERROR, path, value, why, remedy)])


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not 1 or more")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m bench run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    where = parser.add_argument_group("where")
    where.add_argument("--url", default="", help="address of one arm, without /v1; its prefix is kept")
    where.add_argument("--baseline", default="", metavar="ADDRESS")
    where.add_argument("--speculative", default="", metavar="ADDRESS")
    where.add_argument("--switch", default="", metavar="COMMAND", help="places a fresh engine for each block")
    where.add_argument("--switch-timeout", type=float, default=1800.0, metavar="SECONDS")
    where.add_argument("--null", action="store_true", help="the same engine as both arms")
    where.add_argument("--arm", choices=[Arm.BASELINE, Arm.SPECULATIVE], help="default: as the engine's counters show")
    where.add_argument("--model", default="", help="the name that clients send (default: the one that it serves)")
    where.add_argument("--facts", type=Path, metavar="FILE", help="JSON: image, args, device, … of given engines")
    where.add_argument("--token-env", default="OPENAI_API_KEY", metavar="NAME", help="variable with the token")
    where.add_argument("--token-scheme", default="Bearer", metavar="WORD", help="Bearer, or token for Polyaxon")
    where.add_argument("--patience", type=float, default=60.0, metavar="SECONDS", help="wait for a service so long")
    what = parser.add_argument_group("what")
    what.add_argument("--prompts", default=SHIPPED[0], help=f"{', '.join(SHIPPED)}, a JSONL file, a folder of texts")
    what.add_argument("--concurrency", type=_positive, nargs="+", default=[1, 4, 8], metavar="N")
    what.add_argument("--repeats", type=_positive, default=10, metavar="N", help="of each case in each arm")
    what.add_argument("--max-tokens", type=_positive, default=128, metavar="N")
    what.add_argument("--thinking", choices=["off", "leave"], default="off")
    what.add_argument("--prefix-caching", choices=["off", "on"], default="off", help="what both arms were started with")
    what.add_argument("--usage-per-chunk", choices=["off", "on"], default="on", help="ask for usage in every chunk")
    how = parser.add_argument_group("how")
    how.add_argument("--order", choices=["abba", "ab"], help="of the arms' blocks (default: abba)")
    how.add_argument("--cycles", type=_positive, default=2, metavar="N", help="ABBA, then BAAB, …")
    how.add_argument("--seed", type=int, default=42, metavar="N", help="of the order of cases")
    how.add_argument("--warmup-passes", type=_positive, default=4, metavar="N", help="at most so many over all cases")
    record = parser.add_argument_group("record")
    record.add_argument("--out", type=Path, required=True, metavar="DIR")
    record.add_argument("--resume", action="store_true", help="go on with the run in --out")
    record.add_argument("--service-run", metavar="ID", help="id of the service's deployment")
    record.add_argument("--location", default="", help="where the client runs, in your words")
    record.add_argument("--network-path", default="", help="how it reaches the service, in your words")
    return parser
