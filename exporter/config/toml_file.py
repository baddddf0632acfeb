"""The TOML file of --config.file: a key is a flag without its dashes, and a dot makes a table. Unknown keys are refused.

`enabled` in a table is the switch of that name, since TOML allows no value beside a table: `[collector.memory]` with
`enabled = true` is --collector.memory, and its `page-allocations` is --collector.memory.page-allocations.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from exporter.config import otlp
from exporter.config.setting import Setting
from exporter.errors import BadInput
from exporter.files import content

ENABLED = "enabled"
_FILE_BYTES_MAX = 1 << 20


def texts(path: Path, settings: Iterable[Setting]) -> dict[str, tuple[str, str]]:
    """Flag -> (text, where it stands). Raises BadInput."""
    known = {one.flag: one for one in settings}
    found = {}
    for key, value in _flattened(document(path, "--config.file"), (), path):
        flag = key.removesuffix(f".{ENABLED}")
        if flag not in known and not otlp.is_receiver_key(flag):
            raise BadInput(f"--config.file: unknown key {key!r} in {path}", remedy="`run --help` lists all settings")
        is_repeated = flag in known and known[flag].is_repeated
        found[flag] = (_text(value, is_repeated=is_repeated, where=f"{key} in {path}"), f"{key} in {path}")
    return found


def document(path: Path, source: str) -> dict[str, Any]:
    """A TOML file. source: the flag that names it, for messages. Raises BadInput."""
    try:
        return tomllib.loads(content.read(path, _FILE_BYTES_MAX, follow_links=True).decode("utf-8-sig"))
    except OSError as error:
        raise BadInput(f"{source}: cannot read {path}: {error.strerror}") from None
    except RecursionError:
        raise BadInput(f"{source}: {path} is nested too deeply") from None
    except ValueError as error:  # not TOML, not UTF-8, a number of too many digits
        raise BadInput(f"{source}: {path} is not TOML: {error}") from None


def _flattened(table: Mapping[str, Any], above: Sequence[str], path: Path) -> Iterator[tuple[str, Any]]:
    """`{"web": {"max-requests": 5}}` -> `("web.max-requests", 5)`."""
    for name, value in table.items():
        key = ".".join((*above, name))
        if not isinstance(value, Mapping):
            yield key, value
        elif not value and key.startswith(otlp.RECEIVER_TABLE):
            raise BadInput(f"--config.file: [{key}] in {path} is empty", remedy="give it an endpoint")
        else:
            yield from _flattened(value, (*above, name), path)


def _text(value: Any, *, is_repeated: bool, where: str) -> str:
    """As it would be in a flag."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, list) and is_repeated:
        return ",".join(map(str, value))
    raise BadInput(f"--config.file: {where} must be a single value")
