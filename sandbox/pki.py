"""Certificates of one cluster: its own authority, server and client certificates, the key of service-account tokens.

Made once, as a whole (a folder is renamed into place), so an interrupted start leaves no half of it.
"""

from __future__ import annotations

import ipaddress
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from sandbox import state
from sandbox.layout import LOOPBACK

# A sandbox is thrown away long before; it must not stop working one morning.
_VALID_DAYS = 3650
# Clocks of one machine agree, but a certificate made in this very second must be valid in it.
_BACKDATE = timedelta(minutes=5)
SERVICE_ACCOUNT_KEY, SERVICE_ACCOUNT_PUBLIC = "service-account.key", "service-account.pub"


@dataclass(frozen=True)
class Identity:
    """One certificate: file stem, common name, groups (organisations), whether it serves, and its extra DNS names."""

    stem: str
    name: str
    groups: tuple[str, ...] = ()
    server: bool = False
    dns: tuple[str, ...] = ()


# Names and groups that Kubernetes binds roles to: https://kubernetes.io/docs/setup/best-practices/certificates/
IDENTITIES = (
    # etcd serves, and dials itself as a client of its own gateway.
    Identity("etcd", "etcd", server=True),
    Identity("etcd-client", "kube-apiserver-etcd-client"),
    Identity(
        "apiserver",
        "kube-apiserver",
        server=True,
        dns=("kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"),
    ),
    # The health and metrics endpoints of controller-manager and scheduler.
    Identity("component", "kube-component", server=True),
    Identity("kubelet", "system:node:kwok", ("system:nodes",), server=True),
    Identity("kubelet-client", "kube-apiserver-kubelet-client", ("kubeadm:cluster-admins",)),
    Identity("admin", "admin", ("system:masters",)),
    Identity("controller-manager", "system:kube-controller-manager"),
    Identity("scheduler", "system:kube-scheduler"),
    # kwok is many kubelets in one, which no built-in role describes.
    Identity("kwok", "kwok", ("system:masters",)),
)


def ensure(folder: Path) -> None:
    """Make every certificate and key of a cluster below a folder, unless they are there."""
    if folder.is_dir():
        return
    making = folder.with_name(f".{folder.name}.making")
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir(parents=True, mode=0o700)
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = _authority(authority_key)
    _write(making, "ca", authority_key, authority)
    for identity in IDENTITIES:
        key = ec.generate_private_key(ec.SECP256R1())
        _write(making, identity.stem, key, _issued(identity, key, authority, authority_key))
    token_key = ec.generate_private_key(ec.SECP256R1())
    state.write(making / SERVICE_ACCOUNT_KEY, _private(token_key))
    public = token_key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    state.write(making / SERVICE_ACCOUNT_PUBLIC, public)
    making.rename(folder)


def _write(folder: Path, stem: str, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
    state.write(folder / f"{stem}.key", _private(key))
    state.write(folder / f"{stem}.crt", certificate.public_bytes(serialization.Encoding.PEM))


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    # The encoding that Kubernetes reads for EC keys ("EC PRIVATE KEY").
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def _subject(name: str, groups: tuple[str, ...] = ()) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, signer: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATE)
        .not_valid_after(now + timedelta(days=_VALID_DAYS))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )


def _authority(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    subject = _subject("sandbox-ca")
    builder = _builder(subject, subject, key, key)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    return builder.add_extension(_usage(signs_certificates=True), critical=True).sign(key, hashes.SHA256())


def _issued(
    identity: Identity, key: ec.EllipticCurvePrivateKey, authority: x509.Certificate, signer: ec.EllipticCurvePrivateKey
) -> x509.Certificate:
    uses = [ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = _builder(_subject(identity.name, identity.groups), authority.subject, key, signer)
    if identity.server:
        uses.append(ExtendedKeyUsageOID.SERVER_AUTH)
        names: list[x509.GeneralName] = [x509.IPAddress(ipaddress.ip_address(LOOPBACK))]
        names += [x509.DNSName(name) for name in ("localhost", *identity.dns)]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
    return builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False).sign(signer, hashes.SHA256())


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
