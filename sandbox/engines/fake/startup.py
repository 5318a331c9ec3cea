"""The fake engine's own lines: at start in vLLM's order, then every ten seconds, and when its core dies."""

from __future__ import annotations

import time

from engine.versions import Version
from sandbox.engines.fake.api import ROUTES
from sandbox.engines.fake.core import Core
from sandbox.engines.fake.counters import Counters
from sandbox.engines.fake.log import Log
from sandbox.engines.fake.plan import Plan

# A pause between two SpecDecoding lines is measured from the line before; the first counts from the start, as in vLLM.
_LOGO = (
    "",
    "       █     █     █▄   ▄█",
    " ▄▄ ▄█ █     █     █ ▀▄▀ █  version {version}",
    "  █▄█▀ █     █     █     █  model   {model}",
)


def before_loading(out: Log, plan: Plan) -> None:
    """From the first line to the one that names the config."""
    features, sources = plan.version.features, out.sources
    if features.since < Version(0, 16):
        out.info("APIServer", sources.args.partition(":")[0] + ":1977", f"vLLM API server version {plan.version_text}")
    else:
        for line in (*_LOGO, "   ▀▀  ▀▀▀▀▀ ▀▀▀▀▀ ▀     ▀", ""):
            out.info(
                "APIServer",
                sources.args.partition(":")[0] + ":347",
                line.format(version=plan.version_text, model=plan.model),
            )
    out.info("APIServer", sources.args, f"non-default args: {dict(plan.shown_args)}")
    out.info("APIServer", "model.py:733", f"Using max model len {plan.max_model_len}")
    _scheduling(out, plan)
    if plan.config is not None and plan.runner == "V1":
        _runner(out, plan)
    out.info(
        "EngineCore", sources.core, f"Initializing a V1 LLM engine (v{plan.version_text}) with config: {_config(plan)}"
    )
    if plan.config is not None:
        extra = "min_p, logit_bias, and min_tokens parameters won't currently work with speculative decoding enabled."
        later = "min_p and logit_bias parameters won't work with speculative decoding."
        out.warning("Worker", "__init__.py:211", later if features.min_p_refused else extra)
    out.info("Worker", "gpu_model_runner.py:3259", f"Starting to load model {plan.model}...")


def after_loading(out: Log, plan: Plan) -> None:
    """From loaded weights to the server's readiness."""
    device = "CPU" if plan.device == "cpu" else "GPU"
    out.info("Worker", "default_loader.py:314", f"Loading weights took {plan.settings.load_seconds:.2f} seconds")
    out.info("Worker", "gpu_worker.py:375", f"Available KV cache memory: {_kv_gib(plan):.2f} GiB")
    size = f"{device} KV cache size: {plan.kv_tokens:,} tokens"
    times = plan.kv_tokens / plan.max_model_len
    fits = f"Maximum concurrency for {plan.max_model_len:,} tokens per request: {times:.2f}x"
    if plan.version.features.kv_size_and_concurrency_in_one_line:
        out.info("EngineCore", out.sources.kv, f"{size}, {fits}")
    else:
        out.info("EngineCore", out.sources.kv, size)
        out.info("EngineCore", out.sources.kv, fits)
    out.info("EngineCore", "core.py:402", "init engine (profile, create kv cache, warmup model) took 0.10 seconds")
    out.info("APIServer", "api_server.py:140", f"Starting vLLM API server 0 on http://{plan.host}:{plan.port}")
    out.info("APIServer", "launcher.py:38", "Available routes are:")
    for path, methods in ROUTES.items():
        out.info("APIServer", "launcher.py:46", f"Route: {path}, Methods: {', '.join(methods)}")
    for line in ("Started server process [1]", "Waiting for application startup.", "Application startup complete."):
        out.raw("APIServer", f"INFO:     {line}")


def _scheduling(out: Log, plan: Plan) -> None:
    """What is said about async scheduling, which n-gram on the V1 runner turns off."""
    features = plan.version.features
    if plan.config is None or plan.runner == "V2":
        if features.async_line:
            out.info("APIServer", "vllm.py:999", "Asynchronous scheduling is enabled.")
    elif features.async_by_default:
        kept = "Async scheduling not supported with ngram-based speculative decoding and will be disabled."
        out.warning("APIServer", "vllm.py:974", kept)
        if features.async_line:
            out.info("APIServer", "vllm.py:1001", "Asynchronous scheduling is disabled.")
    elif features.since < Version(0, 12):
        old = "Async scheduling is not yet supported with speculative decoding  or pipeline_parallel_size > 1"
        out.warning("APIServer", "vllm.py:420", f"{old} and will be disabled.")


def _runner(out: Log, plan: Plan) -> None:
    minor = plan.version.features.since.minor
    if minor >= 32:
        out.warning("APIServer", "vllm.py:725", "Model Runner V2 requires Triton; using the V1 model runner instead.")
    elif minor >= 29:
        out.warning(
            "APIServer",
            "vllm.py:725",
            "Model Runner V2 does not yet support speculative method 'ngram'; using the V1 model runner instead.",
        )
    elif minor >= 23:
        why = "Model Runner V2 does not yet support ngram/ngram_gpu speculative decoding;"
        out.warning("APIServer", "vllm.py:725", f"{why} using the V1 model runner instead.")


def _config(plan: Plan) -> str:
    """The config string, in vLLM's order."""
    minor = plan.version.features.since.minor
    args = plan.args
    speculative = "None"
    if (plan.config is not None) != (plan.settings.lie == "config_line"):
        method = plan.config.method if plan.config else "ngram"
        k = plan.config.num_speculative_tokens if plan.config else 5
        # ngram_gpu prints the target model as if it were a draft model.
        draft = repr(plan.model) if method == "ngram_gpu" else repr(plan.config.model if plan.config else None)
        speculative = f"SpeculativeConfig(method={method!r}, model={draft}, num_spec_tokens={k})"
    eager, cached = args.enabled("enforce-eager") is True, args.enabled("enable-prefix-caching") is not False
    dtype = {"half": "float16", "float16": "float16", "float32": "float32"}.get(args.value("dtype") or "", "bfloat16")
    tp, pp = args.number("tensor-parallel-size") or 1, args.number("pipeline-parallel-size") or 1
    parts = [
        f"model={plan.model!r}, speculative_config={speculative}, tokenizer={plan.model!r}, skip_tokenizer_init=False",
        f"tokenizer_mode=auto, revision={args.value('revision')}, tokenizer_revision=None, trust_remote_code=False",
        f"dtype=torch.{dtype}, max_seq_len={plan.max_model_len}, download_dir=None, load_format=auto",
        f"tensor_parallel_size={tp}, pipeline_parallel_size={pp}, data_parallel_size=1",
        *(["decode_context_parallel_size=1, dcp_comm_backend=ag_rs"] if minor >= 23 else []),
        "disable_custom_all_reduce=False, quantization=None",
        *(["quantization_config=None"] if minor >= 23 else []),
        f"enforce_eager={eager}",
        *(["enable_return_routed_experts=False"] if 23 <= minor < 30 else []),
        *(
            ["aux_output_config=AuxOutputConfig(enable_return_routed_experts=False, max_bytes=None)"]
            if minor >= 30
            else []
        ),
        f"kv_cache_dtype=auto, device_config={plan.device}",
        "structured_outputs_config=StructuredOutputsConfig(backend='auto', disable_fallback=False)",
        "observability_config=ObservabilityConfig(show_hidden_metrics_for_version=None, otlp_traces_endpoint=None)",
        f"seed=0, served_model_name={plan.names[0]}, enable_prefix_caching={cached}, enable_chunked_prefill=True",
        "pooler_config=None, compilation_config={'mode': 0, 'backend': 'inductor'}",
        *(
            ["kernel_config=KernelConfig(ir_op_priority=IrOpPriorityConfig(rms_norm=['native']))"]
            if minor >= 23
            else []
        ),
    ]
    return ", ".join(parts)


def _kv_gib(plan: Plan) -> float:
    from engine.models import model_facts  # noqa: PLC0415 - only the log needs it

    facts = model_facts(plan.model)
    return plan.kv_tokens * (facts.kv_bytes_per_token() if facts else 2**17) / 2**30


class Periodic:
    """The Engine line and the SpecDecoding line of each interval, by vLLM's rules of when they are left out."""

    def __init__(self, out: Log, plan: Plan, core: Core) -> None:
        self._out, self._plan, self._counters = out, plan, core.counters
        self._last = self._last_spec = time.monotonic()
        self._idle = 0
        servers = plan.args.number("api-server-count") or 1
        self.enabled = servers == 1 and plan.args.enabled("disable-log-stats") is not True

    def tick(self) -> None:
        """An interval has passed."""
        counters, now = self._counters, time.monotonic()
        window = counters.take_window()
        seconds, self._last = now - self._last, now
        busy = counters.running or counters.waiting or window.prompt or window.generated
        self._idle = 0 if busy else self._idle + 1
        if self._idle > 1:
            return
        self._out.info(
            "APIServer",
            self._out.sources.stats,
            self._engine(window.prompt / seconds, window.generated / seconds, counters),
        )
        if window.drafts:
            since, self._last_spec = now - self._last_spec, now
            accepted, drafted = window.accepted, window.drafted
            rates = ", ".join(f"{count / window.drafts:.3f}" for count in window.per_position)
            self._out.info(
                "APIServer",
                self._out.sources.spec,
                f"SpecDecoding metrics: Mean acceptance length: {1 + accepted / window.drafts:.2f}, "
                f"Accepted throughput: {accepted / since:.2f} tokens/s, "
                f"Drafted throughput: {drafted / since:.2f} tokens/s, "
                f"Accepted: {accepted} tokens, Drafted: {drafted} tokens, Per-position acceptance rate: {rates}, "
                f"Avg Draft acceptance rate: {100 * accepted / drafted:.1f}%",
            )

    def _engine(self, prompt: float, generation: float, counters: Counters) -> str:
        features = self._plan.version.features
        device = "CPU" if features.kv_usage_names_device and self._plan.device == "cpu" else "GPU"
        usage = 100 * counters.held_tokens / self._plan.kv_tokens
        cached = self._plan.args.enabled("enable-prefix-caching") is not False
        hits = ", Prefix cache hit rate: 0.0%" if features.prefix_cache_rate_always or cached else ""
        return (
            f"Engine 000: Avg prompt throughput: {prompt:.1f} tokens/s, "
            f"Avg generation throughput: {generation:.1f} tokens/s, Running: {counters.running} reqs, "
            f"Waiting: {counters.waiting} reqs, {device} KV cache usage: {usage:.1f}%{hits}"
        )


def core_died(out: Log) -> None:
    """What is printed when the engine core ends while serving."""
    out.error("EngineCore", "core.py:1108", "EngineCore encountered a fatal error.")
    out.error("EngineCore", "core.py:1108", "Traceback (most recent call last):")
    out.error(
        "EngineCore", "core.py:1108", "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
    )
    out.error("APIServer", "async_llm.py:708", "AsyncLLM output_handler failed.")
    out.error("APIServer", "async_llm.py:708", "Traceback (most recent call last):")
    dead = "EngineCore encountered an issue. See stack trace (above) for the root cause."
    out.error("APIServer", "async_llm.py:708", f"vllm.v1.engine.exceptions.EngineDeadError: {dead}")
