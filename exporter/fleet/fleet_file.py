"""The TOML file of a fleet: names of nodes, groups of them, and the files that a client of theirs needs.

    default-group = "training"
    ca = "ca.crt"                      # relative to this file
    cert = "client.crt"
    key = "client.key"
    token-file = "token"
    server-name = "serve.example.org"  # in the certificates of all nodes, where it is not their host

    [nodes]                            # where their names are not their addresses
    gpu01 = "10.0.0.1:10479"

    [groups]                           # as --nodes takes them, a text or a list
    training = "gpu[01-16]"
    inference = ["gpu[17-20]", "dns:inference.example"]

In: its path. Out: FleetFile, or BadInput, which names the file and the key.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from exporter.config import toml_file
from exporter.errors import BadInput
from exporter.fleet.access import AccessFiles
from exporter.fleet.addresses import Address, address, host_name, server_name
from exporter.fleet.host_list import NAMES_MAX, quoted

_DEFAULT, _SERVER_NAME, _NODES, _GROUPS = "default-group", "server-name", "nodes", "groups"
FILE_KEYS: Final = ("ca", "cert", "key", "token-file")
"""In the order of AccessFiles. Each has a flag of the same name, as in --nodes.ca."""
_KEYS: Final = (_DEFAULT, *FILE_KEYS, _SERVER_NAME, _NODES, _GROUPS)
_SHOWN_GROUPS: Final = 10


class FleetFile(NamedTuple):
    """shown: what messages call it. addresses: of nodes that have a name of their own, by that name.

    groups: texts as --nodes takes them, by name.
    """

    shown: str
    addresses: Mapping[str, Address]
    groups: Mapping[str, tuple[str, ...]]
    default_group: str
    files: AccessFiles
    server_name: str = ""

    def group(self, name: str) -> tuple[str, ...]:
        """Raises BadInput for a name that there is not."""
        if name in self.groups:
            return self.groups[name]
        raise BadInput(f"{self.shown} has no group {quoted(name)}", remedy=_near(name, self.groups))


def read(path: Path, source: str = "--nodes") -> FleetFile:
    """source: where its name stands. Raises BadInput."""
    document = toml_file.document(path, source)
    shown = f"{source}: {path}"
    for key in document:
        if key not in _KEYS:
            raise _refused(shown, f"unknown key {quoted(key)}", _near(key, _KEYS))
    groups = {name: _group(shown, name, value) for name, value in _table(shown, document, _GROUPS).items()}
    found = FleetFile(
        shown,
        {name: _address(shown, name, value) for name, value in _table(shown, document, _NODES).items()},
        groups,
        _text(shown, document, _DEFAULT),
        AccessFiles(*(_file(path, shown, document, key) for key in FILE_KEYS)),
        _server_name(shown, document),
    )
    if found.default_group:
        found.group(found.default_group)
    if not found.addresses and not groups:
        raise _refused(shown, "names no node", "give it a table [nodes] or [groups]")
    return found


def _table(shown: str, document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    table = document.get(key, {})
    if not isinstance(table, dict):
        raise _refused(shown, f"{key} is not a table", f"write [{key}], and a line for each")
    if len(table) > NAMES_MAX:
        raise _refused(shown, f"[{key}] has more than {NAMES_MAX} lines", "use a file for each part of the fleet")
    return table


def _address(shown: str, name: str, value: Any) -> Address:
    where = f"[{_NODES}] {name}"
    try:
        if host_name(name) != name:
            raise ValueError(f"{quoted(name)} is not in lower case")
        if not isinstance(value, str):
            raise ValueError('want an address, such as "10.0.0.1:10479"')
        return address(value)
    except ValueError as error:
        raise _refused(shown, f"{where}: {error}") from None


def _group(shown: str, name: str, value: Any) -> tuple[str, ...]:
    texts = value if isinstance(value, list) else [value]
    if not texts or not all(isinstance(one, str) and one for one in texts):
        raise _refused(shown, f"[{_GROUPS}] {name}: want nodes as --nodes takes them, a text or a list of texts")
    return tuple(texts)


def _text(shown: str, document: Mapping[str, Any], key: str) -> str:
    value = document.get(key, "")
    if not isinstance(value, str):
        raise _refused(shown, f"{key}: want a text")
    return value


def _server_name(shown: str, document: Mapping[str, Any]) -> str:
    name = _text(shown, document, _SERVER_NAME)
    try:
        return server_name(name) if name else ""
    except ValueError as error:
        raise _refused(shown, f"{_SERVER_NAME}: {error}") from None


def _file(path: Path, shown: str, document: Mapping[str, Any], key: str) -> Path | None:
    name = _text(shown, document, key)
    if "\0" in name or (key in document and not name):
        raise _refused(shown, f"{key}: want the name of a file")
    return path.absolute().parent / name if name else None


def _refused(shown: str, reason: str, remedy: str = "see docs/fleet.md#the-file-of-a-fleet") -> BadInput:
    return BadInput(f"{shown}: {reason}", remedy=remedy)


def _near(name: str, known: Mapping[str, object] | tuple[str, ...]) -> str:
    """A remedy: the nearest of the names that there are, or some of them."""
    near = difflib.get_close_matches(name[:128], known, 1)
    if near:
        return f"did you mean {near[0]}?"
    shown = ", ".join([*known][:_SHOWN_GROUPS])
    return f"there are {shown}" + (" and others" if len(known) > _SHOWN_GROUPS else "") if known else "it has none"
