"""Passwords, compared with bcrypt, which is slow: results are cached by a keyed hash, so that no password is kept."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import threading
from collections import OrderedDict
from collections.abc import Mapping

_MAX_CACHED = 128
_MAX_HEADER_CHARACTERS = 1024
_USUAL_COST = b"10"


class Users:
    """users: name -> bcrypt hash. Thread-safe; one hash is computed at a time."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self._hashes = {name: text.encode() for name, text in users.items()}
        # An unknown user is compared with this hash, so that the time does not reveal which users exist.
        cost = max((one.split(b"$")[2] for one in self._hashes.values()), default=_USUAL_COST)
        self._unknown_user_hash = b"$2b$" + cost + b"$" + b"." * 21 + b"O" + b"." * 31
        self._secret = secrets.token_bytes(32)
        self._hash_lock = threading.Lock()
        # Two caches, so that wrong passwords cannot evict right ones.
        self._correct: OrderedDict[bytes, None] = OrderedDict()
        self._wrong: OrderedDict[bytes, None] = OrderedDict()

    def cached_result(self, authorization: str) -> bool | None:
        """The cached result for an Authorization header; None: call check()."""
        if not self._hashes:
            return True
        credentials = _parse_basic(authorization)
        if credentials is None:
            return False
        key = self._cache_key(*credentials)
        return True if key in self._correct else False if key in self._wrong else None

    def check(self, authorization: str) -> bool:
        """Whether a header has a user and the user's password. Takes 70 ms at a bcrypt cost of 10."""
        if (found := self.cached_result(authorization)) is not None:
            return found
        name, password = _parse_basic(authorization) or ("", b"")
        with self._hash_lock:
            if (found := self.cached_result(authorization)) is not None:  # another request has checked the same
                return found
            is_correct = self._compare(name, password)
            cache = self._correct if is_correct else self._wrong
            cache[self._cache_key(name, password)] = None
            if len(cache) > _MAX_CACHED:
                cache.popitem(last=False)
        return is_correct

    def _compare(self, name: str, password: bytes) -> bool:
        import bcrypt  # noqa: PLC0415 - only for those who have users

        wanted = self._hashes.get(name)
        try:
            is_correct = bcrypt.checkpw(password, wanted or self._unknown_user_hash)
        except ValueError:  # longer than 72 bytes, or with a zero byte: bcrypt never hashed such a password
            return False
        return is_correct and wanted is not None

    def _cache_key(self, name: str, password: bytes) -> bytes:
        """A keyed hash of name, bcrypt hash and password: a changed bcrypt hash invalidates the cache."""
        parts = (name.encode(), self._hashes.get(name, b""), password)
        message = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
        return hmac.new(self._secret, message, hashlib.sha256).digest()


def _parse_basic(authorization: str) -> tuple[str, bytes] | None:
    """Name and password of `Basic YWxpY2U6c2VjcmV0`; None for anything else."""
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic" or len(encoded) > _MAX_HEADER_CHARACTERS:
        return None
    try:
        name, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
        return (name.decode(), password) if colon else None
    except (binascii.Error, UnicodeDecodeError):
        return None
