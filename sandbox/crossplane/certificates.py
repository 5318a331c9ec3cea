"""Certificates for what Crossplane talks to, signed by the authority that `crossplane core init` made."""

from __future__ import annotations

import base64
import ipaddress
import warnings
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from sandbox import state
from sandbox.crossplane.api import Manifest
from sandbox.layout import LOOPBACK

# As long as the sandbox's other certificates: longer than any sandbox lives.
_VALID = timedelta(days=3650)
_BACKDATE = timedelta(minutes=5)


def write_secret(secret: Manifest, folder: Path) -> None:
    """Write a TLS Secret's ca.crt, tls.crt and tls.key as files."""
    for key in ("ca.crt", "tls.crt", "tls.key"):
        state.write(folder / key, base64.b64decode(secret["data"][key]))


def ensure_server(authority: Manifest, folder: Path, name: str) -> bool:
    """A server certificate for 127.0.0.1 in folder (ca.crt, tls.crt, tls.key), made unless there is one.

    authority: Secret with tls.crt and tls.key; a certificate of another one is replaced. True when it was made.
    """
    ca_pem = base64.b64decode(authority["data"]["tls.crt"])
    present = folder / "ca.crt"
    if present.exists() and present.read_bytes() == ca_pem and (folder / "tls.crt").exists():
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Crossplane's authority is in the country "Earth", which is no two-letter code
        subject = x509.load_pem_x509_certificate(ca_pem).subject
    signer = serialization.load_pem_private_key(base64.b64decode(authority["data"]["tls.key"]), password=None)
    assert isinstance(signer, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATE)
        .not_valid_after(now + _VALID)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(LOOPBACK))]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(signer, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    state.write(folder / "tls.key", private)
    state.write(folder / "tls.crt", certificate.public_bytes(pem))
    # Last, since its presence says that the rest is there.
    state.write(present, ca_pem)
    return True
