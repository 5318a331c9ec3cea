"""Runs Pulumi programs in Python for a Pulumi CLI that came without its language hosts (`pulumi-language-python`).

Claims: `Run`, `Handshake`, `GetRequiredPackages`, `GetPluginInfo`, `About` as CLI 3.274 calls them; a program has its
own folder as working directory and first on sys.path; an unhandled exception is shown with the program's own frames.
Does not claim: choosing an environment (it is the one this runs in), installing dependencies, templates, generation.

Started by the launcher as a script, with the engine's address as last argument; prints the port it listens on.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading
import time
import traceback
from concurrent import futures
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

# As a script, Python puts this file's folder first: its modules are not for programs, nor for the SDK to stumble over.
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).resolve().parent]

import grpc  # type: ignore[import-untyped, unused-ignore]  # noqa: E402
import pulumi  # noqa: E402
from pulumi.automation import _server  # noqa: E402
from pulumi.runtime._grpc_settings import _GRPC_CHANNEL_OPTIONS  # noqa: E402
from pulumi.runtime.proto import language_pb2, language_pb2_grpc, plugin_pb2  # noqa: E402

# How often to see whether the CLI that started this is still there (it may be killed without a word). Seconds.
_PARENT_SECONDS = 1.0


class _Log:
    """The SDK's log, for its server, without what only echoes an error that the engine has shown already."""

    @staticmethod
    def error(message: str) -> None:
        if not message.startswith("Resource monitor has terminated"):
            pulumi.log.error(message)

    debug = staticmethod(pulumi.log.debug)


class Host(_server.LanguageServer):  # type: ignore[misc, unused-ignore]
    """The SDK's own service (of its Automation API), for a program in a folder."""

    def __init__(self, engine_address: str) -> None:
        super().__init__(lambda: None)
        self._engine_address = engine_address

    def Handshake(self, request: Any, context: Any) -> Any:  # noqa: ANN401, N802, ARG002
        return language_pb2.LanguageHandshakeResponse()

    def GetRequiredPackages(self, request: Any, context: Any) -> Any:  # noqa: ANN401, N802, ARG002
        # None up front: each resource names its provider and the version of its SDK.
        return language_pb2.GetRequiredPackagesResponse()

    def GetPluginInfo(self, request: Any, context: Any) -> Any:  # noqa: ANN401, N802, ARG002
        return plugin_pb2.PluginInfo(version=_sdk_version())

    def GetProgramDependencies(self, request: Any, context: Any) -> Any:  # noqa: ANN401, N802, ARG002
        return language_pb2.GetProgramDependenciesResponse()

    def Cancel(self, request: Any, context: Any) -> Any:  # noqa: ANN401, N802, ARG002
        _end()

    def Run(self, request: Any, context: Any) -> Any:  # noqa: ANN401, N802
        folder = Path(request.info.program_directory or request.pwd or ".")
        entry = folder / (request.info.entry_point or request.program or ".")
        os.chdir(request.pwd or folder)
        sys.path.insert(0, str(entry if entry.is_dir() else entry.parent))
        # The SDK reads the engine's address from here.
        request.args[:] = [self._engine_address]
        self.program = lambda: _run_program(entry)
        response = super().Run(request, context)  # type: ignore[no-untyped-call]
        if response.error:
            # It has been logged where it arose: the engine shall not say it again.
            return language_pb2.RunResponse(bail=True)
        return response


def _run_program(entry: Path) -> None:
    try:
        runpy.run_path(str(entry), run_name="__main__")
    except pulumi.RunError:
        raise
    except SystemExit as ended:
        if ended.code not in (None, 0):
            raise pulumi.RunError(f"the program ended itself with {ended.code}") from None
    except Exception as error:  # noqa: BLE001 - whatever a program raises is shown, in the SDK's own way
        text = "".join(traceback.format_exception(type(error), error, _own_frames(error.__traceback__)))
        raise pulumi.RunError(f"Program failed with an unhandled exception:\n{text}") from None


def _own_frames(frames: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames of this host and of runpy."""
    inner = frames
    while inner and inner.tb_frame.f_code.co_filename in (__file__, runpy.__file__, "<frozen runpy>"):
        inner = inner.tb_next
    return inner or frames


def _sdk_version() -> str:
    from importlib.metadata import version  # noqa: PLC0415 - only when asked

    return version("pulumi")


def _end(_number: int = 0, _frame: FrameType | None = None) -> None:
    """No cleanup: threads of the program may wait for an engine that is gone."""
    os._exit(0)


def _end_with_parent() -> None:
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(_PARENT_SECONDS)
    _end()


def main() -> None:
    setattr(_server, "log", _Log())  # noqa: B010 - the module does not export what it uses
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # One program at a time, beside the calls that ask about the host.
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=4), options=_GRPC_CHANNEL_OPTIONS)
    language_pb2_grpc.add_LanguageRuntimeServicer_to_server(Host(sys.argv[-1]), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)  # noqa: T201 - the protocol
    server.wait_for_termination()


if __name__ == "__main__":
    main()
