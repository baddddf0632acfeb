"""Sessions of browsers: a cookie stands for a token, so that no token is in a URL, and scripts of pages never have it.

In: the hash of a token that was right. Out: an id of 256 random bits, and the hash again for that id, until the session ends:
after some hours, by sign-out, or with this process. A token that is taken out of its file has no reader, nor have its sessions.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

COOKIE: Final = "__Host-gpustall"
"""Browsers keep one of this prefix for HTTPS and for this host alone."""
SESSION_SECONDS: Final = 8 * 3600
SESSIONS_MAX: Final = 1024
"""The oldest one ends for a further one. Only who has a token begins one."""

_ID_BYTES: Final = 32


class _Session(NamedTuple):
    token_hash: bytes
    until_seconds: float


class Sessions:
    """clock: in seconds, never set back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._sessions: OrderedDict[bytes, _Session] = OrderedDict()

    def begin(self, token_hash: bytes) -> str:
        """The id of a new session."""
        session_id = secrets.token_urlsafe(_ID_BYTES)
        self._sessions[_key(session_id)] = _Session(token_hash, self._clock() + SESSION_SECONDS)
        if len(self._sessions) > SESSIONS_MAX:
            self._sessions.popitem(last=False)
        return session_id

    def token_hash(self, session_id: str) -> bytes | None:
        """None for a session that has ended or never was."""
        found = self._sessions.get(_key(session_id))
        if found is not None and self._clock() >= found.until_seconds:
            self.end(session_id)
            return None
        return found.token_hash if found else None

    def end(self, session_id: str) -> None:
        self._sessions.pop(_key(session_id), None)


def _key(session_id: str) -> bytes:
    """Looked up by hash: the time of a look-up says nothing of an id."""
    return hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).digest()


def kept_cookie(session_id: str) -> str:
    """The header that makes a browser keep the id."""
    return f"{COOKIE}={session_id}; Path=/; Max-Age={SESSION_SECONDS}; Secure; HttpOnly; SameSite=Strict"


def removed_cookie() -> str:
    return f"{COOKIE}=; Path=/; Max-Age=0; Secure; HttpOnly; SameSite=Strict"


def session_id_of(cookies: str) -> str:
    """The id in the header of a request; empty if there is none."""
    for pair in cookies.split(";"):
        name, _, value = pair.strip().partition("=")
        if name == COOKIE:
            return value
    return ""
