"""How long the runner waits, and where that differs from a kubelet."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """Durations in seconds."""

    # Kubelet: 10 doubling to 300. A sandbox's user waits in front of it; 5 still lets a poller see CrashLoopBackOff.
    back_off_first: float = 5
    back_off_most: float = 60
    # Kubelet: as the probe says. Modelplane's 30 s only make sense for an engine that takes minutes.
    initial_delay_most: float = 1
    # Kubelet: the probe's period, also before the first success.
    unready_period_most: float = 1
    # Kubelet syncs a pod about once a minute: a changed ConfigMap reaches its mount, a token is renewed when 80 % used.
    volume_refresh: float = 60
    # What cannot be mounted or configured yet is tried again: the Secret may come later than the pod.
    retry: float = 2
    # Time between SIGTERM and SIGKILL when the runner itself stops; below the supervisor's own patience of 10 s.
    shutdown_grace: float = 5

    def back_off(self, failures: int) -> float:
        """Wait before the restart that follows so many crashes in a row; the first is at once, as a kubelet's is."""
        return 0 if failures < 2 else min(self.back_off_first * 2 ** (failures - 2), self.back_off_most)

    @property
    def back_off_reset(self) -> float:
        """A container that ran this long starts its back-off anew (kubelet: twice the longest back-off)."""
        return 2 * self.back_off_most
