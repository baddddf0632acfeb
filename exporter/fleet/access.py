"""What a client shows to the nodes, and which authorities it trusts: one TLS context for all of them, and a bearer token.

In: paths of files. Out: NodeAccess, or BadInput, which names the flag and the file and never what the token file holds. A path
may stand in the file of the fleet instead: the message names its key there.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from exporter.errors import BadInput
from exporter.files import content
from exporter.http_client.errors import CertificateUnusable, ClientCertificateUnusable
from exporter.http_client.tls import client_context

TOKEN_BYTES_MAX: Final = 4096


class AccessFiles(NamedTuple):
    """None: the authorities of the system, no certificate, no token. key: None: it is in the file of the certificate."""

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    token: Path | None = None


class NodeAccess(NamedTuple):
    """context: None for HTTP without encryption. token: "" for none.

    server_name: in the certificates of all nodes; "": the host of each.
    """

    context: ssl.SSLContext | None
    token: str = ""
    server_name: str = ""

    @property
    def scheme(self) -> str:
        return "http" if self.context is None else "https"

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}


def access_of(
    files: AccessFiles, *, is_insecure: bool = False, source: Callable[[str], str] = "--{}".format
) -> NodeAccess:
    """is_insecure: HTTP without encryption. source: where the value of a flag stands, in a message.

    Raises BadInput for files that cannot be used.
    """
    if files.key and not files.certificate:
        raise BadInput(f"{source('nodes.key')} without --nodes.cert", remedy="give the certificate of the key")
    if is_insecure and (files.ca or files.certificate):
        other = source("nodes.ca" if files.ca else "nodes.cert")
        raise BadInput(
            f"{source('nodes.insecure')} asks without TLS, and cannot be combined with {other}",
            remedy="leave one of them out",
        )
    token = "" if files.token is None else _token(files.token, source("nodes.token-file"))
    if is_insecure:
        return NodeAccess(None, token)
    try:
        return NodeAccess(client_context(files.ca, files.certificate, files.key), token)
    except ClientCertificateUnusable as error:
        where = ", ".join(map(source, ("nodes.cert", *(("nodes.key",) if files.key else ()))))
        raise BadInput(f"{where}: {error}", remedy=error.remedy) from None
    except CertificateUnusable as error:
        raise BadInput(f"{source('nodes.ca')}: {error}", remedy=error.remedy) from None


def _token(path: Path, source: str) -> str:
    """The only line of the file. A link is followed: secrets of Kubernetes are links."""
    try:
        token = content.read(path, TOKEN_BYTES_MAX, follow_links=True).decode("ascii").strip()
    except OSError as error:
        raise BadInput(f"{source}: cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        token = ""
    if not token or not token.isprintable() or " " in token:
        raise BadInput(
            f"{source}: {path} does not hold one token",
            remedy="want one line, as `gpu-stall-exporter serve --new-token=NAME` prints it",
        )
    return token
