"""Access rules from the web configuration file, which is reloaded when it or a file that it names has changed.

The files are read for each connection and request. A change that cannot be used is logged once and ignored.
"""

from __future__ import annotations

import logging
import math
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from exporter.config import web_file
from exporter.config.web_file import RateLimit, ReadFile, WebConfig
from exporter.errors import BadInput
from exporter.output.web import tls
from exporter.output.web.rate_limit import TokenBucket
from exporter.output.web.users import Users

log = logging.getLogger(__name__)

CERTIFICATE_CHECK_SECONDS = 3600.0
WRITING_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class AccessRules:
    """The rules of one version of the file. context: None without TLS. bucket: None without a rate limit."""

    config: WebConfig
    context: ssl.SSLContext | None
    users: Users
    bucket: TokenBucket | None

    def allowed_until(self, peer: ssl.SSLObject | None) -> float:
        """Until when a client has access, as Unix time in seconds: 0 if the names in its certificate are not allowed.

        Its certificate may expire while it is connected, and a TLS session that is resumed does not verify it again.
        """
        if self.config.tls is None:
            return math.inf
        certificate = peer.getpeercert() if peer else None
        return tls.expires_at(certificate) if tls.is_allowed(self.config.tls, certificate) else 0.0


OPEN_RULES = AccessRules(WebConfig(), None, Users({}), None)


class AccessControl:
    """path: None: all clients have access. Raises BadInput when the file cannot be used at the start.

    read: the content of a file, or an OSError or ValueError in limited time.
    """

    def __init__(self, path: Path | None, read: ReadFile = web_file.read_file) -> None:
        self._path = path
        self._read = read
        self._rules = OPEN_RULES
        self._contents: dict[Path, bytes | str] = {}
        self._empty_since: float | None = None
        self._certificate_due_at = 0.0
        self._certificate_problem: str | None = None
        if path is not None:
            self._rules = self._load(path)
            self._check_certificate()

    def rules(self) -> AccessRules:
        """The current rules."""
        if self._path is None:
            return self._rules
        before = self._contents
        if any(self._content(path) != content for path, content in before.items()):
            try:
                rules = self._load(self._path)
                if self._is_being_written(self._path):
                    self._contents = before
                    return self._rules
                self._rules = rules
                self._certificate_due_at = 0.0
                log.info("reloaded %s", self._path)
            except BadInput as error:
                log.error("cannot load the changed web configuration, keeping the last one: %s", error.one_line())
        if time.monotonic() >= self._certificate_due_at:
            self._check_certificate()
        return self._rules

    def _load(self, path: Path) -> AccessRules:
        contents: dict[Path, bytes | str] = {}

        def read(file: Path) -> bytes:
            content = contents[file] = self._content(file)
            return self._read(file) if isinstance(content, str) else content

        try:
            config = web_file.load(path, read)
            context = tls.context_of(config.tls) if config.tls else None
            if config.tls:
                tls.certificate_state(config.tls)
        finally:
            self._contents = contents
        return AccessRules(config, context, self._users(config.users), self._bucket(config.rate_limit))

    def _is_being_written(self, path: Path) -> bool:
        """Whether the file has been empty for less than a second: an editor may truncate it first, and empty means open access.

        By the exporter's clock: the kernel truncates a file before it changes the file's time.
        """
        if self._contents[path] != b"":
            self._empty_since = None
            return False
        now = time.monotonic()
        if self._empty_since is None:
            self._empty_since = now
        return now - self._empty_since < WRITING_SECONDS

    def _users(self, users: Mapping[str, str]) -> Users:
        """Unchanged users keep their cache of checked passwords."""
        return self._rules.users if users == self._rules.config.users else Users(users)

    def _bucket(self, limit: RateLimit | None) -> TokenBucket | None:
        """An unchanged limit keeps its bucket."""
        if limit == self._rules.config.rate_limit:
            return self._rules.bucket
        return TokenBucket(limit, time.monotonic()) if limit else None

    def _check_certificate(self) -> None:
        config = self._rules.config
        problem, expires_at = tls.certificate_state(config.tls) if config.tls else (None, math.inf)
        left_seconds = max(expires_at - time.time(), 0)
        self._certificate_due_at = time.monotonic() + min(left_seconds + 1, CERTIFICATE_CHECK_SECONDS)
        if problem and problem != self._certificate_problem:
            log.warning(
                "clients will refuse the certificate of %s: %s; renew the file: it is reloaded",
                self._path,
                problem,
            )
        self._certificate_problem = problem

    def _content(self, path: Path) -> bytes | str:
        """The content, or the reason why it cannot be read."""
        try:
            return self._read(path)
        except (OSError, ValueError) as error:
            return str(error)
