"""Faults and what a validation has to make of them: who is wrong, who lies, who is silent, and the verdict.

A fault is set in the engine where the engine has it, and around it (pods, logs, metrics pages) where it does not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.validation.engines import BASELINE_ARGS, SPEC_ARGS, SPECULATIVE, Engine
from tests.validation.kube_server import KubeServer

Change = Callable[["Scene"], object]


@dataclass
class Scene:
    """What a validation will see, before it is run: the pod and its log may be changed, and pages of its engine."""

    kube: KubeServer
    engine: Engine
    pod: dict[str, Any]
    rewrite: dict[str, Callable[[str], str]] = field(default_factory=dict)

    @property
    def container(self) -> dict[str, Any]:
        found: dict[str, Any] = self.pod["spec"]["containers"][0]
        return found

    @property
    def log(self) -> str:
        return self.kube.logs[self.engine.name, False]

    @log.setter
    def log(self, text: str) -> None:
        self.kube.logs[self.engine.name, False] = text


@dataclass(frozen=True)
class Case:
    """One fault. readings: of the five witnesses in order, "*" is any: an engine that outruns its reader merges chunks.

    args, version, faults, env: of the engine; declared: args of the recipe (None: the engine's); change: what the
    cluster says instead of the truth; says: a pattern of the verdict's sentence or notes.
    """

    name: str
    verdict: str
    readings: str
    args: Sequence[str] = SPEC_ARGS
    faults: Mapping[str, Any] = field(default_factory=dict)
    declared: Sequence[str] | None = None
    change: Change = lambda scene: None
    says: str = ""
    version: str = "0.23.0"
    env: Mapping[str, str] = field(default_factory=dict)


OTHER_K = (*BASELINE_ARGS, f"--speculative-config={SPECULATIVE.replace('5', '3')}")
OTHER_WINDOW = (*BASELINE_ARGS, f"--speculative-config={SPECULATIVE.replace('2}', '3}')}")
OTHER_LENGTH = tuple(arg.replace("8192", "4096") for arg in SPEC_ARGS)
NO_THINKING = (*SPEC_ARGS, '--default-chat-template-kwargs={"enable_thinking": false}')
PARSED = (*NO_THINKING, "--reasoning-parser=qwen3")
NO_CHAT = {"status": {"/v1/chat/completions": 404}}
NO_PAGE = {"status": {"/metrics": 404}}


def pod_args(args: Sequence[str]) -> Change:
    return lambda scene: scene.container.update(args=list(args))


def image(name: str) -> Change:
    return lambda scene: scene.container.update(image=name)


def forbid(resource: str) -> Change:
    return lambda scene: scene.kube.forbidden.add(resource)


def in_log(pattern: str, text: str) -> Change:
    """Another text in the log; the pattern has to be there."""

    def change(scene: Scene) -> None:
        scene.log, count = re.subn(pattern, text, scene.log)
        assert count, pattern

    return change


def rotated(scene: Scene) -> None:
    """The log from its first access line on."""
    scene.log = scene.log[scene.log.index("GET /health") :]


def counts(pattern: str, text: str) -> Change:
    """Other numbers on the engine's page of metrics."""

    def change(scene: Scene) -> None:
        scene.rewrite["/metrics"] = lambda page: re.sub(pattern, text, page)

    return change


def second_engine(page: str) -> str:
    """A series of another engine beside each one, and what the client libraries add."""
    doubled = re.sub(
        r"^(vllm:\w+\{.*)engine=\"0\"(.*\}) (\S+)$", r'\g<0>\n\1engine="1"\2 7.0', page, flags=re.MULTILINE
    )
    return re.sub(
        r"^(vllm:spec_decode_\w+)_total(\{.*\}) \S+$", r"\g<0>\n\1_created\2 1.7e+09", doubled, flags=re.MULTILINE
    )


def two_engines(scene: Scene) -> None:
    scene.rewrite["/metrics"] = second_engine


ACCEPTED_NONE = counts(r"(accepted_tokens(?:_per_pos)?_total\{.*\}) \S+", r"\1 0.0")

# The engine, or what was declared of it, is wrong, and no witness lies.
FAULTS = [
    Case("speculating", "speculating", "on on on on on"),
    Case("V2 runner", "speculating", "on on on on on", version="0.33.0"),
    Case("keep-alive comments", "speculating", "on on on on on", faults={"keep_alive_comments": True}),
    Case("e46: thinking, which nobody declared off", "speculating", "on on on on on", faults={"think": True}),
    Case("thinking declared off, and off", "speculating", "on on on on on", NO_THINKING),
    Case("thinking told apart, and off", "speculating", "on on on on on", PARSED),
    Case("a log of another year's colours", "speculating", "on on on on on", version="0.11.2"),
    Case("arguments from the environment", "speculating", "on on on on on",
         (*SPEC_ARGS, "--max-num-seqs=$(SEQS)"), env={"SEQS": "4"}),
    Case("a baseline", "baseline", "off off off off *", BASELINE_ARGS),
    Case("e20: a baseline whose start was rotated away", "baseline", "off off unknown off *",
         BASELINE_ARGS, change=rotated),
    Case("a baseline read slowly", "baseline", "off off off off on", BASELINE_ARGS, {"merge_steps": 3}),
    Case("comes up without speculation", "declared-but-off", "on on off off *", faults={"ignore_speculation": True},
         says=r"engine log: speculative_config=None; metrics: no counters"),
    Case("e11: flag never forwarded", "declared-but-off", "on off off off *", BASELINE_ARGS, declared=SPEC_ARGS,
         says="live args: no speculative config"),
    Case("e33: never drafts", "on-but-inert", "on on on inert *", faults={"never_draft": True}, says="0 drafts"),
    Case("e33: never accepts", "on-but-inert", "on on on inert *", faults={"acceptance": 0.0}),
    Case("e32: accepts one percent", "on-but-inert", "on on on inert *", faults={"acceptance": 0.02}),
    Case("e17: inert, and nobody declared it", "on-but-inert", "off on on inert *", faults={"never_draft": True},
         declared=BASELINE_ARGS),
    Case("an empty completion", "corrupt-output", "on on on * corrupt", faults={"answer": "empty"}),
    Case("e76: a loop", "corrupt-output", "on on on * corrupt", faults={"answer": "loop"}, says="over and over"),
    Case("garbage", "corrupt-output", "on on on * corrupt", faults={"answer": "garbage"}),
    Case("garbage of a baseline", "corrupt-output", "off off off off corrupt", BASELINE_ARGS, {"answer": "garbage"}),
    Case("another text than asked for", "corrupt-output", "on on on * corrupt", faults={"answer": "prose"}),
    Case("garbage in questions only", "corrupt-output", "on on on on corrupt", faults={"question": "garbage"},
         says="chat: 0 of 3 expected words"),
    Case("a loop in questions only", "corrupt-output", "on on on on corrupt", faults={"question": "loop"},
         says="chat: it repeats"),
    Case("no answer to questions only", "corrupt-output", "on on on on corrupt", faults={"question": "empty"}),
    Case("e06: JSON that breaks off", "corrupt-output", "on on on on corrupt", faults={"guided": "invalid"},
         says="JSON: this is not JSON"),
    Case("e07: a schema without effect", "corrupt-output", "on on on on corrupt", faults={"guided": "ignored"}),
    Case("a schema that ends in a 500", "cannot-tell", "on on on on unknown", faults={"guided": "failing"},
         says="JSON: .* 500"),
    Case("an engine that takes no schema", "speculating", "on on on on on", faults={"guided": "refused"},
         says=r"not known of the answers: JSON \(.*400.*not supported"),
    Case("e46: thinking although declared off", "cannot-tell", "on on on on differs", NO_THINKING, {"think": True},
         says="thinking is declared off, and the answer to edit thinks"),
    Case("e46: thinking in a field of its own", "cannot-tell", "on on on on differs", PARSED, {"think": True}),
    Case("e45: no usage", "cannot-tell", "on on on on unknown", faults={"usage": False}, says="sent no usage"),
    Case("a stream cut off", "cannot-tell", "on on on on unknown", faults={"cut_stream": True}),
    Case("a 404", "cannot-tell", "on on on unknown unknown", faults=NO_CHAT),
    Case("dies while it answers", "cannot-tell", "on on on * unknown", faults={"crash_after": 1}),
    Case("e27: counters switched off", "cannot-tell", "on on on unknown *", (*SPEC_ARGS, "--disable-log-stats"),
         says="stand still"),
    Case("another k than declared", "cannot-tell", "on differs differs on on", OTHER_K, declared=SPEC_ARGS,
         says="declared speculative config ngram, 5 tokens, .*, in the pod speculative config ngram, 3 tokens"),
    Case("another window than declared", "cannot-tell", "on differs differs on on", OTHER_WINDOW, declared=SPEC_ARGS),
    Case("another context than declared", "cannot-tell", "on differs differs on on", OTHER_LENGTH, declared=SPEC_ARGS,
         says="live args: --max-model-len: declared 8192, in the pod 4096; engine log: --max-model-len: declared 8192, "
              "started with 4096"),
    Case("a baseline with a flag that nobody declared", "cannot-tell", "off differs off off *",
         (*BASELINE_ARGS, "--enforce-eager"), declared=BASELINE_ARGS,
         says="--enforce-eager: declared nothing, in the pod true"),
]  # fmt: skip

# The engine speculates as declared (or not), and one witness says otherwise.
LIES = [
    Case("declared", "speculating", "off on on on on", declared=BASELINE_ARGS, says="but the recipe declares none"),
    Case("pod without the flag", "cannot-tell", "on off on on on", change=pod_args(BASELINE_ARGS),
         says="disagree: .* for speculation, live args"),
    Case("pod with another k", "cannot-tell", "on differs on on on", change=pod_args(OTHER_K)),
    Case("pod with another image", "cannot-tell", "on differs differs on on",
         change=image("vllm/vllm-openai:v0.26.0"), declared=SPEC_ARGS,
         says="the image tag says 0.26.0, the log says 0.23.0"),
    Case("config line", "cannot-tell", "on on off on on", faults={"lie": "config_line"}),
    Case("args line", "cannot-tell", "on on differs on on", faults={"lie": "args_line"},
         says="declared speculative config ngram, 5 tokens, .*, started with no speculative config"),
    Case("config line, another method", "cannot-tell", "on on differs on on",
         change=in_log("SpeculativeConfig\\(method='ngram'", "SpeculativeConfig(method='suffix'"),
         says="declared method ngram, the engine says suffix"),
    Case("version", "cannot-tell", "on on differs on on", faults={"lie": "version"},
         says=r"the image tag says 0\.23\.0, /version says 0\.10\.0"),
    Case("version in the log", "cannot-tell", "on on differs on on",
         change=in_log(r"engine \(v0\.23\.0\)", "engine (v0.22.1)"), says=r"the log says 0\.22\.1"),
    Case("runner", "cannot-tell", "on on differs on on", version="0.32.0", env={"VLLM_USE_V2_MODEL_RUNNER": "1"},
         change=in_log("$", "\n(APIServer pid=1) WARNING 11-30 21:41:03 [vllm.py:725] Model Runner V2 requires Triton; "
                       "using the V1 model runner instead."),
         says="VLLM_USE_V2_MODEL_RUNNER asks for model runner V2, the engine says V1"),
    Case("scheduling", "cannot-tell", "on on differs on on", (*SPEC_ARGS, "--no-async-scheduling"),
         change=in_log("Asynchronous scheduling is disabled", "Asynchronous scheduling is enabled"),
         says="declared --no-async-scheduling, the engine says asynchronous scheduling on"),
    Case("counters that are not there", "cannot-tell", "on on on off on", faults={"lie": "metrics"}),
    Case("counters that accept nothing", "on-but-inert", "on on on inert on", change=ACCEPTED_NONE),
    Case("chunks of one token", "cannot-tell", "on on on on off", faults={"split_steps": True}),
    Case("an answer of garbage", "corrupt-output", "on on on * corrupt", faults={"answer": "garbage"}),
]  # fmt: skip
BASELINE_LIES = [
    Case("declared", "declared-but-off", "on off off off *", BASELINE_ARGS, declared=SPEC_ARGS),
    Case("pod with the flag", "cannot-tell", "off on off off *", BASELINE_ARGS, change=pod_args(SPEC_ARGS)),
    Case("config line", "cannot-tell", "off off on off *", BASELINE_ARGS, {"lie": "config_line"}),
    Case("args line", "cannot-tell", "off off differs off *", BASELINE_ARGS, {"lie": "args_line"},
         says="declared no speculative config, started with speculative config ngram"),
    Case("version", "cannot-tell", "off off differs off *", BASELINE_ARGS, {"lie": "version"}),
    Case("counters that should not be there", "cannot-tell", "off off off inert *", BASELINE_ARGS, {"lie": "metrics"}),
    Case("several tokens a chunk", "baseline", "off off off off on", BASELINE_ARGS, {"merge_steps": 3}),
    Case("an answer of garbage", "corrupt-output", "off off off off corrupt", BASELINE_ARGS, {"answer": "garbage"}),
]  # fmt: skip
_OFF, _INERT = {"ignore_speculation": True}, {"never_draft": True}
WRONG_LIES = [
    Case("off, the pod lacks it", "declared-but-off", "on off off off *", faults=_OFF, change=pod_args(BASELINE_ARGS)),
    Case("off, config line", "cannot-tell", "on on differs off *", faults={**_OFF, "lie": "config_line"}),
    Case("off, counters", "cannot-tell", "on on off inert *", faults={**_OFF, "lie": "metrics"}),
    Case("off, chunks", "declared-but-off", "on on off off on", faults={**_OFF, "merge_steps": 3}),
    Case("inert, the pod lacks it", "cannot-tell", "on off on inert *", faults=_INERT, change=pod_args(BASELINE_ARGS)),
    Case("inert, config line", "cannot-tell", "on on off inert *", faults={**_INERT, "lie": "config_line"}),
    Case("inert, counters", "cannot-tell", "on on on off *", faults={**_INERT, "lie": "metrics"}),
    Case("inert, chunks", "on-but-inert", "on on on inert on", faults={**_INERT, "merge_steps": 3}),
]  # fmt: skip

# What a witness is silent about, in each truth: live args and log (pods may not be listed), log, metrics, behaviour.
_TRUTHS: dict[str, tuple[Sequence[str], Mapping[str, Any], str]] = {
    "speculating": (SPEC_ARGS, {}, "on on on on on"),
    "baseline": (BASELINE_ARGS, {}, "off off off off *"),
    "on-but-inert": (SPEC_ARGS, _INERT, "on on on inert *"),
    "declared-but-off": (SPEC_ARGS, _OFF, "on on off off *"),
    "corrupt-output": (SPEC_ARGS, {"answer": "garbage"}, "on on on * corrupt"),
}
_SILENT: dict[str, tuple[tuple[int, ...], Change, Mapping[str, Any]]] = {
    "pods may not be read": ((1, 2), forbid("pods"), {}),
    "logs may not be read": ((2,), forbid("pods/log"), {}),
    "start-up lines rotated away": ((2,), rotated, {}),
    "no page of metrics": ((3,), lambda scene: None, NO_PAGE),
    "no usage": ((4,), lambda scene: None, {"usage": False}),
}
# Where it is another one than with the witness.
_WITHOUT = {
    ("speculating", "pods may not be read"): "cannot-tell",
    ("speculating", "no page of metrics"): "cannot-tell",
    ("speculating", "no usage"): "cannot-tell",
    ("baseline", "pods may not be read"): "cannot-tell",
    ("baseline", "no usage"): "cannot-tell",
    ("on-but-inert", "no page of metrics"): "cannot-tell",
    ("on-but-inert", "no usage"): "cannot-tell",
}


def _silent() -> list[Case]:
    found = []
    for truth, (args, faults, readings) in _TRUTHS.items():
        for silence, (places, change, more) in _SILENT.items():
            words = readings.split()
            for place in places:
                # A text of garbage needs no usage to be garbage.
                words[place] = words[place] if words[place] == "corrupt" else "unknown"
            verdict = _WITHOUT.get((truth, silence), truth)
            found.append(Case(f"{truth}, {silence}", verdict, " ".join(words), args, {**faults, **more}, change=change))
    return found


SILENCES = _silent()

# Logs and pages as public reports have them.
REPORTS = [
    Case("e18: the witness line of 0.23", "speculating", "on on on on on",
         change=in_log(r"speculative_config=SpeculativeConfig\(.*?\),",
                       "speculative_config=SpeculativeConfig(method='ngram', model=None, num_spec_tokens=5),")),
    Case("e19: the older form of the witness line", "speculating", "on on on on on",
         change=in_log(r"SpeculativeConfig\(.*?\)", "SpeculativeConfig(method='ngram', num_spec_tokens=5)")),
    Case("e20: the absence is proven by its line", "baseline", "off off off off *", BASELINE_ARGS),
    Case("e22: a window without a draft", "on-but-inert", "on on on inert *", faults={"never_draft": True},
         change=in_log("$", "\n(APIServer pid=1) INFO 11-30 20:24:03 [metrics.py:101] SpecDecoding metrics: Mean "
                       "acceptance length: nan, Accepted throughput: 0.00 tokens/s, Drafted throughput: 0.00 tokens/s, "
                       "Accepted: 0 tokens, Drafted: 0 tokens, Per-position acceptance rate: , Avg Draft acceptance "
                       "rate: nan%")),
    Case("e24: two engines of one model", "speculating", "on on on on on", change=two_engines),
    Case("e34: every step drafts", "speculating", "on on on on on", version="0.33.0"),
    Case("a tag that is no version", "speculating", "on on on on on", change=image("vllm/vllm-openai:latest"),
         declared=SPEC_ARGS, says="names no release"),
    Case("a build of its own", "speculating", "on on on on on", change=in_log(r"\(v0\.23\.0\)", "(v0.23.0+cu129)")),
    Case("a tag without a patch release", "speculating", "on on on on on", change=image("vllm/vllm-openai:v0.23")),
    Case("a registry's mirror", "speculating", "on on on on on", change=image("mirror.example/vllm-openai:v0.23.0")),
    Case("what a platform adds", "speculating", "on on on on on",
         change=pod_args((*SPEC_ARGS, "--host=0.0.0.0", "--port", "8000"))),
    Case("the same in other words", "speculating", "on on on on on",
         change=pod_args(("--model", "Qwen/Qwen3-8B", "--served-model-name", "qwen", "--max_model_len=8192",
                          "--speculative-config", json.dumps(dict(reversed(json.loads(SPECULATIVE).items())))))),
    Case("a log that names no arguments", "speculating", "on on on on on", change=in_log("non-default args: .*", "…")),
    Case("a runner that the version would not take", "speculating", "on on on on on", version="0.32.0",
         env={"VLLM_USE_V2_MODEL_RUNNER": "0"}, says="model runner V1 serves n-gram, where vLLM 0.32.0 takes V2"),
]  # fmt: skip
