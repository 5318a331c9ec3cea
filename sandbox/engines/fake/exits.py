"""How vLLM ends at start: its message, who says it and the exit code; and the kinds that FAKE_ENGINE.exit asks for."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Literal

from sandbox.engines.fake.log import Log

Where = Literal["parser", "server", "core"]


@dataclass(frozen=True)
class Exit:
    """One end: the error's text as Python prints it last, and who meets it.

    parser: argparse, exit code 2; server: the API server reading its config; core: the engine core, loading the model.
    """

    message: str
    where: Where = "server"
    code: int = 1


def value_error(config: str, message: str) -> Exit:
    """A pydantic error of one of vLLM's config classes, raised by a rule of vLLM's own."""
    lines = [
        f"pydantic_core._pydantic_core.ValidationError: 1 validation error for {config}",
        f"  Value error, {message} [type=value_error, input_value=ArgsKwargs((), {{...}}), input_type=ArgsKwargs]",
        "    For further information visit https://errors.pydantic.dev/2.12/v/value_error",
    ]
    return Exit("\n".join(lines))


def field_error(config: str, field: str, message: str, kind: str, value: object) -> Exit:
    """A pydantic error of one field."""
    lines = [
        f"pydantic_core._pydantic_core.ValidationError: 1 validation error for {config}",
        field,
        f"  {message} [type={kind}, input_value={value!r}, input_type={type(value).__name__}]",
        f"    For further information visit https://errors.pydantic.dev/2.12/v/{kind}",
    ]
    return Exit("\n".join(lines))


def unrecognized(arguments: str) -> Exit:
    return Exit(f"unrecognized arguments: {arguments}", "parser", 2)


def no_fit(max_model_len: int, needed_gib: float, available_gib: float, fitting: int) -> Exit:
    """The KV cache does not hold one request of full length. fitting: tokens that it does hold."""
    return Exit(
        f"ValueError: To serve at least one request with the model's max seq len ({max_model_len}), "
        f"({needed_gib:.2f} GiB KV cache is needed, which is larger than the available KV cache memory "
        f"({available_gib:.2f} GiB). Based on the available memory, the estimated maximum model length is {fitting}. "
        "Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.",
        "core",
    )


NO_BLOCKS = Exit(
    "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing "
    "the engine.",
    "core",
)


def forced(kind: object, model: str) -> Exit:
    """The end that FAKE_ENGINE.exit asks for. ValueError, one line, for an unknown kind."""
    kinds = _kinds(model)
    if isinstance(kind, dict):
        code = kind.get("code", 1)
        return Exit(str(kind.get("message", "RuntimeError: fake")), "server", code if isinstance(code, int) else 1)
    if kind not in kinds:
        raise ValueError(f"error: FAKE_ENGINE.exit: {kind!r}: unknown; known are {', '.join(kinds)}")
    return kinds[str(kind)]


def _kinds(model: str) -> dict[str, Exit]:
    hub = "https://huggingface.co"
    return {
        "cuda_803": Exit(
            "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling "
            "NumCudaDevices() that might have already set an error? Error 803: system has unsupported display driver / "
            "cuda driver combination",
            "core",
        ),
        "kv_cache_too_small": no_fit(16384, 2.25, 1.7, 12368),
        "no_cache_blocks": NO_BLOCKS,
        "out_of_memory": Exit(
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 892.00 MiB. GPU 0 has a total capacity of "
            "22.03 GiB of which 521.06 MiB is free. Including non-PyTorch memory, this process has 21.51 GiB memory in "
            "use. Of the allocated memory 20.87 GiB is allocated by PyTorch, and 122.14 MiB is reserved by PyTorch but "
            "unallocated. If reserved but unallocated memory is large try setting "
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.",
            "core",
        ),
        "free_memory": Exit(
            "ValueError: Free memory on device cuda:0 (14.02/22.03 GiB) on startup is less than desired GPU memory "
            "utilization (0.92, 20.27 GiB). Decrease GPU memory utilization or reduce GPU memory used by other "
            "processes.",
            "core",
        ),
        "gated_model": Exit(
            f"OSError: You are trying to access a gated repo.\nMake sure to have access to it at {hub}/{model}.\n"
            f"401 Client Error. (Request ID: Root=1-0-0)\n\nCannot access gated repo for url {hub}/{model}/resolve/"
            f"main/config.json.\nAccess to model {model} is restricted. You must have access to it and be "
            "authenticated to access it. Please log in."
        ),
        "unknown_model": Exit(
            f"OSError: {model} is not a local folder and is not a valid model identifier listed on '{hub}/models'\n"
            "If this is a private repository, make sure to pass a token having permission to this repo either by "
            "logging in with `hf auth login` or by passing `token=<your_token>`"
        ),
        "no_hub": Exit(
            f"OSError: We couldn't connect to '{hub}' to load the files, and couldn't find them in the cached files.\n"
            "Check your internet connection or see how to run the library in offline mode at "
            "'https://huggingface.co/docs/transformers/installation#offline-mode'."
        ),
        "unsupported_arch": value_error(
            "ModelConfig",
            "Model architectures ['Qwen9ForCausalLM'] are not supported for now. Supported architectures: "
            "dict_keys(['LlamaForCausalLM', 'Qwen3ForCausalLM'])",
        ),
        "disk_full": Exit("OSError: [Errno 28] No space left on device", "core"),
        "unknown_argument": unrecognized("--no-such-flag=1"),
    }


def die(out: Log, end: Exit) -> int:
    """Print what vLLM prints when it ends, last line last. Returns the exit code."""
    if end.where == "parser":
        out.raw("APIServer", "usage: vllm serve [model_tag] [options]")
        out.raw("APIServer", f"vllm serve: error: {end.message}")
    elif end.where == "core":
        out.error("EngineCore", "core.py", "EngineCore failed to start.")
        for line in [*_frames("vllm/v1/engine/core.py", "run_engine_core"), *end.message.splitlines()]:
            out.error("EngineCore", "core.py", line)
        out.raw("EngineCore", "Process EngineCore:")
        for line in [*_frames("vllm/v1/engine/core.py", "run_engine_core"), *end.message.splitlines()]:
            out.raw("EngineCore", line)
        name = out.core_process
        why = "Engine core initialization failed. See root cause above."
        failed = f"RuntimeError: {why} Failed core proc(s): {{'{name}': 1}}"
        for line in [*_frames("vllm/v1/engine/utils.py", "wait_for_engine_startup"), failed]:
            out.raw("APIServer", line)
    else:
        for line in [*_frames("vllm/engine/arg_utils.py", "create_engine_config"), *end.message.splitlines()]:
            out.raw("APIServer", line)
    sys.stdout.flush()
    return end.code


def _frames(file: str, function: str) -> list[str]:
    return [
        "Traceback (most recent call last):",
        f'  File "/usr/local/lib/python3.12/dist-packages/{file}", line 1, in {function}',
    ]
