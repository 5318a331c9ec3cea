"""The few paths of the Kubernetes API that the Job calls, served over TLS with the answers of a real API server.

True: labels are selected, logs are cut as the kubelet cuts them, RBAC refuses with a Status, server-side apply creates
and updates, a wrong bearer token is a 401. Not true: everything else.
"""

from __future__ import annotations

import datetime
import ipaddress
import json
import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

TOKEN = "service-account-token"


@dataclass
class KubeServer:
    """State of the fake API server. forbidden: resources that RBAC refuses; logs: (pod, previous) -> text."""

    pods: list[dict[str, Any]] = field(default_factory=list)
    logs: dict[tuple[str, bool], str] = field(default_factory=dict)
    forbidden: set[str] = field(default_factory=set)
    config_maps: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    token: str = TOKEN
    port: int = 0
    service_account: Path = Path()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def environment(self) -> dict[str, str]:
        """What a pod sees of its API server."""
        return {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(self.port)}


@contextmanager
def serve(folder: Path) -> Iterator[KubeServer]:
    """A running server, its CA and a token in `folder` as the kubelet would mount them."""
    state = KubeServer(service_account=folder)
    _certificates(folder)
    (folder / "token").write_text(TOKEN)

    class Handler(_Handler):
        server_state = state

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    state.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    server_state: KubeServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        if match := re.fullmatch(r"/api/v1/namespaces/([^/]+)/pods", url.path):
            if self._allowed("list", "pods", match[1]):
                self._pods(match[1], query.get("labelSelector", ""))
        elif match := re.fullmatch(r"/api/v1/namespaces/([^/]+)/pods/([^/]+)/log", url.path):
            if self._allowed("get", "pods/log", match[1]):
                self._log(match[2], query)
        elif match := re.fullmatch(r"/api/v1/namespaces/([^/]+)/configmaps/([^/]+)", url.path):
            if self._allowed("get", "configmaps", match[1]):
                found = self.server_state.config_maps.get((match[1], match[2]))
                if found is None:
                    self._status(404, f'configmaps "{match[2]}" not found')
                else:
                    self._json(200, found)
        else:
            self._status(404, "the server could not find the requested resource")

    def do_PATCH(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        match = re.fullmatch(r"/api/v1/namespaces/([^/]+)/configmaps/([^/]+)", urlsplit(self.path).path)
        if match and self._allowed("patch", "configmaps", match[1]):
            assert self.headers["Content-Type"] == "application/apply-patch+yaml"
            assert "fieldManager" in parse_qs(urlsplit(self.path).query)
            self.server_state.config_maps[(match[1], match[2])] = body
            self._json(201, body)

    def _pods(self, namespace: str, selector: str) -> None:
        match = re.fullmatch(r"(\S+) in \(([^)]*)\)", selector)
        label, wanted = match.groups() if match else ("", "")
        items = [
            pod
            for pod in self.server_state.pods
            if pod["metadata"]["namespace"] == namespace and pod["metadata"]["labels"].get(label) in wanted.split(",")
        ]
        self._json(200, {"kind": "PodList", "apiVersion": "v1", "items": items})

    def _log(self, pod: str, query: dict[str, str]) -> None:
        text = self.server_state.logs.get((pod, query.get("previous") == "true"))
        if text is None:
            self._status(400, f'previous terminated container "engine" in pod "{pod}" not found')
            return
        raw = text.encode()
        if "tailLines" in query:
            raw = b"".join(raw.splitlines(keepends=True)[-int(query["tailLines"]) :])
        self._send(200, "text/plain", raw[: int(query.get("limitBytes", len(raw)))])

    def _allowed(self, verb: str, resource: str, namespace: str) -> bool:
        self.server_state.requests.append(f"{verb} {resource} {namespace}")
        if self.headers["Authorization"] != f"Bearer {self.server_state.token}":
            self._status(401, "Unauthorized")
            return False
        if resource in self.server_state.forbidden:
            name = "system:serviceaccount:speculation-validation:speculation-validation"
            what = f'cannot {verb} resource "{resource}" in API group "" in the namespace "{namespace}"'
            self._status(403, f'{resource} is forbidden: User "{name}" {what}')
            return False
        return True

    def _status(self, code: int, message: str) -> None:
        self._json(code, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code})

    def _json(self, code: int, document: dict[str, Any]) -> None:
        self._send(code, "application/json", json.dumps(document).encode())

    def _send(self, code: int, kind: str, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _certificates(folder: Path) -> None:
    """An authority (ca.crt) and a server's certificate and key (server.*), without key identifiers, as EKS has them."""
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority = _unsigned("kubernetes", authority_key).add_extension(
        x509.BasicConstraints(ca=True, path_length=None), critical=True
    )
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    server = _unsigned("kube-apiserver", key).add_extension(address, critical=False)
    pem = serialization.Encoding.PEM
    for name, builder in (("ca.crt", authority), ("server.crt", server)):
        (folder / name).write_bytes(builder.sign(authority_key, hashes.SHA256()).public_bytes(pem))
    (folder / "server.key").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )


def _unsigned(name: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubernetes")]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
    )
