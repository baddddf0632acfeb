"""TLS contexts of a client."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

from exporter.http_client.errors import CertificateUnusable, ClientCertificateUnusable

_Version = tuple[int, ...] | None
"""What a file was when it was looked at; None if that was impossible."""


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
    except ssl.SSLError as error:
        raise CertificateUnusable(f"{ca_file} holds no certificates (PEM)") from error
    except OSError as error:
        raise CertificateUnusable(f"{ca_file} cannot be read: {error.strerror}") from error
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
    except (ValueError, ssl.SSLError) as error:
        what = "does not match" if "MISMATCH" in str(error) else "cannot be used with"
        raise ClientCertificateUnusable(
            f"the client certificate {certificate_file} {what} the key {key_file or 'inside it'}",
            remedy="give a certificate and its own key, both PEM, the key without a passphrase",
        ) from error
    except OSError as error:  # which does not name the file
        files = f"{certificate_file} or its key {key_file}" if key_file else str(certificate_file)
        raise ClientCertificateUnusable(f"the client certificate {files} cannot be read: {error.strerror}") from error


class FollowedContext:
    """client_context() for files that are replaced while the exporter runs: certificates are renewed every few hours in places.

    Called before each connection. Files that have changed and cannot be used, such as a certificate whose key is not written yet,
    change nothing, and are tried again at the next call. The constructor raises CertificateUnusable.

    changed: called with None after other files are in use, else with why they cannot be used, once for each reason.
    """

    def __init__(
        self,
        ca_file: Path | None,
        certificate_file: Path | None,
        key_file: Path | None,
        changed: Callable[[CertificateUnusable | None], None],
    ) -> None:
        self._files = (ca_file, certificate_file, key_file)
        self._changed = changed
        self._versions = self._current_versions()
        self._context = client_context(*self._files)
        self._reported = ""

    def __call__(self) -> ssl.SSLContext:
        """The context of the files that were last usable."""
        versions = self._current_versions()
        if versions == self._versions:
            return self._context
        try:
            self._context = client_context(*self._files)
        except CertificateUnusable as error:
            if str(error) != self._reported:
                self._reported = str(error)
                self._changed(error)
        else:
            self._versions = versions  # from before they were read: a change since then is seen at the next call
            self._reported = ""
            self._changed(None)
        return self._context

    def _current_versions(self) -> list[_Version]:
        ca_file, *others = self._files
        of_system = ssl.get_default_verify_paths().cafile
        return [_version(file) for file in (ca_file or (of_system and Path(of_system)) or None, *others)]


def _version(file: Path | None) -> _Version:
    """Another one after any change, that of its permissions included."""
    if file is None:
        return None
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
