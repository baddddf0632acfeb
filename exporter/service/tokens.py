"""Bearer tokens and what each may see, from a TOML file that has their hashes. A token is 256 random bits: it needs no slow hash.

[grafana]
sha256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

[team-a]
sha256 = "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752"
namespaces = ["team-a"]
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from exporter.errors import BadInput
from exporter.files import content
from exporter.history.scope import EVERYTHING, Scope

FILE_BYTES_MAX: Final = 1 << 20
TOKEN_BYTES: Final = 32
_TOKEN_CHARACTERS_MAX: Final = 512
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}")
_KEYS: Final = ("sha256", "nodes", "namespaces")


class TokenReader(NamedTuple):
    """Who asks. name: of the token, for the audit."""

    name: str
    scope: Scope


LOCAL_READER: Final = TokenReader("local", EVERYTHING)
"""Makes requests that need no token. The permissions of the file are the limit."""


class Tokens:
    """hashes: of tokens, each with its reader."""

    def __init__(self, hashes: Mapping[bytes, TokenReader]) -> None:
        self._hashes = dict(hashes)

    def reader(self, token: str) -> TokenReader | None:
        if not 0 < len(token) <= _TOKEN_CHARACTERS_MAX:
            return None
        return self.reader_of_hash(hash_of(token))

    def reader_of_hash(self, token_hash: bytes) -> TokenReader | None:
        """Compared with each in turn, so that the time says nothing of how much of it is right."""
        found = None
        for known, reader in self._hashes.items():
            if hmac.compare_digest(known, token_hash):
                found = reader
        return found


def hash_of(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest().encode()


def new_token(name: str) -> tuple[str, str]:
    """A token, and the lines for the file. Raises BadInput."""
    if not _NAME.fullmatch(name):
        raise BadInput(f"{name!r} is not a valid name for a token", remedy="use letters, digits, and . _ @ -")
    token = secrets.token_urlsafe(TOKEN_BYTES)
    quoted = name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else f'"{name}"'
    return token, f'[{quoted}]\nsha256 = "{hash_of(token).decode()}"\n'


class TokenFile:
    """The file, read again when it has changed. Raises BadInput if it cannot be used at the start."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._raw = _read(path)
        self._tokens = _parsed(path, self._raw)
        self.problem = ""

    def tokens(self) -> Tokens:
        """Those of the last version that could be used; `problem` says what is wrong with a newer one."""
        try:
            raw = _read(self._path)
            if raw != self._raw:
                self._tokens, self._raw = _parsed(self._path, raw), raw
            self.problem = ""
        except BadInput as error:
            self.problem = error.one_line()
        return self._tokens


def _read(path: Path) -> bytes:
    try:
        return content.read(path, FILE_BYTES_MAX, follow_links=True)  # as files of a Secret are mounted
    except (OSError, ValueError) as error:
        raise BadInput(f"--web.token-file: cannot read {path}: {getattr(error, 'strerror', None) or error}") from None


def _parsed(path: Path, raw: bytes) -> Tokens:
    try:
        document = tomllib.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise BadInput(f"--web.token-file: {path} is not TOML: {error}") from None
    if not document:
        raise BadInput(f"--web.token-file: {path} has no token", remedy="`serve --new-token=NAME` makes one")
    hashes: dict[bytes, TokenReader] = {}
    for name, fields in document.items():
        digest, reader = _token(path, name, fields)
        if digest in hashes:
            raise BadInput(f"--web.token-file: {path}: {name} and {hashes[digest].name} are the same token")
        hashes[digest] = reader
    return Tokens(hashes)


def _token(path: Path, name: str, fields: Any) -> tuple[bytes, TokenReader]:
    def refused(reason: str) -> BadInput:
        return BadInput(f"--web.token-file: {path}: [{name}]: {reason}", remedy="see docs/serve.md#tokens")

    if not _NAME.fullmatch(name):
        raise refused("want a name of letters, digits, and . _ @ -")
    if not isinstance(fields, dict) or set(fields) - set(_KEYS):
        raise refused(f"want the keys {', '.join(_KEYS)} alone")
    digest = fields.get("sha256")
    if not isinstance(digest, str) or not _HASH.fullmatch(digest):
        raise refused("sha256: want 64 hexadecimal digits, in lower case")
    sets: list[frozenset[str] | None] = []
    for key in _KEYS[1:]:
        values = fields.get(key)
        if values is not None and not (
            isinstance(values, list) and values and all(isinstance(one, str) and one for one in values)
        ):
            raise refused(f"{key}: want a list of names, or leave it out for all")
        sets.append(None if values is None else frozenset(values))
    return digest.encode(), TokenReader(name, Scope(*sets))
