"""checks.outputs: history, ports, web configuration."""

from __future__ import annotations

import socket
from pathlib import Path

from exporter.checks import outputs
from exporter.checks.check import Check, CheckState
from exporter.config import load


class TestHistory:
    def test_path_and_limits_are_shown(self, tmp_path: Path) -> None:
        """Nothing is created."""
        path = tmp_path / "new" / "history.sqlite"

        assert outputs.history(load({"history.path": str(path), "history.max-bytes": "8MiB"}, {})) == Check(
            "history", CheckState.OK, f"{path}: at most 8 MiB and 24 h"
        )
        assert not path.parent.exists()

    def test_disabled_history_is_a_warning(self) -> None:
        assert outputs.history(load({"history.path": "none"}, {})).state is CheckState.WARNING

    def test_directory_that_others_may_write_to_is_a_warning(self, tmp_path: Path) -> None:
        """`run` starts, without a history."""
        tmp_path.chmod(0o777)
        check = outputs.history(load({"history.path": f"{tmp_path}/history.sqlite"}, {}))

        assert check.state is CheckState.WARNING
        assert str(tmp_path) in check.found


class TestPorts:
    def test_port_in_use_fails(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            (check,) = outputs.ports(load({"web.listen-address": f"127.0.0.1:{port}"}, {}))

        assert check.state is CheckState.FAILED
        assert check.remedy == "choose another --web.listen-address"

    def test_free_port_is_ok(self) -> None:
        (check,) = outputs.ports(load({"web.listen-address": "127.0.0.1:0"}, {}))

        assert check.state is CheckState.OK


class TestWebConfig:
    def test_no_file_is_no_check(self) -> None:
        assert list(outputs.web_config(load({}, {}))) == []

    def test_features_of_the_file_are_listed(self, tmp_path: Path) -> None:
        path = tmp_path / "web.yml"
        path.write_text("rate_limit:\n  interval: 1s\n  burst: 5\n")
        (check,) = outputs.web_config(load({"web.config.file": str(path)}, {}))

        assert check == Check("web config", CheckState.OK, f"{path}: no TLS, no users, a rate limit")

    def test_invalid_file_fails(self, tmp_path: Path) -> None:
        path = tmp_path / "web.yml"
        path.write_text("rate_limits: {}\n")
        (check,) = outputs.web_config(load({"web.config.file": str(path)}, {}))

        assert check.state is CheckState.FAILED
