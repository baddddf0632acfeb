"""Who may come in: the web configuration file as it is now, made into what connections and requests are judged by.

The file, and those it names, are looked at whenever somebody comes. What cannot be used is logged once, and changes nothing.
"""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from exporter.config import web_file
from exporter.config.web_file import RateLimit, WebConfig
from exporter.errors import BadInput
from exporter.output.web import tls
from exporter.output.web.rate_limit import Bucket
from exporter.output.web.users import Users

log = logging.getLogger(__name__)

CERTIFICATE_CHECK_SECONDS = 3600.0
WRITING_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class AccessRules:
    """One state of the file. context: None where TLS is not spoken. bucket: None where nobody counts."""

    config: WebConfig
    context: ssl.SSLContext | None
    users: Users
    bucket: Bucket | None

    def lets_in(self, peer: ssl.SSLObject | None) -> bool:
        """Whether the names of a client's certificate are among those that may come in."""
        return self.config.tls is None or tls.is_allowed(self.config.tls, peer.getpeercert() if peer else None)


OPEN_GATE = AccessRules(WebConfig(), None, Users({}), None)


class AccessControl:
    """path: of the file; None: there is none, and everybody comes in. Raises BadInput when it cannot be used from the start."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._gate = OPEN_GATE
        self._looked_at: dict[Path, bytes | str] = {}
        self._empty_since: float | None = None
        self._certificate_due_at = 0.0
        self._objection: str | None = None
        if path is not None:
            self._gate = self._made(path)
            self._look_at_certificate()

    def gate(self) -> AccessRules:
        """The one in force."""
        if self._path is None:
            return self._gate
        before = self._looked_at
        if any(_content(path) != content for path, content in before.items()):
            try:
                gate = self._made(self._path)
                if self._is_being_written(self._path):
                    self._looked_at = before
                    return self._gate
                self._gate = gate
                self._certificate_due_at = 0.0
                log.info("%s has changed, and is in force", self._path)
            except BadInput as error:
                log.error("the web configuration stays as it was: %s", error.one_line())
        if time.monotonic() >= self._certificate_due_at:
            self._look_at_certificate()
        return self._gate

    def _made(self, path: Path) -> AccessRules:
        looked_at: dict[Path, bytes | str] = {}

        def read(file: Path) -> bytes:
            content = looked_at[file] = _content(file)
            return web_file.read_file(file) if isinstance(content, str) else content

        try:
            config = web_file.load(path, read)
            context = tls.context_of(config.tls) if config.tls else None
            if config.tls:
                tls.objection(config.tls)
        finally:
            self._looked_at = looked_at
        return AccessRules(config, context, self._users(config.users), self._bucket(config.rate_limit))

    def _is_being_written(self, path: Path) -> bool:
        """Empty for less than a moment: who writes a file in its place empties it first, and an empty one lets everybody in.

        By our own clock: the kernel empties a file before it changes the file's time.
        """
        if self._looked_at[path] != b"":
            self._empty_since = None
            return False
        now = time.monotonic()
        if self._empty_since is None:
            self._empty_since = now
        return now - self._empty_since < WRITING_SECONDS

    def _users(self, users: Mapping[str, str]) -> Users:
        """With what was found of their passwords, where they are the same."""
        return self._gate.users if users == self._gate.config.users else Users(users)

    def _bucket(self, limit: RateLimit | None) -> Bucket | None:
        """The one there was, as empty as it is, where the limit is the same."""
        if limit == self._gate.config.rate_limit:
            return self._gate.bucket
        return Bucket(limit, time.monotonic()) if limit else None

    def _look_at_certificate(self) -> None:
        self._certificate_due_at = time.monotonic() + CERTIFICATE_CHECK_SECONDS
        config = self._gate.config
        objection = tls.objection(config.tls) if config.tls else None
        if objection and objection != self._objection:
            log.warning("clients will refuse the certificate of %s: %s", self._path, objection)
        self._objection = objection


def _content(path: Path) -> bytes | str:
    """Or why there is none."""
    try:
        return web_file.read_file(path)
    except (OSError, ValueError) as error:
        return str(error)
