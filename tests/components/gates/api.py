"""A small real HTTP server that answers like a Kubernetes API server: objects by path, lists by collection, Status on
refusal.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

from components.gates.waiting import Run


@dataclass
class Api:
    """objects: URL path -> object; texts: path -> plain text; refuse: path -> HTTP status; seen: "METHOD path" of
    each request.
    """

    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    refuse: dict[str, int] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)
    url: str = ""

    @property
    def kubeconfig(self) -> str:
        return kubeconfig_text(self.url)

    def put(self, collection: str, *manifests: dict[str, Any]) -> None:
        """Objects into a collection such as /api/v1/nodes."""
        for manifest in manifests:
            self.objects[f"{collection}/{manifest['metadata']['name']}"] = manifest


def kubeconfig_text(server: str, **user: Any) -> str:
    return yaml.safe_dump(
        {
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "u", "user": user or {"token": "t"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
    )


@contextmanager
def serve() -> Iterator[Api]:
    api = Api()

    class Handler(_Handler):
        state = api

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    api.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    state: Api
    protocol_version = "HTTP/1.1"
    # Head and body in one packet: a second one would wait 40 ms for the acknowledgement of the first.
    wbufsize = -1

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass

    def do_GET(self) -> None:
        path = self._path("GET")
        if path is None:
            return
        if path in self.state.texts:
            self._answer(200, self.state.texts[path])
        elif path in self.state.objects:
            self._answer(200, self.state.objects[path])
        else:
            items = [o for key, o in sorted(self.state.objects.items()) if key.rsplit("/", 1)[0] == path]
            if items or path.split("/")[-1] in ("events", "pods"):
                self._answer(200, {"kind": "List", "items": [o for o in items if self._selected(o)]})
            else:
                self._status(404, f"{path} not found")

    def do_POST(self) -> None:
        path = self._path("POST")
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if path is not None:
            self.state.put(path, body)
            self._answer(201, body)

    def do_DELETE(self) -> None:
        path = self._path("DELETE")
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if path is None:
            return
        if self.state.objects.pop(path, None) is None:
            self._status(404, f"{path} not found")
        else:
            self._answer(200, {"kind": "Status", "status": "Success"})

    def _path(self, method: str) -> str | None:
        path = urlsplit(self.path).path
        self.state.seen.append(f"{method} {path}")
        status = self.state.refuse.get(path)
        if status is not None:
            self._status(status, "refused for the test")
            return None
        return path

    def _selected(self, manifest: dict[str, Any]) -> bool:
        """Equality and `in` of one label, or a label's presence."""
        selector = parse_qs(urlsplit(self.path).query).get("labelSelector", [""])[0]
        labels = manifest["metadata"].get("labels") or {}
        if not selector:
            return True
        if " in (" in selector:
            key, values = selector.rstrip(")").split(" in (")
            return labels.get(key) in values.split(",")
        key, _, value = selector.partition("=")
        return labels.get(key) == value if value else key in labels

    def _status(self, status: int, message: str) -> None:
        self._answer(status, {"kind": "Status", "message": message, "code": status})

    def _answer(self, status: int, body: object) -> None:
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@dataclass
class Clock:
    """A clock that a wait moves by itself, so that no test sleeps. said, warned: what the user saw."""

    now: float = 0.0
    said: list[str] = field(default_factory=list)
    warned: list[str] = field(default_factory=list)
    cancel_at: float | None = None

    def run(self, timeout: float = 60.0) -> Run:
        clock = self

        class Cancelled(threading.Event):
            def wait(self, timeout: float | None = None) -> bool:
                clock.now += timeout or 0.0
                return self.is_set()

            def is_set(self) -> bool:
                return clock.cancel_at is not None and clock.now >= clock.cancel_at

        return Run(timeout, self.said.append, self.warned.append, Cancelled(), lambda: clock.now)
