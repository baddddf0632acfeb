"""The SSLContext of the web configuration, and the check of client certificates.

A context is tried before it is used, in a handshake in memory: key, certificate, ciphers and curve then fit together.
"""

from __future__ import annotations

import contextlib
import ipaddress
import math
import os
import re
import ssl
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from exporter.config.web_file import ClientCertificate, Tls
from exporter.errors import BadInput

_VERIFY_MODES = {
    ClientCertificate.NOT_REQUESTED: ssl.CERT_NONE,
    ClientCertificate.VERIFIED_IF_GIVEN: ssl.CERT_OPTIONAL,
    ClientCertificate.REQUIRED: ssl.CERT_REQUIRED,
}
_PLACE_IN_C = re.compile(r" \(_ssl\.c:\d+\)$")
_ROUNDS = 10  # a handshake has at most three round trips


def context_of(tls: Tls) -> ssl.SSLContext:
    """The context of the server. Raises BadInput, which names the part that cannot be used."""
    context = _without_clients(tls)
    if tls.client_authorities:
        try:
            context.load_verify_locations(cadata=tls.client_authorities.decode("ascii"))
        except (ssl.SSLError, ValueError) as error:
            raise _unusable("client_ca", error) from None
    elif tls.client_certificate is not ClientCertificate.NOT_REQUESTED:
        context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
    context.verify_mode = _VERIFY_MODES[tls.client_certificate]
    return context


class CertificateState(NamedTuple):
    """problem: why clients will refuse it, such as that it has expired; None: they will accept it.

    expires_at: Unix time in seconds; infinite if it has a problem.
    """

    problem: str | None
    expires_at: float


def certificate_state(tls: Tls) -> CertificateState:
    """What clients will say of the certificate. Raises BadInput if no handshake can succeed."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.minimum_version = tls.min_version
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # the certificate itself is trusted, whatever its issuer
    try:
        client.load_verify_locations(cadata=tls.certificate.decode("ascii"))
        end, _ = shake_hands(_without_clients(tls), client)
    except ssl.SSLCertVerificationError as error:
        return CertificateState(error.verify_message, math.inf)
    except (ssl.SSLError, ValueError) as error:
        raise _unusable("cert", error) from None
    return CertificateState(None, expires_at(end.getpeercert()))


def expires_at(certificate: Mapping[str, Any] | None) -> float:
    """Unix time in seconds of the end of a certificate, as getpeercert() returns it; infinite without a certificate."""
    return ssl.cert_time_to_seconds(certificate["notAfter"]) if certificate else math.inf


def is_allowed(tls: Tls, certificate: Mapping[str, Any] | None) -> bool:
    """Whether a client's certificate, as getpeercert() returns it, has an allowed name."""
    if not tls.allowed_names:
        return True
    names = (certificate or {}).get("subjectAltName", ())
    return any(_canonical(kind, name) in tls.allowed_names for kind, name in names)


def _canonical(kind: str, name: str) -> str:
    if kind != "IP Address":
        return name
    with contextlib.suppress(ValueError):
        return str(ipaddress.ip_address(name.strip()))
    return name


def _without_clients(tls: Tls) -> ssl.SSLContext:
    """The context without requirements for client certificates."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version, context.maximum_version = tls.min_version, tls.max_version
    if not tls.prefers_server_ciphers:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    try:
        if tls.ciphers:
            context.set_ciphers(":".join(tls.ciphers))
        elif tls.ciphers is not None:  # only ciphers of TLS 1.3 are configured
            context.minimum_version = ssl.TLSVersion.TLSv1_3
        if tls.curve:
            context.set_ecdh_curve(tls.curve)
        _load_pair(context, tls)
    except (ssl.SSLError, ValueError) as error:
        raise _unusable("cert and key", error) from None
    return context


def _load_pair(context: ssl.SSLContext, tls: Tls) -> None:
    """Load certificate and key from memory; ssl accepts files only."""

    def no_password() -> str:
        raise BadInput(
            "--web.config.file: tls_server_config: the key is encrypted",
            remedy="decrypt it with `openssl pkey`: a daemon cannot prompt for a password",
        )

    with _in_memory(tls.certificate) as certificate, _in_memory(tls.key) as key:
        context.load_cert_chain(certificate, key, no_password)


@contextlib.contextmanager
def _in_memory(content: bytes) -> Iterator[str]:
    try:
        descriptor = os.memfd_create("pem", os.MFD_CLOEXEC)
    except OSError as error:
        raise BadInput(
            f"--web.config.file: tls_server_config: memfd_create(2) failed: {error.strerror}",
            remedy="allow it: a seccomp filter or a security module forbids it (`dmesg`, `ausearch -m AVC`)",
        ) from error
    try:
        os.write(descriptor, content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Client and server after a handshake in memory. Raises ssl.SSLError when it fails."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = client.wrap_bio(to_client, to_server), server.wrap_bio(to_server, to_client, server_side=True)
    waiting = list(ends)
    for _ in range(_ROUNDS):
        for end in list(waiting):
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
                waiting.remove(end)
    if waiting:
        raise ValueError("the handshake does not end")
    return ends


def _unusable(what: str, error: Exception) -> BadInput:
    reason = (error.reason if isinstance(error, ssl.SSLError) else None) or _PLACE_IN_C.sub("", str(error))
    return BadInput(f"--web.config.file: tls_server_config: {what} cannot be used: {reason.lower().replace('_', ' ')}")
