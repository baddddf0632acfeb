"""support_bundle.settings: every setting in force, reduced to what cannot be a secret."""

from __future__ import annotations

import json
from pathlib import Path

from exporter.support_bundle.settings import settings, web_config
from tests.unit.config.command_line import loaded

HASH = "$2y$10$abcdefghijklmnopqrstuuWGkzHQ8TsBQyNDbGMQXwCZKtFBUuCi6"


class TestSettings:
    def test_result_is_fit_for_json(self) -> None:
        """Paths are text."""
        document = json.loads(json.dumps(settings(loaded("--path.procfs=/proc"))))

        assert document["procfs"] == "/proc"

    def test_name_of_the_node_is_not_shown(self) -> None:
        assert settings(loaded("--node=gpu7"))["node"] == "set"

    def test_url_has_neither_query_nor_unknown_parts_of_the_path(self) -> None:
        """Some services put a key there."""
        config = loaded("--otlp.endpoint=https://in.example:4318/abc123/v1/metrics?key=def456")
        (receiver,) = settings(config)["otlp"]["receivers"]

        assert receiver["url"] == "https://in.example:4318/…/v1/metrics"

    def test_headers_have_names_only(self, tmp_path: Path) -> None:
        headers = tmp_path / "headers"
        headers.write_text("api-key=secret\n")
        config = loaded("--otlp.endpoint=http://localhost:4318", f"--otlp.headers-file={headers}")
        (receiver,) = settings(config)["otlp"]["receivers"]

        assert receiver["headers"] == ["api-key"]
        assert receiver["logs"]["headers"] == ["api-key"]

    def test_token_is_known_to_exist(self, tmp_path: Path) -> None:
        token = tmp_path / "token"
        found = [settings(loaded(f"--orchestrator.token-file={token}"))["orchestrator"]["has_token"]]
        token.write_text("secret")
        found.append(settings(loaded(f"--orchestrator.token-file={token}"))["orchestrator"]["has_token"])

        assert found == [False, True]


class TestWebConfig:
    def test_keys_and_the_number_of_users(self, tmp_path: Path) -> None:
        web = tmp_path / "web.yml"
        web.write_text(f"basic_auth_users:\n  ann: {HASH}\n  bob: {HASH}\nrate_limit:\n  interval: 1s\n  burst: 5\n")

        assert web_config(web) == {"basic_auth_users": 2, "rate_limit": ["burst", "interval"]}

    def test_unknown_key_is_not_repeated(self, tmp_path: Path) -> None:
        """It may be a password in the wrong place."""
        web = tmp_path / "web.yml"
        web.write_text("secret: 1\nhttp_server_config:\n  secret: 2\n")

        assert web_config(web) == {"another key": "set", "http_server_config": ["another key"]}

    def test_invalid_file_is_not_quoted(self, tmp_path: Path) -> None:
        web = tmp_path / "web.yml"
        web.write_text("basic_auth_users:\n  ann: one\n  ann: two\n")

        assert web_config(web) == "cannot be read: ValueError"

    def test_file_without_keys(self, tmp_path: Path) -> None:
        web = tmp_path / "web.yml"
        web.write_text("- a\n")

        assert (web_config(web), web_config(None)) == ("has no keys", None)
