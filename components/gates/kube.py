"""A small Kubernetes client for the gates, on the standard library.

It reads the kubeconfigs that `stacks.kubeconfig` has normalised (JSON, one context, files inlined): client
certificates, tokens, passwords and exec plugins; proxies come from the kubeconfig or the environment. A general
client would cost every preview a quarter of a second of imports, and its errors would have to be rewritten into the
sentences that a user needs.

Deliberately not here: watches, retries (waiting.py asks again) and typed objects (readiness rules read plain
manifests).
"""

from __future__ import annotations

import base64
import http.client
import json
import socket
import ssl
import urllib.request
from urllib.parse import quote, urlencode, urlsplit

from components.gates.credentials import Manifest, exec_credential, load_certificate
from components.gates.errors import KubeError

__all__ = ["Kube", "Manifest", "environment_proxy", "path"]

# A healthy API server answers a read within a second; ten leave room for a loaded one, and keep `preview` short when
# there is none.
REQUEST_SECONDS = 10.0


def _parsed(kubeconfig: str) -> Manifest:
    """A kubeconfig of `stacks.kubeconfig` is JSON; the YAML of any other is read too, for the price of an import."""
    if kubeconfig.lstrip().startswith("{"):
        document: Manifest = json.loads(kubeconfig)
        return document
    import yaml  # noqa: PLC0415 - see above

    loaded: Manifest = yaml.safe_load(kubeconfig)
    return loaded


def path(api_version: str, plural: str, *, namespace: str = "", name: str = "", sub: str = "") -> str:
    """URL path of a collection or an object, e.g. path("v1", "pods", namespace="default")."""
    parts = ["api" if "/" not in api_version else "apis", api_version]
    if namespace:
        parts += ["namespaces", quote(namespace, safe="")]
    parts.append(plural)
    parts += [quote(part, safe="") for part in (name, sub) if part]
    return "/" + "/".join(parts)


class Kube:
    """One API server, as one kubeconfig names it. Not for use by several threads at once."""

    def __init__(self, kubeconfig: str, *, timeout: float = REQUEST_SECONDS) -> None:
        config = _parsed(kubeconfig)
        self._cluster: Manifest = config["clusters"][0]["cluster"]
        self._user: Manifest = (config.get("users") or [{}])[0].get("user") or {}
        self.server = str(self._cluster["server"]).rstrip("/")
        self._url = urlsplit(self.server)
        self._timeout = timeout
        self._connection: http.client.HTTPConnection | None = None
        self._headers: dict[str, str] | None = None
        self._exec: Manifest | None = None

    def get(self, url: str) -> Manifest:
        """The object at `url`. Raises KubeError, with status 404 when there is none."""
        answer: Manifest = json.loads(self._request("GET", url))
        return answer

    def find(self, url: str) -> Manifest | None:
        """The object at `url`, or None when neither it nor its kind exists."""
        try:
            return self.get(url)
        except KubeError as error:
            if error.status == http.client.NOT_FOUND:
                return None
            raise

    def list(self, url: str, *, labels: str = "", fields: str = "") -> list[Manifest]:
        """The items of a collection; none when the kind does not exist."""
        query = {key: value for key, value in (("labelSelector", labels), ("fieldSelector", fields)) if value}
        answer = self.find(f"{url}?{urlencode(query)}" if query else url)
        return list(answer.get("items") or []) if answer else []

    def text(self, url: str) -> str:
        """A plain-text answer, such as a container's log."""
        return self._request("GET", url).decode(errors="replace")

    def create(self, url: str, manifest: Manifest) -> Manifest:
        answer: Manifest = json.loads(self._request("POST", url, manifest))
        return answer

    def delete(self, url: str, *, propagation: str = "Background") -> bool:
        """Delete an object; False when it was not there."""
        try:
            self._request(
                "DELETE", url, {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation}
            )
        except KubeError as error:
            if error.status == http.client.NOT_FOUND:
                return False
            raise
        return True

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _request(self, method: str, url: str, body: Manifest | None = None) -> bytes:
        payload = json.dumps(body).encode() if body is not None else None
        headers = {"Accept": "application/json, */*", "Content-Type": "application/json", **self._auth()}
        fresh = self._connection is None
        try:
            status, answer = self._send(method, self._url.path + url, payload, headers)
        except (ConnectionError, http.client.HTTPException) as error:
            # A kept-alive connection may have been closed by the server: one more try, on a new one.
            self.close()
            if fresh:
                raise self._unreachable(error) from None
            try:
                status, answer = self._send(method, self._url.path + url, payload, headers)
            except (OSError, http.client.HTTPException) as again:
                self.close()
                raise self._unreachable(again) from None
        except OSError as error:
            self.close()
            raise self._unreachable(error) from None
        if status >= http.client.BAD_REQUEST:
            raise self._refused(status, answer)
        return answer

    def _send(self, method: str, url: str, payload: bytes | None, headers: dict[str, str]) -> tuple[int, bytes]:
        if self._connection is None:
            self._connection = self._connect()
        self._connection.request(method, url, payload, headers)
        response = self._connection.getresponse()
        return response.status, response.read()

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._url.hostname or "", self._url.port
        proxy = self._cluster.get("proxy-url") or environment_proxy(self._url.scheme, host)
        target = urlsplit(proxy) if proxy else self._url
        if self._url.scheme == "http":
            connection = http.client.HTTPConnection(target.hostname or "", target.port, timeout=self._timeout)
        else:
            connection = _Https(
                target.hostname or "",
                target.port or 443,
                self._timeout,
                self._tls(),
                str(self._cluster.get("tls-server-name") or host),
            )
        if proxy:
            connection.set_tunnel(host, port or 443)
        return connection

    def _tls(self) -> ssl.SSLContext:
        authority = self._cluster.get("certificate-authority-data")
        try:
            context = ssl.create_default_context(cadata=base64.b64decode(authority).decode() if authority else None)
        except (ssl.SSLError, ValueError):
            raise KubeError(
                f"the kubeconfig for {self.server} has no valid certificate-authority-data", fatal=True
            ) from None
        # Authorities of older and of managed clusters lack extensions that Python 3.13 asks for by default
        # (kubernetes-client/python issue 2394); kubectl does not.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if self._cluster.get("insecure-skip-tls-verify"):
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        credential = self._credential()
        certificate, key = credential.get("clientCertificateData"), credential.get("clientKeyData")
        if certificate and key:
            load_certificate(context, certificate, key, self.server)
        return context

    def _credential(self) -> Manifest:
        """clientCertificateData and clientKeyData (PEM), token: from the kubeconfig or its exec plugin."""
        if self._user.get("client-certificate-data"):
            try:
                return {
                    "clientCertificateData": base64.b64decode(self._user["client-certificate-data"]).decode(),
                    "clientKeyData": base64.b64decode(self._user.get("client-key-data") or "").decode(),
                }
            except ValueError:
                raise KubeError(
                    f"the kubeconfig for {self.server} has no valid client certificate", fatal=True
                ) from None
        if self._user.get("exec"):
            if self._exec is None:
                self._exec = exec_credential(self._user["exec"])
            return self._exec
        return {"token": self._user.get("token")}

    def _auth(self) -> dict[str, str]:
        if self._headers is None:
            token = self._credential().get("token")
            if token:
                self._headers = {"Authorization": f"Bearer {token}"}
            elif self._user.get("username"):
                pair = f"{self._user['username']}:{self._user.get('password', '')}".encode()
                self._headers = {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
            else:
                self._headers = {}
        return self._headers

    def _unreachable(self, error: Exception) -> KubeError:
        if isinstance(error, ssl.SSLCertVerificationError):
            return KubeError(
                f"{self.server} shows a certificate that the kubeconfig's authority did not sign "
                f"({error.verify_message})",
                fatal=True,
            )
        if isinstance(error, socket.gaierror):
            return KubeError(f"{self.server} does not resolve")
        if isinstance(error, TimeoutError):
            return KubeError(f"{self.server} does not answer within {self._timeout:.0f} s")
        if isinstance(error, ssl.SSLError):
            return KubeError(f"{self.server} refuses the TLS connection ({error.reason or error})", fatal=True)
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return KubeError(f"{self.server} is not reachable ({reason.lower()})")

    def _refused(self, status: int, answer: bytes) -> KubeError:
        try:
            message = str(json.loads(answer).get("message") or "")
        except (ValueError, AttributeError):
            message = answer[:200].decode(errors="replace")
        if status == http.client.UNAUTHORIZED:
            return KubeError(
                f"{self.server} does not accept the kubeconfig's credentials (401)", status=status, fatal=True
            )
        if status == http.client.FORBIDDEN:
            return KubeError(f"{self.server} forbids what the stack needs: {message}", status=status, fatal=True)
        return KubeError(f"{self.server} answers {status}: {message}", status=status)


class _Https(http.client.HTTPSConnection):
    """HTTPS whose certificate is checked against a name that may differ from the address (kubeconfig's
    tls-server-name).
    """

    def __init__(self, host: str, port: int, timeout: float, context: ssl.SSLContext, server_name: str) -> None:
        super().__init__(host, port, timeout=timeout, context=context)
        self._tls_context = context
        self._server_name = server_name

    def connect(self) -> None:
        http.client.HTTPConnection.connect(self)
        self.sock = self._tls_context.wrap_socket(self.sock, server_hostname=self._server_name)


def environment_proxy(scheme: str, host: str) -> str:
    """The proxy that the environment names for a host; "" for none, as always for this machine itself (as kubectl)."""
    if host in ("localhost", "::1") or host.startswith("127.") or urllib.request.proxy_bypass(host):
        return ""
    return urllib.request.getproxies().get(scheme, "")
