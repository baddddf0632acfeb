"""Removes secrets from texts: known ones of this machine, and patterns that look like a secret anywhere.

In: the Config, the files it names, the environment. Out: a Redactor. It is the second line of defence: parts.py does not collect
secrets in the first place.
"""

from __future__ import annotations

import base64
import json
import os
import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from exporter.config import SETTINGS, Config, strict_yaml
from exporter.config.otlp import Target
from exporter.files import content
from exporter.support_bundle.secret_patterns import IS_SECRET_NAME, REMOVED, without_secrets

SHOWN_VARIABLES = frozenset(
    {"LANG", "LC_ALL", "TZ", "TERM", "PYTHONUNBUFFERED", "PYTHONOPTIMIZE", "PYTHONMALLOC", "PYTHONHASHSEED"}
)
"""Environment variables whose values cannot be secret."""
_ORDINARY = (
    SHOWN_VARIABLES
    | {"PATH", "PWD", "OLDPWD", "HOME", "SHELL", "SHLVL", "_", "LS_COLORS"}
    | {setting.variable for setting in SETTINGS if setting.metavar not in ("URL", "NAME", "KEY=VALUE,…")}
)
_USER_VARIABLES = ("USER", "LOGNAME", "SUDO_USER", "USERNAME")
_SECRET_MIN = 4  # characters; shorter ones would match in ordinary words
_VALUE_MIN = 8  # characters of an environment variable, which may be an ordinary word
_FILE_BYTES_MAX = 1 << 20
KNOWN_PATHS = frozenset({"", "v1", "metrics", "logs", "traces", "api", "otlp"})
"""Parts of a URL's path that are no key."""


class Redactor:
    """secrets: strings to remove. environment: has the user's name. host: its name, [this machine's]."""

    def __init__(self, secrets: Iterable[str], environment: Mapping[str, str], host: str | None = None) -> None:
        forms = {form for secret in secrets for form in _forms(secret)}
        longest_first = sorted(forms, key=lambda form: (-len(form), form))
        self._secrets = re.compile("|".join(map(re.escape, longest_first))) if forms else None
        host = socket.gethostname() if host is None else host
        names = {environment.get(name, "") for name in _USER_VARIABLES} - {"", "root"}
        words = [(name, "[user]") for name in names if len(name) > 1]
        words += [(name, "[host]") for name in {host, host.partition(".")[0]} if len(name) >= _SECRET_MIN]
        self._words = [
            (re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])"), instead)
            for name, instead in sorted(words, key=lambda word: -len(word[0]))
        ]

    def text(self, text: str) -> str:
        if self._secrets:
            text = self._secrets.sub(REMOVED, text)
        text = without_secrets(text)
        for pattern, instead in self._words:
            text = pattern.sub(instead, text)
        return text

    def value(self, value: Any) -> Any:
        """Redacts every text in a JSON value, keys included."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self._member(str(key), one) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(one) for one in value]
        return value

    def _member(self, name: str, value: Any) -> Any:
        """A text is removed if the name says that it is secret."""
        return REMOVED if value and isinstance(value, str) and IS_SECRET_NAME.fullmatch(name) else self.value(value)


def _forms(secret: str) -> Iterator[str]:
    """Spellings of a secret: plain, in JSON, in Python, in a URL."""
    if len(secret) >= _SECRET_MIN:
        yield secret
        yield json.dumps(secret)[1:-1]
        yield json.dumps(secret, ensure_ascii=False)[1:-1]
        yield repr(secret)[1:-1]
        yield quote(secret, safe="")
        yield quote(secret)


def secrets(config: Config, environment: Mapping[str, str]) -> set[str]:
    """Secrets in the settings, in the files that they name and in the environment."""
    found = {text.strip() for text in _all(config, environment)}
    return {text for text in found if len(text) >= _SECRET_MIN}


def _all(config: Config, environment: Mapping[str, str]) -> Iterator[str]:
    for receiver in config.otlp.receivers:
        for target in (receiver, receiver.logs, receiver.traces):
            if target is not None:
                yield from _target_secrets(target)
    for _, value in config.otlp.resource.attributes:
        if len(value) >= _VALUE_MIN:
            yield value
    yield from _file_secrets(config.orchestrator.token_file)
    yield from _url_secrets(config.orchestrator.url or "")
    if config.web.config_file is not None:
        yield from _web_config_secrets(config.web.config_file)
    for name, value in environment.items():
        is_path = value.startswith("/") and Path(value).exists()
        if name not in _ORDINARY and len(value) >= _VALUE_MIN and not is_path:
            yield value
            yield from _url_secrets(value, is_path_known=True)
            for pair in value.split(","):  # a list of headers, or of attributes
                of_pair = unquote(pair.partition("=")[2].strip())
                yield of_pair if len(of_pair) >= _VALUE_MIN else ""


def _target_secrets(target: Target) -> Iterator[str]:
    yield from _url_secrets(target.url)
    for _, value in target.headers:
        yield value
        last = value.split()[-1] if value.split() else ""
        yield last
        yield from _decoded(last)
    for path in (target.client_key_file, target.client_certificate_file):
        if path is not None:
            yield from _file_secrets(path)


def _decoded(text: str) -> Iterator[str]:
    """User and password of basic authentication."""
    try:
        name_and_password = base64.b64decode(text, validate=True).decode("ascii")
    except (ValueError, UnicodeDecodeError):
        return
    name, colon, password = name_and_password.partition(":")
    if colon and name_and_password.isprintable():
        yield from (name_and_password, name, password)


def _url_secrets(text: str, *, is_path_known: bool = False) -> Iterator[str]:
    """User, password, query, fragment and unknown parts of the path, where some receivers take a key."""
    try:
        parts = urlsplit(text)
        found = [parts.username or "", parts.password or "", parts.query, parts.fragment]
    except ValueError:
        return
    if not parts.scheme or not parts.netloc:
        return
    found += [value for _, value in parse_qsl(parts.query)]
    if not is_path_known:
        found += [one for one in parts.path.split("/") if one.lower() not in KNOWN_PATHS]
    for one in found:
        yield one
        yield unquote(one)


def _beginning(path: Path) -> str:
    """Raises OSError."""
    fd = content.open_regular(path, follow_links=True)
    try:
        return content.read_up_to(fd, _FILE_BYTES_MAX).decode("utf-8", "replace")
    finally:
        os.close(fd)


def _file_secrets(path: Path) -> Iterator[str]:
    """Its lines."""
    try:
        text = _beginning(path)
    except OSError:
        return  # what cannot be read here cannot leak
    yield from (line for line in text.splitlines() if len(line.strip()) >= _VALUE_MIN)


def _web_config_secrets(path: Path) -> Iterator[str]:
    """Users, password hashes, keys, certificates; not names of files. If the file is invalid, every word of it."""
    try:
        text = _beginning(path)
    except OSError:
        return
    try:
        document = strict_yaml.load(text)
    except ValueError:
        yield from re.findall(rf"[^\s:\"'{{}},]{{{_SECRET_MIN},}}", text)
        return
    yield from _scalars(document)
    users = document.get("basic_auth_users") if isinstance(document, dict) else None
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
