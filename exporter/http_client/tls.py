"""TLS contexts of a client."""

from __future__ import annotations

import ssl
from pathlib import Path

from exporter.http_client.errors import CertificateUnusable


def client_context(
    ca_file: Path | None = None,
    certificate_file: Path | None = None,
    key_file: Path | None = None,
    *,
    is_verified: bool = True,
) -> ssl.SSLContext:
    """A context that trusts the authorities of a file, else those of the system, and shows a certificate if there is one.

    key_file: None: the key is in certificate_file. is_verified: False: any server is trusted. Raises CertificateUnusable.
    """
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise CertificateUnusable(f"{ca_file} holds no certificates (PEM)") from error
    if not is_verified:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if certificate_file:
        _load_pair(context, certificate_file, key_file)
    return context


def _load_pair(context: ssl.SSLContext, certificate_file: Path, key_file: Path | None) -> None:
    def no_passphrase() -> str:
        raise ValueError("the key needs a passphrase, and a daemon has no terminal to type it on")

    try:
        context.load_cert_chain(certificate_file, key_file, no_passphrase)
    except (OSError, ValueError, ssl.SSLError) as error:
        what = "does not match" if "MISMATCH" in str(error) else "cannot be used with"
        raise CertificateUnusable(
            f"the client certificate {certificate_file} {what} the key {key_file or 'inside it'}",
            remedy="give a certificate and its own key, both PEM, the key without a passphrase",
        ) from error
