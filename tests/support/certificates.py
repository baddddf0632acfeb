"""Certificates for tests over TLS, in files, signed by authorities of the test run."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

import trustme

HOSTS = ("127.0.0.1", "localhost", "receiver.example")


@dataclass(frozen=True)
class Certificates:
    """Files in PEM.

    authority: has signed all but `untrusted`, which other_authority has signed. server: key and certificate for 127.0.0.1,
    localhost and receiver.example. wrong_host: the same for another host. client, client_key: a client's. untrusted,
    untrusted_key: another client's.
    """

    authority: Path
    other_authority: Path
    server: Path
    wrong_host: Path
    client: Path
    client_key: Path
    untrusted: Path
    untrusted_key: Path

    def server_context(self, *, is_wrong_host: bool = False, wants_client: bool = False) -> ssl.SSLContext:
        """For a receiver. wants_client: it refuses clients without a certificate of the authority."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.wrong_host if is_wrong_host else self.server)
        if wants_client:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.authority)
        return context

    def client_context(self, *, shows_certificate: bool = False) -> ssl.SSLContext:
        """For a client that trusts the authority alone."""
        context = ssl.create_default_context(cafile=str(self.authority))
        if shows_certificate:
            context.load_cert_chain(self.client, self.client_key)
        return context


def issue(folder: Path) -> Certificates:
    """All of them, in a folder. Takes some milliseconds: once a session is enough."""
    authority, other = trustme.CA(), trustme.CA()
    made = Certificates(*(folder / f"{name}.pem" for name in Certificates.__dataclass_fields__))
    authority.cert_pem.write_to_path(str(made.authority))
    other.cert_pem.write_to_path(str(made.other_authority))
    authority.issue_cert(*HOSTS).private_key_and_cert_chain_pem.write_to_path(str(made.server))
    authority.issue_cert("elsewhere.example").private_key_and_cert_chain_pem.write_to_path(str(made.wrong_host))
    for issuer, certificate, key in (
        (authority, made.client, made.client_key),
        (other, made.untrusted, made.untrusted_key),
    ):
        shown = issuer.issue_cert("client.example")
        shown.cert_chain_pems[0].write_to_path(str(certificate))
        shown.private_key_pem.write_to_path(str(key))
    return made
