"""Pod addresses: a loopback address each, so that pods can listen on the same port and no one outside reaches them."""

from __future__ import annotations

import ipaddress

# 127.0.0.0/16 has the addresses that software takes for itself (127.0.0.1, 127.0.0.53, 127.0.1.1).
_FIRST_BLOCK, _BLOCKS = 16, 200


class AddressPool:
    """Hands out the addresses of one /16; another sandbox (other port base) uses another one."""

    def __init__(self, port_base: int) -> None:
        self.network = ipaddress.IPv4Network(f"127.{_FIRST_BLOCK + port_base // 50 % _BLOCKS}.0.0/16")
        self._taken: set[str] = set()
        self._next = 0

    def take(self, wanted: str | None = None) -> str:
        """A free address; the wanted one (a pod keeps its own when the runner restarts) if it is free and ours."""
        if wanted and wanted not in self._taken and self._ours(wanted):
            self._taken.add(wanted)
            return wanted
        for _ in range(self.network.num_addresses):
            # Round robin: a released address rests before its next use, so that no client finds another pod behind it.
            self._next = self._next % (self.network.num_addresses - 2) + 1
            address = str(self.network[self._next])
            if address not in self._taken:
                self._taken.add(address)
                return address
        raise RuntimeError(f"no free pod address left in {self.network}")

    def release(self, address: str) -> None:
        self._taken.discard(address)

    @property
    def taken(self) -> frozenset[str]:
        return frozenset(self._taken)

    def _ours(self, address: str) -> bool:
        try:
            return ipaddress.IPv4Address(address) in self.network
        except ValueError:
            return False
