"""`cluster` as its users run it: a process of its own without privileges, with a certificate and tokens, and its clients."""

from __future__ import annotations

import os
import re
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.message import Message
from pathlib import Path
from typing import NamedTuple

from exporter.service.certificate import make_certificate
from exporter.service.tokens import new_token
from tests.support.patience import PATIENCE_SECONDS
from tests.support.traced import eventually

COMMAND = (sys.executable, "-m", "exporter", "cluster")
PROTOBUF, JSON = "application/x-protobuf", "application/json"
_HTTP = re.compile(r"serving (https?://\S+:\d+), store at")
_GRPC = re.compile(r"serving OTLP over gRPC.* on port (\d+)")


class Answer(NamedTuple):
    status: int
    headers: Message
    body: bytes


class Storing(NamedTuple):
    """A running store. tokens: by name; `gpu1` may send records of that node alone."""

    process: subprocess.Popen[bytes]
    url: str
    grpc_port: int
    certificate: Path
    tokens: Mapping[str, str]
    log: Path
    store: Path

    def push(self, body: bytes, path: str = "/v1/logs", *, token: str = "fleet", **headers: str) -> Answer:
        known = {"Content-Type": PROTOBUF, "Authorization": f"Bearer {self.tokens.get(token, token)}"}
        sent = known | {name.replace("_", "-"): value for name, value in headers.items()}
        return self._fetched(urllib.request.Request(f"{self.url}{path}", body, sent))  # noqa: S310 - our own server

    def fetch(self, path: str, *, token: str = "fleet") -> Answer:
        headers = {"Authorization": f"Bearer {self.tokens.get(token, token)}"}
        return self._fetched(urllib.request.Request(f"{self.url}{path}", None, headers))  # noqa: S310

    def metric(self, name: str) -> float:
        """A sample of /metrics, by its name and labels as they are written there."""
        found = re.search(rf"^{re.escape(name)} (\S+)$", self.fetch("/metrics").body.decode(), re.MULTILINE)
        assert found, name
        return float(found[1])

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(PATIENCE_SECONDS)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE_SECONDS)

    def _fetched(self, request: urllib.request.Request) -> Answer:
        context = ssl.create_default_context(cafile=self.certificate) if self.url.startswith("https") else None
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS, context=context) as response:  # noqa: S310
                return Answer(response.status, response.headers, response.read())
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, error.headers, error.read())


@contextmanager
def storing(store: Path, folder: Path, *more: str, is_open: bool = False) -> Iterator[Storing]:
    """On free ports of the loopback interface, until the end of the block. folder: for its certificate, which may be shared."""
    certificate = folder / "certificate"
    own = store.parent
    config = certificate / "web.yml"
    if not config.exists():
        make_certificate(certificate, ("localhost", "127.0.0.1", "::1"))
    tokens, lines = {}, ""
    for name, scope in (("fleet", ""), ("gpu1", 'nodes = ["gpu1"]\n')):
        tokens[name], text = new_token(name)
        lines += text + scope
    (own / "tokens.toml").write_text(lines)
    log = own / "log"
    secured = (f"--web.config.file={config}", f"--web.token-file={own / 'tokens.toml'}")
    flags = ("--web.insecure-no-tls", "--web.insecure-no-tokens") if is_open else secured
    addresses = ("--web.listen-address=127.0.0.1:0", "--grpc.listen-address=127.0.0.1:0")
    with log.open("wb") as output:
        command = [*COMMAND, *addresses, f"--store.path={store}", *flags, *more]
        process = subprocess.Popen(command, stderr=output, env={**os.environ, "TZ": "UTC"})
    try:
        http = eventually(lambda: _HTTP.search(log.read_text()), "it serves")
        grpc = _GRPC.search(log.read_text())
        yield Storing(process, http[1], int(grpc[1]) if grpc else 0, certificate / "serve.crt", tokens, log, store)
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)
