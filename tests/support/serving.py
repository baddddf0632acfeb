"""`serve` as its users run it: a process of its own without privileges, with a certificate and tokens."""

from __future__ import annotations

import json
import os
import re
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from exporter.service.certificate import make_certificate
from exporter.service.tokens import new_token
from tests.support.patience import PATIENCE_SECONDS
from tests.support.traced import eventually

COMMAND = (sys.executable, "-m", "exporter")
_SERVING = re.compile(r"serving (https?://\S+:\d+),")


class Reply(NamedTuple):
    status: int
    document: Any


class Serving(NamedTuple):
    """A running server. tokens: by name; team-a sees one namespace. certificate: for clients to trust."""

    process: subprocess.Popen[bytes]
    url: str
    certificate: Path
    tokens: dict[str, str]
    log: Path

    def ask(self, path: str, body: Any = None, *, token: str = "admin", **headers: str) -> Reply:
        """body: JSON, or bytes; None for GET."""
        reply = self.fetch(path, body, token=token, **headers)
        return Reply(reply[0], json.loads(reply[1]))

    def fetch(self, path: str, body: Any = None, *, token: str = "admin", **headers: str) -> tuple[int, bytes]:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        known = {"Authorization": f"Bearer {self.tokens.get(token, token)}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}{path}", data, known | headers)  # noqa: S310 - our own server
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS, context=self.trusting()) as response:  # noqa: S310
                return response.status, response.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    def call(self, name: str, *, token: str = "admin", **arguments: Any) -> Any:
        """The answer of a tool."""
        reply = self.ask(f"/api/v1/tools/{name}", {"arguments": arguments}, token=token)
        assert reply.status == 200, reply
        return reply.document

    def trusting(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.certificate)


@contextmanager
def serving(history: Path, folder: Path, *more: str, is_open: bool = False) -> Iterator[Serving]:
    """On a free port of the loopback interface, until the end of the block. more: flags. is_open: without TLS and tokens."""
    config = make_certificate(folder / "certificate", ("localhost", "127.0.0.1", "::1"))
    tokens, lines = {}, ""
    for name, scope in (("admin", ""), ("team-a", 'namespaces = ["team-a"]\n')):
        tokens[name], text = new_token(name)
        lines += text + scope
    (folder / "tokens.toml").write_text(lines)
    log = folder / "log"
    command = (*COMMAND, "serve", "--web.listen-address=127.0.0.1:0", f"--history.path={history}")
    secured = (f"--web.config.file={config}", f"--web.token-file={folder / 'tokens.toml'}")
    flags = ("--web.insecure-no-tls", "--web.insecure-no-tokens") if is_open else secured
    with log.open("wb") as output:
        process = subprocess.Popen([*command, *flags, *more], stderr=output, env={**os.environ, "TZ": "UTC"})
    try:
        found = eventually(lambda: _SERVING.search(log.read_text()), "it serves")
        yield Serving(process, found[1], folder / "certificate" / "serve.crt", tokens, log)
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)
