"""Reads --web.config.file: TLS, client certificates, users, headers, rate limit.

The format is the YAML of Prometheus' exporter-toolkit. Unknown keys, values of the wrong type and values that this server cannot
implement are refused. Paths in the file are relative to its directory.
"""

from __future__ import annotations

import enum
import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from exporter.errors import BadInput

MAX_FILE_BYTES = 1 << 20
ReadFile = Callable[[Path], bytes]
_Value = TypeVar("_Value")

_TLS_VERSIONS = {
    "TLS13": ssl.TLSVersion.TLSv1_3,
    "TLS12": ssl.TLSVersion.TLSv1_2,
    "TLS11": ssl.TLSVersion.TLSv1_1,
    "TLS10": ssl.TLSVersion.TLSv1,
}
# Names in Go's crypto/tls -> in OpenSSL. The ciphers of TLS 1.3 are not configurable, neither there nor here.
_TLS13_CIPHERS = {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
_TLS12_CIPHERS = {
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
}
_HTTP2_NEEDS = ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256")
_CURVES = {
    "CurveP256": "prime256v1",
    "CurveP384": "secp384r1",
    "CurveP521": "secp521r1",
    "X25519": "X25519",
    "X25519MLKEM768": "X25519MLKEM768",
}
_CLASSIC_CURVES = set(_CURVES) - {"X25519MLKEM768"}
# Header -> allowed values; empty for any.
_HEADERS: Mapping[str, tuple[str, ...]] = {
    "Content-Security-Policy": (),
    "Strict-Transport-Security": (),
    "X-Content-Type-Options": ("nosniff",),
    "X-Frame-Options": ("deny", "sameorigin"),
    "X-XSS-Protection": (),
}
_BCRYPT_HASH = re.compile(r"\$2[abxy]\$(0[4-9]|[12][0-9]|3[01])\$[./A-Za-z0-9]{53}")
_DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?(?:ns|us|µs|ms|s|m|h))+")
_DURATION_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?)(ns|us|µs|ms|s|m|h)")
_BURST_MAX = 1_000_000
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


class ClientCertificate(enum.Enum):
    """Whether clients need a certificate."""

    NOT_REQUESTED = enum.auto()
    VERIFIED_IF_GIVEN = enum.auto()
    REQUIRED = enum.auto()


_CLIENT_AUTH_TYPES = {
    "": ClientCertificate.NOT_REQUESTED,
    "NoClientCert": ClientCertificate.NOT_REQUESTED,
    "RequestClientCert": ClientCertificate.NOT_REQUESTED,  # Go requests one and ignores it
    "VerifyClientCertIfGiven": ClientCertificate.VERIFIED_IF_GIVEN,
    "RequireAnyClientCert": ClientCertificate.REQUIRED,
    "RequireClientCert": ClientCertificate.REQUIRED,
    "RequireAndVerifyClientCert": ClientCertificate.REQUIRED,
}


@dataclass(frozen=True, slots=True)
class Tls:
    """Certificates and key are PEM. ciphers: OpenSSL's names, of TLS 1.2. curve: the only one. None: OpenSSL's default.

    client_authorities: b"" for those that the system trusts.
    """

    certificate: bytes
    key: bytes = field(repr=False)
    client_authorities: bytes
    client_certificate: ClientCertificate
    allowed_names: tuple[str, ...]
    min_version: ssl.TLSVersion
    max_version: ssl.TLSVersion
    ciphers: tuple[str, ...] | None
    prefers_server_ciphers: bool
    curve: str | None


@dataclass(frozen=True, slots=True)
class RateLimit:
    """A token bucket: `burst` requests at once, and one more per interval."""

    interval_seconds: float
    burst: int


@dataclass(frozen=True, slots=True)
class WebConfig:
    """users: name -> bcrypt hash; empty for no authentication. headers: of every response."""

    tls: Tls | None = None
    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    headers: tuple[tuple[str, str], ...] = ()
    rate_limit: RateLimit | None = None


def read_file(path: Path) -> bytes:
    """Content of a regular file. Raises OSError, and ValueError for other kinds of files and for large ones."""
    if path.exists() and not path.is_file():
        raise ValueError("not a regular file")
    with path.open("rb") as file:
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise ValueError(f"larger than {MAX_FILE_BYTES} bytes")
    return content


def load(path: Path, read: ReadFile = read_file) -> WebConfig:
    """read: returns the content of this file and of the files that it names. Raises BadInput."""
    try:
        return _parse(_File(read, path.parent), _text(read, path))
    except ValueError as error:
        raise BadInput(
            f"--web.config.file: {path}: {error}", remedy="docs/web.md has the format (`gpu-stall-exporter assets`)"
        ) from None


@dataclass(frozen=True, slots=True)
class _File:
    """Reads the files that the configuration file names."""

    read: ReadFile
    folder: Path

    def named(self, what: str, name: str) -> bytes:
        """what: the key that names it, for errors."""
        try:
            return self.read(self.folder / name)
        except (OSError, ValueError) as error:
            raise ValueError(f"{what}: cannot read {self.folder / name}: {_why(error)}") from None


def _why(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _text(read: ReadFile, path: Path) -> str:
    try:
        return read(path).decode()
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None
    except (OSError, ValueError) as error:
        raise ValueError(f"cannot read it: {_why(error)}") from None


def _parse(file: _File, text: str) -> WebConfig:
    from exporter.config import strict_yaml  # noqa: PLC0415 - takes 1 MiB, only with such a file

    top = _Section("", strict_yaml.load(text))
    tls, http = top.section("tls_server_config"), top.section("http_server_config")
    users, rate_limit = top.section("basic_auth_users"), top.section("rate_limit")
    top.end()
    has_http2, headers = http.taken("http2", bool, True), http.section("headers")
    http.end()
    return WebConfig(_tls(file, tls, has_http2=has_http2), _users(users), _headers(headers), _rate_limit(rate_limit))


class _Section:
    """A mapping in the file, whose known keys are taken one by one: those left at the end() are unknown. Raises ValueError."""

    def __init__(self, name: str, content: Any) -> None:
        self._name = name
        if content is not None and not isinstance(content, dict):
            raise ValueError(f"{self._of('it')} must be a mapping")
        self._left: dict[str, Any] = {key: value for key, value in (content or {}).items() if value is not None}
        self.is_empty = not self._left

    def _of(self, what: str) -> str:
        return f"{self._name}: {what}" if self._name else what

    def taken(self, key: str, kind: type[_Value], default: _Value) -> _Value:
        """The value of a key. kind: its type."""
        value = self._left.pop(key, default)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            wanted = {str: "a string", bool: "true or false", int: "a whole number", list: "a list"}[kind]
            raise ValueError(self._of(f"{key} must be {wanted}"))
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings."""
        found = self.taken(key, list, [])
        if not all(isinstance(one, str) for one in found):
            raise ValueError(self._of(f"{key} must be a list of strings"))
        return tuple(found)

    def duration_seconds(self, key: str) -> float:
        """`1s`, `1m30s`, `0`; 0 without the key."""
        value = self._left.pop(key, 0)
        if value in (0, "0") and not isinstance(value, bool):
            return 0.0
        if not isinstance(value, str) or not _DURATION.fullmatch(value):
            raise ValueError(self._of(f"{key} must be a duration such as 1s or 200ms"))
        return sum(float(number) * _SECONDS[unit] for number, unit in _DURATION_PART.findall(value))

    def section(self, key: str) -> _Section:
        """A nested mapping, empty without the key."""
        return _Section(self._of(key), self._left.pop(key, None))

    def rest(self, *, with_numbers: bool = False) -> dict[str, str]:
        """All keys that are left, with strings. with_numbers: integers are strings, too, as in Go's YAML."""
        found, self._left = self._left, {}
        for key, value in found.items():
            if with_numbers and isinstance(value, int) and not isinstance(value, bool):
                found[key] = str(value)
                continue
            if not isinstance(value, str):
                raise ValueError(self._of(f"{key} must be a string"))
        return found

    def end(self) -> None:
        """Raises ValueError for a key that is left."""
        for key in self._left:
            raise ValueError(self._of(f"unknown key {key!r}"))


def _tls(file: _File, section: _Section, *, has_http2: bool) -> Tls | None:
    if section.is_empty:
        return None
    certificate = _inline_or_file(file, section, "cert")
    key = _inline_or_file(file, section, "key")
    authorities = _inline_or_file(file, section, "client_ca")
    auth_type = section.taken("client_auth_type", str, "")
    allowed_names = section.texts("client_allowed_sans")
    versions = {
        bound: _named(section.taken(bound, str, default), _TLS_VERSIONS, "TLS version")
        for bound, default in (("min_version", "TLS12"), ("max_version", "TLS13"))
    }
    suites, curves = section.texts("cipher_suites"), section.texts("curve_preferences")
    prefers_server_ciphers = section.taken("prefer_server_cipher_suites", bool, True)
    section.end()
    if not certificate:
        raise ValueError("tls_server_config: cert or cert_file is required")
    if not key:
        raise ValueError("tls_server_config: key or key_file is required")
    if versions["min_version"] > versions["max_version"]:
        raise ValueError("tls_server_config: min_version is above max_version")
    return Tls(
        certificate,
        key,
        authorities,
        _client_certificate(auth_type, authorities, allowed_names),
        allowed_names,
        versions["min_version"],
        versions["max_version"],
        _ciphers(suites, needs_http2=has_http2 and versions["min_version"] < ssl.TLSVersion.TLSv1_3),
        prefers_server_ciphers,
        _curve(curves),
    )


def _inline_or_file(file: _File, section: _Section, key: str) -> bytes:
    inline, name = section.taken(key, str, ""), section.taken(f"{key}_file", str, "")
    if inline and name:
        raise ValueError(f"tls_server_config: {key} and {key}_file cannot be combined")
    return file.named(f"tls_server_config: {key}_file", name) if name else inline.encode()


def _named(name: str, known: Mapping[str, _Value], what: str) -> _Value:
    if name not in known:
        raise ValueError(f"tls_server_config: unknown {what} {name!r}: want one of {', '.join(filter(None, known))}")
    return known[name]


def _client_certificate(auth_type: str, authorities: bytes, allowed_names: tuple[str, ...]) -> ClientCertificate:
    wanted = _named(auth_type, _CLIENT_AUTH_TYPES, "client_auth_type")
    if authorities and auth_type in ("", "NoClientCert"):
        raise ValueError("tls_server_config: client_ca has no effect without a client_auth_type")
    if wanted is ClientCertificate.REQUIRED and not authorities:
        raise ValueError(
            f"tls_server_config: client_auth_type {auth_type} needs a client_ca_file:"
            " without it, any certificate would be accepted"
        )
    if allowed_names and wanted is not ClientCertificate.REQUIRED:
        raise ValueError("tls_server_config: client_allowed_sans needs client_auth_type RequireAndVerifyClientCert")
    return wanted


def _ciphers(suites: tuple[str, ...], *, needs_http2: bool) -> tuple[str, ...] | None:
    for suite in suites:
        if suite not in _TLS12_CIPHERS and suite not in _TLS13_CIPHERS:
            raise ValueError(f"tls_server_config: unknown cipher {suite!r}")
    if suites and needs_http2 and not set(suites).intersection(_HTTP2_NEEDS):
        raise ValueError(
            f"tls_server_config: cipher_suites lacks {_HTTP2_NEEDS[0]}, which HTTP/2 needs: add it, or set http2 to false"
        )
    return tuple(_TLS12_CIPHERS[suite] for suite in suites if suite in _TLS12_CIPHERS) if suites else None


def _curve(curves: tuple[str, ...]) -> str | None:
    """The ssl module of Python can be restricted to one curve, or not at all."""
    for curve in curves:
        _named(curve, _CURVES, "curve")
    if not curves or set(curves) >= _CLASSIC_CURVES:
        return None
    if len(set(curves)) == 1:
        return _CURVES[curves[0]]
    raise ValueError("tls_server_config: curve_preferences must name one curve or all of them")


def _users(section: _Section) -> dict[str, str]:
    users = section.rest()
    for name, password_hash in users.items():
        if ":" in name or not name:
            raise ValueError(f"basic_auth_users: invalid user name {name!r}: want one character or more, no colon")
        if not _BCRYPT_HASH.fullmatch(password_hash):
            raise ValueError(
                f"basic_auth_users: the password of {name!r} is not a bcrypt hash: create one with `htpasswd -nBC 10 {name}`"
            )
    return users


def _headers(section: _Section) -> tuple[tuple[str, str], ...]:
    headers = section.rest(with_numbers=True)  # X-XSS-Protection: 1
    for name, value in headers.items():
        if name not in _HEADERS:
            raise ValueError(f"http_server_config: headers: {name!r} cannot be set: want one of {', '.join(_HEADERS)}")
        if value and _HEADERS[name] and value not in _HEADERS[name]:
            raise ValueError(
                f"http_server_config: headers: {name} must be {' or '.join(_HEADERS[name])}, not {value!r}"
            )
        if not (value.isascii() and value.isprintable()):
            raise ValueError(f"http_server_config: headers: {name} must be printable ASCII")
    return tuple((name, value.strip()) for name, value in headers.items() if value.strip())


def _rate_limit(section: _Section) -> RateLimit | None:
    interval, burst = section.duration_seconds("interval"), section.taken("burst", int, 0)
    section.end()
    if not interval:
        return None
    if burst < 1:
        raise ValueError("rate_limit: burst must be at least 1: without it, every request would be refused")
    if burst > _BURST_MAX:
        raise ValueError(f"rate_limit: burst must be at most {_BURST_MAX}")
    return RateLimit(interval, burst)
