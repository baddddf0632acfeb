"""fleet.target: which files count, those of flags or of the fleet's file."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.config.fleet_flags import FleetFlags
from exporter.config.orchestrator import OrchestratorSettings
from exporter.errors import BadInput
from exporter.fleet.node import Node
from exporter.fleet.target import target_of

NO_FILES = (None, None, None, None)


def flags(nodes: str, files: tuple[Path | None, ...] = NO_FILES) -> FleetFlags:
    ca, certificate, key, token = files
    return FleetFlags(
        *(nodes, 5.0, ca, certificate, key, token),
        is_insecure=False,
        is_all_required=False,
        orchestrator=OrchestratorSettings(),
    )


class TestServerName:
    """The name in the certificates of all nodes."""

    def test_name_of_a_flag_comes_before_that_of_the_file(self, tmp_path: Path) -> None:
        (tmp_path / "fleet.toml").write_text('server-name = "a.example"\n[groups]\na = "gpu1"\n')
        given = flags(f"@{tmp_path}/fleet.toml")

        assert target_of(given, {}).access.server_name == "a.example"
        assert target_of(given._replace(server_name="b.example"), {}).access.server_name == "b.example"

    def test_what_is_no_name_is_refused(self) -> None:
        with pytest.raises(BadInput, match=r"^--nodes\.server-name: 'a b' is not a host name"):
            target_of(flags("gpu1")._replace(server_name="a b"), {})

    def test_name_without_tls_is_refused(self) -> None:
        with pytest.raises(BadInput, match=r"^--nodes\.server-name is about certificates, and --nodes\.insecure"):
            target_of(flags("gpu1")._replace(server_name="a", is_insecure=True), {})


class TestTarget:
    def test_nodes_of_the_flag(self) -> None:
        assert target_of(flags("gpu1,gpu2"), {}).nodes == [Node("gpu1", "gpu1"), Node("gpu2", "gpu2")]

    def test_token_of_the_file_of_the_fleet(self, tmp_path: Path) -> None:
        (tmp_path / "token").write_text("abc")
        (tmp_path / "fleet.toml").write_text('token-file = "token"\n[groups]\na = "gpu1"\n')

        assert target_of(flags(f"@{tmp_path}/fleet.toml"), {}).access.headers == {"Authorization": "Bearer abc"}

    def test_token_of_a_flag_comes_first(self, tmp_path: Path) -> None:
        (tmp_path / "token").write_text("abc")
        (tmp_path / "other").write_text("def")
        (tmp_path / "fleet.toml").write_text('token-file = "token"\n[groups]\na = "gpu1"\n')
        found = target_of(flags(f"@{tmp_path}/fleet.toml", (None, None, None, tmp_path / "other")), {})

        assert found.access.headers == {"Authorization": "Bearer def"}


class TestSources:
    """A file that cannot be used is named as the user has named it."""

    @pytest.mark.parametrize(
        ("lines", "expected"),
        [
            ('ca = "none"', r"--nodes: .*/fleet\.toml: ca: .*/none cannot be read: No such file or directory"),
            ('token-file = "none"', r"--nodes: .*/fleet\.toml: token-file: cannot read .*/none: No such file"),
            ('cert = "none"', r"--nodes: .*/fleet\.toml: cert: the client certificate .*/none cannot be read"),
            (
                'cert = "none"\nkey = "other"',
                r"--nodes: .*\.toml: cert, --nodes: .*\.toml: key: the client certificate",
            ),
            ('key = "none"', r"--nodes: .*/fleet\.toml: key without --nodes\.cert"),
        ],
    )
    def test_key_of_the_file_of_the_fleet(self, lines: str, expected: str, tmp_path: Path) -> None:
        (tmp_path / "fleet.toml").write_text(f'{lines}\n[groups]\na = "gpu1"\n')

        with pytest.raises(BadInput, match=f"^{expected}"):
            target_of(flags(f"@{tmp_path}/fleet.toml"), {})

    @pytest.mark.parametrize(("at", "key"), [(0, "ca"), (1, "cert"), (3, "token-file")])
    def test_flag_that_comes_before_the_key(self, at: int, key: str, tmp_path: Path) -> None:
        (tmp_path / "fleet.toml").write_text(f'{key} = "a"\n[groups]\na = "gpu1"\n')
        given = tuple(tmp_path / "none" if number == at else None for number in range(len(NO_FILES)))

        with pytest.raises(BadInput, match=rf"^--nodes\.{key}: .*/none"):
            target_of(flags(f"@{tmp_path}/fleet.toml", given), {})
