"""`python -m sandbox.functions`: serve the composition functions of the sandbox that the environment names."""

from __future__ import annotations

import asyncio
import logging

from sandbox.crossplane import functions_certificates
from sandbox.functions.model import Settings
from sandbox.functions.server import serve
from sandbox.layout import LOOPBACK, Layout


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    layout = Layout.from_env()
    settings = Settings(public_port=layout.control_plane_gateway_port)
    asyncio.run(serve(f"{LOOPBACK}:{layout.functions_port}", functions_certificates(layout), settings))


if __name__ == "__main__":
    main()
