"""fleet_file: the TOML file of a fleet."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.errors import BadInput
from exporter.fleet import fleet_file
from exporter.fleet.access import AccessFiles
from exporter.fleet.addresses import Address

WHOLE = """
default-group = "training"
ca = "ca.crt"
cert = "/etc/fleet/client.crt"
key = "client.key"
token-file = "token"
server-name = "serve.example"

[nodes]
gpu01 = "10.0.0.1:9000"

[groups]
training = "gpu[01-16]"
inference = ["gpu[17-20]", "dns:inference.example"]
"""


def written(folder: Path, content: str) -> Path:
    path = folder / "fleet.toml"
    path.write_text(content, encoding="utf-8")
    return path


class TestKeys:
    def test_every_key_is_read(self, tmp_path: Path) -> None:
        """Files are relative to the directory of the fleet's."""
        found = fleet_file.read(written(tmp_path, WHOLE))

        assert found.addresses == {"gpu01": Address("10.0.0.1", 9000)}
        assert found.groups == {"training": ("gpu[01-16]",), "inference": ("gpu[17-20]", "dns:inference.example")}
        assert found.default_group == "training"
        assert found.server_name == "serve.example"
        assert found.files == AccessFiles(
            tmp_path / "ca.crt", Path("/etc/fleet/client.crt"), tmp_path / "client.key", tmp_path / "token"
        )

    def test_file_may_have_groups_alone(self, tmp_path: Path) -> None:
        assert fleet_file.read(written(tmp_path, "[groups]\nall = 'a,b'")).files == AccessFiles()


class TestRefused:
    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            ("[group]\na = 'b'", "unknown key 'group'; did you mean groups?"),
            ("tokenfile = 'x'\n[nodes]", "unknown key 'tokenfile'; did you mean token-file?"),
            (
                "zzz = 1",
                "unknown key 'zzz'; there are default-group, ca, cert, key, token-file, server-name, nodes, groups",
            ),
            ("", "names no node; give it a table [nodes] or [groups]"),
            ("nodes = 'a,b'", "nodes is not a table; write [nodes], and a line for each"),
            (
                "[nodes]\na = 'b:0'",
                "[nodes] a: the port of 'b:0' is not from 1 to 65535; see docs/fleet.md#the-file-of-a-fleet",
            ),
            (
                "[nodes]\na = 1",
                '[nodes] a: want an address, such as "10.0.0.1:10479"; see docs/fleet.md#the-file-of-a-fleet',
            ),
            ("[nodes]\nA = 'b'", "[nodes] A: 'A' is not in lower case; see docs/fleet.md#the-file-of-a-fleet"),
            (
                "[groups]\na = []",
                "[groups] a: want nodes as --nodes takes them, a text or a list of texts; "
                "see docs/fleet.md#the-file-of-a-fleet",
            ),
            ("ca = 1\n[groups]\na = 'b'", "ca: want a text; see docs/fleet.md#the-file-of-a-fleet"),
            (
                "server-name = 'a b'\n[groups]\na = 'b'",
                "server-name: 'a b' is not a host name: want letters, digits, dots and hyphens; "
                "see docs/fleet.md#the-file-of-a-fleet",
            ),
            ("ca = ''\n[groups]\na = 'b'", "ca: want the name of a file; see docs/fleet.md#the-file-of-a-fleet"),
        ],
    )
    def test_error_names_the_key(self, tmp_path: Path, content: str, reason: str) -> None:
        path = written(tmp_path, content)
        with pytest.raises(BadInput) as refused:
            fleet_file.read(path)

        assert refused.value.one_line() == f"--nodes: {path}: {reason}"

    def test_default_group_must_be_one_of_the_file(self, tmp_path: Path) -> None:
        path = written(tmp_path, "default-group = 'trainin'\n[groups]\ntraining = 'a'")
        with pytest.raises(BadInput) as refused:
            fleet_file.read(path)

        assert refused.value.one_line() == f"--nodes: {path} has no group 'trainin'; did you mean training?"

    def test_file_that_is_missing_or_no_toml_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(BadInput, match=r"^--nodes: cannot read .*/none\.toml: No such file or directory$"):
            fleet_file.read(tmp_path / "none.toml")
        with pytest.raises(BadInput, match=r"^--nodes: .*/fleet\.toml is not TOML: "):
            fleet_file.read(written(tmp_path, "nodes ="))
