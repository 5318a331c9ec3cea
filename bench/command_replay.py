"""`python -m bench replay LOGS --tokenizer T`: what n-gram speculation would have accepted on logged answers.

LOGS: JSON lines (OpenAI requests with responses, conversations, or prompt and completion), or a log of vLLM with
prompts and answers. Exit status: 0 replayed, 2 wrong usage, or nothing to replay.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.logs import encoder, read
from bench.replay import Place, Setting, markdown, replay
from engine.findings import Finding, Problems, Severity
from engine.fit import GPUS, gpu_named
from engine.models import MODELS, model_facts
from engine.speculative import check_speculative
from engine.versions import EngineVersion

USAGE_ERROR = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit status is described above."""
    options = _parser().parse_args(argv)
    try:
        setting = _setting(options.min, options.max, options.k)
        found = replay(
            read(_content(options.logs)),
            options.tokenizer,
            encoder(options.tokenizer),
            setting,
            match=options.match,
            max_model_len=options.max_model_len,
            place=_place(options.model, options.gpu, options.concurrency),
            tune=options.tune,
        )
    except Problems as problems:
        print(problems, file=sys.stderr)
        return USAGE_ERROR
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return USAGE_ERROR
    print(json.dumps(found.to_json(), indent=2, ensure_ascii=False) if options.json else markdown(found), end="")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m bench replay", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("logs", metavar="LOGS", help="file of logged prompts and answers, - for standard input")
    parser.add_argument("--tokenizer", required=True, metavar="T", help="path of a tokenizer.json, or bytes, or words")
    parser.add_argument("--k", type=int, default=5, help="num_speculative_tokens (default 5)")
    parser.add_argument("--min", type=int, default=2, help="prompt_lookup_min (default 2)")
    parser.add_argument("--max", type=int, default=4, help="prompt_lookup_max (default 4)")
    parser.add_argument(
        "--match", choices=("leftmost", "rightmost"), default="leftmost",
        help="the copy that is followed: leftmost as the V1 runner (default), rightmost as V2",
    )  # fmt: skip
    parser.add_argument("--max-model-len", type=int, metavar="TOKENS", help="of the engine (default: no limit)")
    parser.add_argument("--gpu", metavar="GPU", help=f"predict for this one: {', '.join(GPUS)}")
    parser.add_argument("--model", default="Qwen/Qwen3-8B", help="model of the prediction (default Qwen/Qwen3-8B)")
    parser.add_argument("--concurrency", type=int, default=1, help="requests decoded together (default 1)")
    parser.add_argument("--tune", action="store_true", help="look for the best k, min and max")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def _setting(lowest: int, highest: int, k: int) -> Setting:
    raw = {"method": "ngram", "num_speculative_tokens": k, "prompt_lookup_min": lowest, "prompt_lookup_max": highest}
    # The engine's own rules; the version hardly matters for these keys.
    errors = [
        found for found in check_speculative(raw, EngineVersion.of_text("0.23.0")) if found.severity is Severity.ERROR
    ]
    if errors:
        raise Problems(errors)
    return Setting(lowest, highest, k)


def _place(model: str, gpu: str | None, concurrency: int) -> Place | None:
    if gpu is None:
        return None
    facts, found = model_facts(model), gpu_named(gpu)
    if found is None:
        raise Problems([Finding(Severity.ERROR, "--gpu", gpu, "it is not known", f"give one of {', '.join(GPUS)}")])
    if facts is None:
        raise Problems(
            [Finding(Severity.ERROR, "--model", model, "it is not known", f"give one of {', '.join(MODELS)}")]
        )
    if concurrency < 1:
        raise Problems(
            [Finding(Severity.ERROR, "--concurrency", concurrency, "it must be at least 1", "give 1 or more")]
        )
    return Place(facts, found, concurrency)


def _content(name: str) -> str:
    data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    return data.decode("utf-8", "replace")
