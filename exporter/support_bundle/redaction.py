"""What must not leave this machine? Two nets: what is known to be secret here, and what looks like a secret anywhere.

In: the Config, the files it names, the environment. Out: a Cleaner of texts. It is the second line of defence: parts.py does not
ask for secrets in the first place.
"""

from __future__ import annotations

import base64
import json
import re
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from exporter.config import Config, strict_yaml
from exporter.config.otlp import Target

REMOVED = "[removed]"
SHOWN_VARIABLES = frozenset(
    {"LANG", "LC_ALL", "TZ", "TERM", "PYTHONUNBUFFERED", "PYTHONOPTIMIZE", "PYTHONMALLOC", "PYTHONHASHSEED"}
)
"""Variables of the environment whose values are told."""
_ORDINARY = SHOWN_VARIABLES | {"PATH", "PWD", "OLDPWD", "HOME", "SHELL", "SHLVL", "_", "LS_COLORS"}
_WHO = ("USER", "LOGNAME", "SUDO_USER", "USERNAME")
_LEAST_SECRET = 4  # characters; what is shorter would be found in every word
_LEAST_VALUE = 8  # of a variable of the environment, which may be an ordinary word
_FILE_BYTES_MAX = 1 << 20
KNOWN_PATHS = frozenset({"", "v1", "metrics", "logs", "traces", "api", "otlp"})
"""Parts of a path that are no key."""

_PATTERNS: Sequence[tuple[re.Pattern[str], str]] = (
    (re.compile(r"-----BEGIN [A-Z ]+-----.*?(-----END [A-Z ]+-----|\Z)", re.DOTALL), REMOVED),
    (re.compile(r"(?<=://)[^/\s@\"']+@"), f"{REMOVED}@"),
    (re.compile(r"\b(Bearer|Basic|Negotiate|ApiKey)\s+[\w.~+/=-]{4,}", re.IGNORECASE), rf"\1 {REMOVED}"),
    (re.compile(r"\$2[abxy]?\$\d\d\$[./A-Za-z0-9]{20,}"), REMOVED),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"), REMOVED),  # a JSON web token
    (
        re.compile(
            r"\b((?:[\w-]{0,40}[-_])?(?:authorization|api[-_]?key|access[-_]?key|token|passwd|password|secret))\b"
            r"(\"?\s*[=:]\s*\"?)[^\s\"',;}]+",
            re.IGNORECASE,
        ),
        rf"\1\2{REMOVED}",
    ),
    (re.compile(r"(?<=/home/)[^/\s\"':,;]+|(?<=/Users/)[^/\s\"':,;]+"), "[user]"),
    (re.compile(r"\b(comm|exe|cmdline|proctitle|acct|user|hostname)=(\"[^\"]*\"|[^\s\"]\S*)"), rf"\1={REMOVED}"),
)


class Cleaner:
    """Takes secrets out of texts. secrets: what must not appear. environment: who we are."""

    def __init__(self, secrets: Iterable[str], environment: Mapping[str, str], host: str | None = None) -> None:
        forms = {form for secret in secrets for form in _forms(secret)}
        longest_first = sorted(forms, key=lambda form: (-len(form), form))
        self._secrets = re.compile("|".join(map(re.escape, longest_first))) if forms else None
        host = socket.gethostname() if host is None else host
        names = {environment.get(name, "") for name in _WHO} - {"", "root"}
        words = [(name, "[user]") for name in names if len(name) > 1]
        words += [(name, "[host]") for name in {host, host.partition(".")[0]} if len(name) >= _LEAST_SECRET]
        self._words = [
            (re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])"), instead)
            for name, instead in sorted(words, key=lambda word: -len(word[0]))
        ]

    def text(self, text: str) -> str:
        """Without them."""
        if self._secrets:
            text = self._secrets.sub(REMOVED, text)
        for pattern, instead in (*_PATTERNS, *self._words):
            text = pattern.sub(instead, text)
        return text

    def value(self, value: Any) -> Any:
        """The same of every text in what is to become JSON, keys included."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self.value(one) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(one) for one in value]
        return value


def _forms(secret: str) -> Iterator[str]:
    """As it may be written: plain, in JSON, in a URL, in a header of basic authentication."""
    if len(secret) >= _LEAST_SECRET:
        yield secret
        yield json.dumps(secret)[1:-1]
        yield json.dumps(secret, ensure_ascii=False)[1:-1]
        yield repr(secret)[1:-1]
        yield quote(secret, safe="")
        yield quote(secret)


def secrets(config: Config, environment: Mapping[str, str]) -> set[str]:
    """Everything that the settings, the files they name and the environment hold and that is nobody's business."""
    found = {text.strip() for text in _all(config, environment)}
    return {text for text in found if len(text) >= _LEAST_SECRET}


def _all(config: Config, environment: Mapping[str, str]) -> Iterator[str]:
    for receiver in config.receivers:
        for target in (receiver, receiver.logs, receiver.traces):
            if target is not None:
                yield from _of_target(target)
    for _, value in config.resource_attributes:
        if len(value) >= _LEAST_VALUE:
            yield value
    yield from _of_file(config.orchestrator.token_file)
    yield from _of_url(config.orchestrator.url)
    if config.web_config_file is not None:
        yield from _of_web_config(config.web_config_file)
    for name, value in environment.items():
        is_path = value.startswith("/") and Path(value).exists()
        if name not in _ORDINARY and len(value) >= _LEAST_VALUE and not is_path:
            yield value
            yield from _of_url(value, is_path_known=True)
            for pair in value.split(","):  # a list of headers, or of attributes
                of_pair = unquote(pair.partition("=")[2].strip())
                yield of_pair if len(of_pair) >= _LEAST_VALUE else ""


def _of_target(target: Target) -> Iterator[str]:
    yield from _of_url(target.url)
    for _, value in target.headers:
        yield value
        last = value.split()[-1] if value.split() else ""
        yield last
        yield from _decoded(last)
    for path in (target.client_key_file, target.client_certificate_file):
        if path is not None:
            yield from _of_file(path)


def _decoded(text: str) -> Iterator[str]:
    """Of basic authentication: name and password."""
    try:
        name_and_password = base64.b64decode(text, validate=True).decode("ascii")
    except (ValueError, UnicodeDecodeError):
        return
    name, colon, password = name_and_password.partition(":")
    if colon and name_and_password.isprintable():
        yield from (name_and_password, name, password)


def _of_url(text: str, *, is_path_known: bool = False) -> Iterator[str]:
    """User, password, query, fragment, and whatever of the path is not of a known form: some receivers take a key there."""
    try:
        parts = urlsplit(text)
        secrets_of_it = [parts.username or "", parts.password or "", parts.query, parts.fragment]
    except ValueError:
        return
    if not parts.scheme or not parts.netloc:
        return
    secrets_of_it += [value for _, value in parse_qsl(parts.query)]
    if not is_path_known:
        secrets_of_it += [one for one in parts.path.split("/") if one.lower() not in KNOWN_PATHS]
    for one in secrets_of_it:
        yield one
        yield unquote(one)


def _of_file(path: Path) -> Iterator[str]:
    """Each line of it."""
    try:
        with path.open("rb") as file:
            text = file.read(_FILE_BYTES_MAX).decode("utf-8", "replace")
    except OSError:
        return  # what we cannot read nobody learns from us
    yield from (line for line in text.splitlines() if len(line.strip()) >= _LEAST_VALUE)


def _of_web_config(path: Path) -> Iterator[str]:
    """Names and hashes of users, keys, certificates; not the names of files. Of a broken file every word."""
    try:
        with path.open("rb") as file:
            text = file.read(_FILE_BYTES_MAX).decode("utf-8", "replace")
    except OSError:
        return
    try:
        content = strict_yaml.load(text)
    except ValueError:
        yield from re.findall(rf"[^\s:\"'{{}},]{{{_LEAST_SECRET},}}", text)
        return
    yield from _scalars(content)
    users = content.get("basic_auth_users") if isinstance(content, dict) else None
    yield from users if isinstance(users, dict) else ()


def _scalars(content: Any) -> Iterator[str]:
    if isinstance(content, dict):
        for key, value in content.items():
            if not (isinstance(value, str) and str(key).endswith("_file")):
                yield from _scalars(value)
    elif isinstance(content, list):
        for one in content:
            yield from _scalars(one)
    elif isinstance(content, str):
        yield content
        yield from content.splitlines()
