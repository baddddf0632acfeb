"""Is this the password of a user? bcrypt says so, slowly; what it has said is remembered, and no password is kept for it."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import threading
from collections import OrderedDict
from collections.abc import Mapping

_REMEMBERED = 128
_MAX_HEADER_CHARACTERS = 1024
_USUAL_COST = b"10"


class Users:
    """users: name -> bcrypt hash. check() is for one thread or many; at a time, one hash is computed."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self._hashes = {name: text.encode() for name, text in users.items()}
        # What a user who does not exist is compared with, so that the time tells nobody who does.
        cost = max((one.split(b"$")[2] for one in self._hashes.values()), default=_USUAL_COST)
        self._nobodys_hash = b"$2b$" + cost + b"$" + b"." * 21 + b"O" + b"." * 31
        self._secret = secrets.token_bytes(32)
        self._one_at_a_time = threading.Lock()
        # Apart, so that no number of wrong passwords makes a right one be forgotten.
        self._right: OrderedDict[bytes, None] = OrderedDict()
        self._wrong: OrderedDict[bytes, None] = OrderedDict()

    def known(self, authorization: str) -> bool | None:
        """What was found of an Authorization header before; None if nothing was, and check() must be asked."""
        if not self._hashes:
            return True
        credentials = _basic(authorization)
        if credentials is None:
            return False
        mark = self._mark(*credentials)
        return True if mark in self._right else False if mark in self._wrong else None

    def check(self, authorization: str) -> bool:
        """Whether a header names a user with their password. Takes as long as the hash wants: 70 ms at a cost of 10."""
        if (found := self.known(authorization)) is not None:
            return found
        name, password = _basic(authorization) or ("", b"")
        with self._one_at_a_time:
            if (found := self.known(authorization)) is not None:  # another request has asked the same meanwhile
                return found
            is_right = self._compare(name, password)
            remembered = self._right if is_right else self._wrong
            remembered[self._mark(name, password)] = None
            if len(remembered) > _REMEMBERED:
                remembered.popitem(last=False)
        return is_right

    def _compare(self, name: str, password: bytes) -> bool:
        import bcrypt  # noqa: PLC0415 - only for those who have users

        wanted = self._hashes.get(name)
        try:
            is_right = bcrypt.checkpw(password, wanted or self._nobodys_hash)
        except ValueError:  # a password that bcrypt cannot have hashed: longer than 72 bytes, or with a zero in it
            return False
        return is_right and wanted is not None

    def _mark(self, name: str, password: bytes) -> bytes:
        """Of name, hash and password; with a changed hash, what was found before is not found any more."""
        parts = (name.encode(), self._hashes.get(name, b""), password)
        told = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
        return hmac.new(self._secret, told, hashlib.sha256).digest()


def _basic(authorization: str) -> tuple[str, bytes] | None:
    """Name and password of `Basic YWxpY2U6c2VjcmV0`; None for anything else."""
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic" or len(encoded) > _MAX_HEADER_CHARACTERS:
        return None
    try:
        name, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
        return (name.decode(), password) if colon else None
    except (binascii.Error, UnicodeDecodeError):
        return None
