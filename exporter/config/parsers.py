"""Text -> value, for every kind of setting. Each function raises ValueError with what is wanted."""

from __future__ import annotations

import enum
import ipaddress
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Generic, TypeVar

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_BYTES = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
_OTHER_PAGES = ("/healthz", "/readyz", "/-/reload", "/call-sites")

T = TypeVar("T")
E = TypeVar("E", bound=enum.StrEnum)


def address(text: str) -> tuple[str, int]:
    """`127.0.0.1:10478`, `[::1]:10478`, `:10478`. The host is "" for every IPv4 address of the machine."""
    host, colon, port = text.rpartition(":")
    is_port = port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= 65535
    is_bracketed = host.startswith("[") and host.endswith("]")
    # IPv6 addresses need brackets: without them, the end of the address in `::1:80` is ambiguous.
    if not colon or not is_port or is_bracketed != (":" in host):
        raise ValueError("want HOST:PORT, such as 127.0.0.1:10478 or [::1]:10478; :10478 listens on every address")
    host = host[1:-1] if is_bracketed else host
    if host and host != "localhost":
        try:
            ipaddress.ip_address(host)
        except ValueError:
            raise ValueError(f"want an IP address or localhost, not {host!r}") from None
    return host, int(port)


def addresses(text: str) -> tuple[tuple[str, int], ...]:
    """`127.0.0.1:10478,[::1]:10478`, without duplicates. Port 0 may be repeated: it is a free port, another one each time."""
    found = tuple(map(address, text.split(",")))
    fixed = [one for one in found if one[1]]
    if len(set(fixed)) < len(fixed):
        raise ValueError("an address is given twice")
    return found


def duration(text: str) -> float:
    """Seconds."""
    match = _DURATION.fullmatch(text)
    seconds = float(match[1]) * _SECONDS[match[2]] if match else 0.0
    if not 0.01 <= seconds <= 1e7:
        raise ValueError("want a positive duration, such as 250ms, 30s or 15m")
    return seconds


def milliseconds(text: str) -> float:
    """Seconds, from the whole milliseconds of OpenTelemetry's variables."""
    if not (text.isascii() and text.isdigit() and 10 <= int(text) <= 10_000_000_000):
        raise ValueError("want milliseconds, a whole number of at least 10, as OpenTelemetry specifies")
    return int(text) / 1000


def share(text: str) -> float:
    """`1%` -> 0.01."""
    match = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,6})?)%", text, re.ASCII)
    if match and 0 < float(match[1]) <= 100:
        return float(match[1]) / 100
    raise ValueError("want a percentage, such as 1% or 0.5%")


def path_of_url(text: str) -> str:
    """The path of a page, other than those that are always there, and that beside it."""
    is_other = text in _OTHER_PAGES or text.endswith(_OTHER_PAGES[-1])
    if not re.fullmatch(r"/[A-Za-z0-9._~/-]{1,200}", text) or is_other:
        raise ValueError(f"want a path such as /metrics, and none of {', '.join(_OTHER_PAGES)}")
    return text


def switch(text: str) -> bool:
    """Raises ValueError."""
    if text.lower() in _TRUE + _FALSE:
        return text.lower() in _TRUE
    raise ValueError("want true or false")


def inverted_switch(text: str) -> bool:
    """For a flag that disables what its field enables."""
    return not switch(text)


def count(text: str) -> int:
    """Raises ValueError."""
    if text.isascii() and text.isdigit() and 1 <= int(text) <= 100_000:
        return int(text)
    raise ValueError("want a whole number from 1 to 100000")


def size(text: str) -> int:
    """`64MiB` -> bytes."""
    match = re.fullmatch(r"([0-9]{1,9})(KiB|MiB|GiB)", text, re.ASCII)
    size_bytes = int(match[1]) * _BYTES[match[2]] if match else 0
    if not _BYTES["MiB"] * 2 <= size_bytes <= _BYTES["GiB"] * 64:
        raise ValueError("want a size from 2MiB to 64GiB, such as 64MiB")
    return size_bytes


def store_size(text: str) -> int:
    """`512GiB` -> bytes."""
    match = re.fullmatch(r"([0-9]{1,9})(MiB|GiB|TiB)", text, re.ASCII)
    size_bytes = int(match[1]) << {"MiB": 20, "GiB": 30, "TiB": 40}[match[2]] if match else 0
    if not 512 << 20 <= size_bytes <= 1 << 50:
        raise ValueError("want a size from 512MiB to 1024TiB, such as 64GiB")
    return size_bytes


class Choice(Generic[T]):
    """A parser of words, each with its value.

    words: all that are accepted, as messages and completions list them. hints: messages for words that users try in vain.
    """

    def __init__(self, values: Mapping[str, T], hints: Mapping[str, str] | None = None) -> None:
        self.words = tuple(values)
        self._values = values
        self._hints = hints or {}

    def __call__(self, text: str) -> T:
        if text not in self._values:
            raise ValueError(self._hints.get(text, f"want one of {', '.join(self.words)}"))
        return self._values[text]


def choice(kind: type[E]) -> Choice[E]:
    """A parser for the members of an enum."""
    return Choice({one.value: one for one in kind})


def choice_or_none(kind: type[E], *, none: str) -> Choice[E | None]:
    """A parser for the members of an enum, and for one more word that stands for None."""
    return Choice({none: None, **{one.value: one for one in kind}})


def in_any_case(parse: Callable[[str], T]) -> Callable[[str], T]:
    """A parser that ignores case, as OpenTelemetry's variables do."""
    return lambda text: parse(text.lower())


def existing_dir(text: str) -> Path:
    """Raises ValueError."""
    if text and Path(text).is_dir():
        return Path(text)
    raise ValueError("want an existing directory")


def sqlite_file_or_none(text: str) -> Path | None:
    """The suffix guards other files: a damaged history is moved aside, whatever the file was. None for `none`."""
    if text == "none":
        return None
    path = Path(text)
    if path.is_absolute() and path.suffix == ".sqlite" and "\0" not in text:
        return path
    raise ValueError("want an absolute path that ends in .sqlite, or none")


def path_or_none(text: str) -> Path | None:
    """An absolute path that need not exist; None for `none`."""
    if text == "none":
        return None
    if text.startswith("/"):
        return Path(text)
    raise ValueError("want an absolute path, or none")


def any_path(text: str) -> Path:
    """A path that need not exist, relative or absolute."""
    if text and "\0" not in text and text != "none":
        return Path(text)
    raise ValueError("want the name of a file")


def absolute_path(text: str) -> Path:
    """A path that need not exist."""
    if text.startswith("/") and "\0" not in text:
        return Path(text)
    raise ValueError("want an absolute path")


def absolute_file(text: str) -> Path:
    """A readable file, independent of later changes of the working directory."""
    return readable_file(text).absolute()


KEY_BYTES_MIN, KEY_BYTES_MAX = 16, 4096


def key_file(text: str) -> Path:
    """A readable file with a secret."""
    path = absolute_file(text)
    if not KEY_BYTES_MIN <= path.stat().st_size <= KEY_BYTES_MAX:
        raise ValueError(
            f"want a file of {KEY_BYTES_MIN} to {KEY_BYTES_MAX} bytes, such as from `head -c 32 /dev/urandom`"
        )
    return path


def readable_file(text: str) -> Path:
    """Raises ValueError."""
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
