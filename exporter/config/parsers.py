"""A setting: its flag, its default, how its text is read, and which variables of the environment may say it.

Parsers turn text into a value and raise ValueError with what is wanted.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from exporter.errors import BadInput

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_BYTES = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")

Parse = Callable[[str], Any]


class SecretValueError(ValueError):
    """What is wrong with a value that must not be shown."""


class Setting(NamedTuple):
    """One flag. parse: reads the text of flag and file. default: "" for none.

    environment: variable -> how its text is read; the first that is set and not empty counts. is_repeated: it may be given
    several times, and its text is all of them with commas between.
    """

    flag: str
    default: str
    parse: Parse
    metavar: str
    help: str
    environment: Mapping[str, Parse] = {}
    is_repeated: bool = False

    def value(self, texts: Mapping[str, tuple[str, str]], environment: Mapping[str, str]) -> Any:
        """What was said of it: in a flag or the file, else in the environment, else by default; None for nothing.

        texts: flag -> (text, where it stands). Raises BadInput, which names the place.
        """
        if self.flag in texts:
            text, source = texts[self.flag]
            return _parsed(self.parse, text, source)
        for name, parse in self.environment.items():
            if environment.get(name):
                return _parsed(parse, environment[name], name)
        return self.parse(self.default) if self.default else None


def _parsed(parse: Parse, text: str, source: str) -> Any:
    try:
        return parse(text)
    except SecretValueError as error:
        raise BadInput(f"{source}: {error}") from None
    except ValueError as error:
        raise BadInput(f"{source}: {text!r}: {error}") from None


def address(text: str) -> tuple[str, int]:
    """`127.0.0.1:10478`, `[::1]:10478`, `:10478`. The host is "" for every address of the machine."""
    host, colon, port = text.rpartition(":")
    is_port = port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= 65535
    is_bracketed = host.startswith("[") and host.endswith("]")
    # Brackets and IPv6 go together: in `::1:80` nobody can say where the address ends.
    if not colon or not is_port or is_bracketed != (":" in host):
        raise ValueError("want HOST:PORT, such as 127.0.0.1:10478 or [::1]:10478; :10478 listens on every address")
    host = host[1:-1] if is_bracketed else host
    if host and host != "localhost":
        try:
            ipaddress.ip_address(host)
        except ValueError:
            raise ValueError(f"{host!r} is no IP address") from None
    return host, int(port)


def addresses(text: str) -> tuple[tuple[str, int], ...]:
    """`127.0.0.1:10478,[::1]:10478`: each once, but for port 0, which is another one each time."""
    found = tuple(map(address, text.split(",")))
    named = [one for one in found if one[1]]
    if len(set(named)) < len(named):
        raise ValueError("one address is given twice")
    return found


def duration(text: str) -> float:
    """Seconds."""
    match = _DURATION.fullmatch(text)
    seconds = float(match[1]) * _SECONDS[match[2]] if match else 0.0
    if not 0.01 <= seconds <= 1e7:
        raise ValueError("want a positive duration such as 250ms, 30s or 15m")
    return seconds


def milliseconds(text: str) -> float:
    """Seconds, of the whole milliseconds that OpenTelemetry's variables hold."""
    if not (text.isascii() and text.isdigit() and 10 <= int(text) <= 10_000_000_000):
        raise ValueError("want milliseconds, a whole number from 10 on, as OpenTelemetry specifies")
    return int(text) / 1000


def share(text: str) -> float:
    """A part of one."""
    match = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,6})?)%", text, re.ASCII)
    if match and 0 < float(match[1]) <= 100:
        return float(match[1]) / 100
    raise ValueError("want a share such as 1% or 0.5%")


def path_of_url(text: str) -> str:
    """The path of a page of ours."""
    if not re.fullmatch(r"/[A-Za-z0-9._~/-]{1,200}", text) or text in ("/healthz", "/readyz", "/-/reload"):
        raise ValueError("want a path such as /metrics that is not taken by another page")
    return text


def switch(text: str) -> bool:
    """true or false."""
    if text.lower() in _TRUE + _FALSE:
        return text.lower() in _TRUE
    raise ValueError("want true or false")


def count(text: str) -> int:
    """A whole number."""
    if text.isascii() and text.isdigit() and 1 <= int(text) <= 100_000:
        return int(text)
    raise ValueError("want a whole number from 1 to 100000")


def size(text: str) -> int:
    """Bytes."""
    match = re.fullmatch(r"([0-9]{1,9})(KiB|MiB|GiB)", text, re.ASCII)
    size_bytes = int(match[1]) * _BYTES[match[2]] if match else 0
    if not _BYTES["MiB"] * 2 <= size_bytes <= _BYTES["GiB"] * 64:
        raise ValueError("want a size from 2MiB to 64GiB, such as 64MiB")
    return size_bytes


def file_or_none(text: str) -> Path | None:
    """A file that we make, and move aside when it is damaged: not one that is something else already. None for `none`."""
    if text == "none":
        return None
    path = Path(text)
    if path.is_absolute() and path.suffix == ".sqlite" and "\0" not in text:
        return path
    raise ValueError("want an absolute path that ends in .sqlite, or none")


def one_of(*choices: str) -> Parse:
    """A parser that takes these words."""

    def parse(text: str) -> str:
        if text in choices:
            return text
        raise ValueError(f"want one of {', '.join(choices)}")

    return parse


def in_any_case(parse: Parse) -> Parse:
    """A parser that takes capital letters for small ones, as OpenTelemetry's variables want it."""
    return lambda text: parse(text.lower())


def existing_dir(text: str) -> Path:
    """A directory."""
    if text and Path(text).is_dir():
        return Path(text)
    raise ValueError("want a directory that exists")


def path_or_none(text: str) -> Path | None:
    """An absolute path, which need not be there yet; None for the word `none`."""
    if text == "none":
        return None
    if text.startswith("/"):
        return Path(text)
    raise ValueError("want a path that begins with /, or none")


def absolute_path(text: str) -> Path:
    """A path that need not be there yet."""
    if text.startswith("/") and "\0" not in text:
        return Path(text)
    raise ValueError("want a path that begins with /")


def absolute_file(text: str) -> Path:
    """A file, whatever directory it is named from."""
    return readable_file(text).absolute()


def readable_file(text: str) -> Path:
    """A file."""
    try:
        with Path(text).open("rb"):
            return Path(text)
    except OSError as error:
        raise ValueError(f"cannot read it: {error.strerror}") from None


def name(text: str) -> str:
    """What a label may hold."""
    if text and len(text) <= 128 and text.isprintable():
        return text
    raise ValueError("want 1 to 128 printable characters")
