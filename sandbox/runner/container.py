"""One container's life: image, configuration, start, probes, end, restart; its state is what the pod's status shows."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from lightkube.models.core_v1 import Container, Probe
from lightkube.resources.core_v1 import Pod

from sandbox.images import Image
from sandbox.runner import probes
from sandbox.runner.environment import ConfigError, command_line
from sandbox.runner.events import Kind as EventKind
from sandbox.runner.logs import CriLog, log_path, rotate, tail
from sandbox.runner.process import ContainerProcess, Exit, Spec
from sandbox.runner.states import ContainerState, Running, Terminated, restarts
from sandbox.runner.timing import Timing
from sandbox.runner.wording import duration, not_executable, pod_text

# Kubernetes' limits of a termination message (bytes, lines).
_MESSAGE_BYTES, _MESSAGE_LINES, _LOG_MESSAGE_BYTES = 4096, 80, 2048
# Kubelet: no container gets less than this between SIGTERM and SIGKILL (seconds).
_LEAST_GRACE = 2
# What a runtime reports for a command that could not be started.
_START_ERROR = 128


class Host(Protocol):
    """What a container needs of its pod."""

    pod: Pod
    pod_ip: str
    timing: Timing

    def image(self, reference: str) -> Image | None: ...
    async def environment(self, container: Container, image: Image) -> dict[str, str]: ...
    def spec(self, container: Container, argv: Sequence[str], env: Mapping[str, str], image: Image) -> Spec: ...
    def folder(self, container: Container) -> Path: ...
    def record(self, kind: EventKind, reason: str, message: str, container: str | None = None) -> None: ...
    def changed(self) -> None: ...


class ContainerLife:
    """Runs a container until it will not run again."""

    def __init__(self, container: Container, host: Host, state: ContainerState) -> None:
        self.container = container
        self._host = host
        self._state = state
        self._process: ContainerProcess | None = None
        self._spec: Spec | None = None
        self._unhealthy: asyncio.Future[str] | None = None
        self._failures = 0
        self.log_path: Path | None = None

    @property
    def state(self) -> ContainerState:
        return self._state

    @property
    def name(self) -> str:
        return self.container.name

    def _set(self, state: ContainerState) -> None:
        if state != self._state:
            self._state = state
            self._host.changed()

    async def run(self) -> None:
        """Until the container has ended for good; cancelled when the pod ends, which `stop` follows."""
        ended = self._state.state
        while not isinstance(ended, Terminated) or restarts(self._host.pod, self.container, ended.exit_code):
            if isinstance(ended, Terminated):
                await self._back_off(ended)
            image = await self._image()
            if not await self._start(image):
                ended = self._state.state
                continue
            ended = await self._watch()

    async def stop(self, grace: float, message: str = "") -> None:
        """End the container if it runs: SIGTERM, then SIGKILL after the grace period (seconds)."""
        if self._process and isinstance(self._state.state, Running):
            if self._process.running:
                self._host.record("Normal", "Killing", message or f"Stopping container {self.name}", self.name)
            self._ended(await self._process.terminate(max(grace, _LEAST_GRACE)))
        elif not isinstance(self._state.state, Terminated) and self._state.last:
            self._set(replace(self._state, state=self._state.last, last=None))

    def hurry(self) -> None:
        """Nobody waits for the container any more: end it now, also when `stop` is giving it time."""
        if self._process:
            self._process.kill()

    # --- before the start ---

    async def _back_off(self, ended: Terminated) -> None:
        """Wait before a restart, longer after each crash in a row."""
        wait = self._host.timing.back_off(self._failures)
        if ended.finished_at:
            wait -= (datetime.now(UTC) - ended.finished_at).total_seconds()
        if wait <= 0:
            return
        pod = pod_text(self._host.pod)
        full = self._host.timing.back_off(self._failures)
        message = f"back-off {duration(full)} restarting failed container={self.name} pod={pod}"
        self._set(self._state.restarting("CrashLoopBackOff", message))
        event = f"Back-off restarting failed container {self.name} in pod {pod}"
        self._host.record("Warning", "BackOff", event, self.name)
        await asyncio.sleep(wait)

    async def _image(self) -> Image:
        """The process that stands for the image; an unknown one is waited for, like an image that no registry has."""
        reference = self.container.image or ""
        failures = 0
        while (image := self._host.image(reference)) is None:
            failures += 1
            why = f'failed to pull and unpack image "{reference}": not an image that the sandbox can stand in for'
            self._host.record("Normal", "Pulling", f'Pulling image "{reference}"', self.name)
            self._host.record("Warning", "Failed", f'Failed to pull image "{reference}": {why}', self.name)
            self._host.record("Warning", "Failed", "Error: ErrImagePull", self.name)
            self._set(self._state.restarting("ErrImagePull", why))
            # A moment, so that whoever watches sees both states, as with a kubelet.
            await asyncio.sleep(self._host.timing.retry)
            back_off = f'Back-off pulling image "{reference}"'
            self._host.record("Normal", "BackOff", back_off, self.name)
            self._host.record("Warning", "Failed", "Error: ImagePullBackOff", self.name)
            self._set(self._state.restarting("ImagePullBackOff", f"{back_off}: ErrImagePull: {why}"))
            await asyncio.sleep(self._host.timing.back_off(failures + 1))
        present = f'Container image "{reference}" already present on machine and can be accessed by the pod'
        self._host.record("Normal", "Pulled", present, self.name)
        return image

    async def _environment(self, image: Image) -> dict[str, str]:
        """The container's environment; waits for ConfigMaps and Secrets that are not there yet."""
        while True:
            try:
                return await self._host.environment(self.container, image)
            except ConfigError as error:
                self._host.record("Warning", "Failed", f"Error: {error}", self.name)
                self._set(self._state.restarting("CreateContainerConfigError", str(error)))
                await asyncio.sleep(self._host.timing.retry)

    async def _start(self, image: Image) -> bool:
        env = await self._environment(image)
        argv = command_line(self.container, image.entrypoint, image.command, env)
        restart = self._next_restart()
        container_id = f"bubblewrap://{secrets.token_hex(32)}"
        folder = self._host.folder(self.container)
        folder.mkdir(parents=True, exist_ok=True)
        self.termination_file.unlink(missing_ok=True)
        self.termination_file.touch(mode=0o666)
        self._spec = self._host.spec(self.container, argv, env, image)
        last = self._state.state if isinstance(self._state.state, Terminated) else self._state.last
        base = replace(self._state, last=last, restart_count=restart, container_id=container_id)
        self.log_path = log_path(folder, restart)
        why = not_executable(argv, env, image)
        if why is None:
            try:
                self._process = await ContainerProcess.start(self._spec, CriLog(self.log_path))
            except OSError as error:
                why = str(error)
        if why is not None:
            self._start_failed(base, why)
            return False
        rotate(folder, restart)
        self._host.record("Normal", "Created", "Container created", self.name)
        self._host.record("Normal", "Started", "Container started", self.name)
        probed = self.container.readinessProbe is not None or self.container.startupProbe is not None
        self._set(
            replace(
                base, state=Running(datetime.now(UTC)), ready=not probed, started=self.container.startupProbe is None
            )
        )
        return True

    def _start_failed(self, base: ContainerState, why: str) -> None:
        message = f"failed to create containerd task: failed to start container process: {why}"
        now = datetime.now(UTC)
        self._failures += 1
        self._host.record("Normal", "Created", "Container created", self.name)
        self._host.record("Warning", "Failed", f"Error: {message}", self.name)
        self._set(replace(base, state=Terminated(_START_ERROR, "StartError", message, now, now, base.container_id)))

    def _next_restart(self) -> int:
        ran = self._state.container_id != ""
        return self._state.restart_count + 1 if ran else self._state.restart_count

    # --- while it runs ---

    async def _watch(self) -> Terminated:
        """Wait for the end of a started container, with its probes running."""
        assert self._process is not None
        self._unhealthy = asyncio.get_running_loop().create_future()
        ended = asyncio.create_task(self._process.wait())
        prober = asyncio.create_task(self._probe())
        try:
            waiting: set[asyncio.Future[Any]] = {ended, self._unhealthy}
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                await self.stop(self._grace(), self._unhealthy.result())
            return self._ended(await ended)
        finally:
            prober.cancel()
            ended.cancel()

    async def _probe(self) -> None:
        container = self.container
        if container.startupProbe and not await self._startup(container.startupProbe):
            return
        loops = []
        if container.readinessProbe:
            loops.append(self._probing("Readiness", container.readinessProbe, self._readiness))
        if container.livenessProbe:
            loops.append(self._probing("Liveness", container.livenessProbe, self._liveness))
        await asyncio.gather(*loops)

    async def _startup(self, probe: Probe) -> bool:
        results: list[bool] = []
        await self._probing("Startup", probe, results.append)
        if not results[-1]:
            self._restart_because(f"Container {self.name} failed startup probe, will be restarted")
            return False
        self._set(replace(self._state, started=True, ready=self.container.readinessProbe is None))
        return True

    def _readiness(self, ok: bool) -> None:  # noqa: FBT001 - called back with the result
        if isinstance(self._state.state, Running):
            self._set(replace(self._state, ready=ok))

    def _liveness(self, ok: bool) -> None:  # noqa: FBT001
        if not ok:
            self._restart_because(f"Container {self.name} failed liveness probe, will be restarted")

    def _restart_because(self, message: str) -> None:
        if self._unhealthy and not self._unhealthy.done():
            self._unhealthy.set_result(message)

    async def _probing(self, kind: probes.Kind, probe: Probe, result: Callable[[bool], None]) -> None:
        target = probes.Target(self._host.pod_ip, self.container, self._execute)
        await probes.watch(kind, probe, target, self._host.timing, failed=self._unhealthy_event, result=result)

    def _unhealthy_event(self, kind: probes.Kind, message: str) -> None:
        self._host.record("Warning", "Unhealthy", f"{kind} probe failed: {message}", self.name)

    async def _execute(self, command: Sequence[str]) -> tuple[int, str]:
        assert self._spec is not None
        process = await ContainerProcess.start(replace(self._spec, argv=command), None)
        try:
            ended = await process.wait()
        finally:
            process.kill()
        return ended.code, process.output.decode(errors="replace")

    def _grace(self) -> float:
        assert self._host.pod.spec is not None
        grace = self._host.pod.spec.terminationGracePeriodSeconds
        return 30 if grace is None else grace

    # --- its end ---

    def _ended(self, ended: Exit) -> Terminated:
        running = self._state.state
        if isinstance(running, Terminated):
            return running
        started_at = running.started_at if isinstance(running, Running) else None
        if started_at and (ended.at - started_at).total_seconds() >= self._host.timing.back_off_reset:
            self._failures = 0
        self._failures += 1
        code, reason, message = ended.code, "Completed" if ended.code == 0 else "Error", self._message(ended.code)
        if ended.setup_error:
            code, reason, message = _START_ERROR, "StartError", ended.setup_error
        state = Terminated(code, reason, message, started_at, ended.at, self._state.container_id)
        # Kubelet: an init container that did its work counts as ready.
        inits = (self._host.pod.spec and self._host.pod.spec.initContainers) or []
        done = code == 0 and self.container in inits
        self._set(replace(self._state, state=state, ready=done, started=False))
        return state

    @property
    def termination_file(self) -> Path:
        return self._host.folder(self.container) / "termination-log"

    def _message(self, code: int) -> str:
        try:
            text = self.termination_file.read_bytes()[:_MESSAGE_BYTES].decode(errors="replace")
        except OSError:
            text = ""
        if (
            not text
            and code != 0
            and self.container.terminationMessagePolicy == "FallbackToLogsOnError"
            and self.log_path
        ):
            return tail(self.log_path, _MESSAGE_LINES, _LOG_MESSAGE_BYTES)
        return text
