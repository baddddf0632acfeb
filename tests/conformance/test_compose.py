"""deploy/compose: Compose's own library reads the file, and Prometheus 3 accepts its configuration."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.conformance.partners import need_partner
from tests.support import prometheus_server
from tests.support.requirements import ROOT

FOLDER = ROOT / "deploy" / "compose"
TOLD = {"GRAFANA_PASSWORD": "loaded"}


def read(path: Path, **variables: str) -> tuple[bool, str]:
    """Whether Compose accepts the file, and the project or the reason."""
    environment = {key: value for key, value in os.environ.items() if key != "GRAFANA_PASSWORD"} | variables
    done = subprocess.run(
        [need_partner("compose-file"), path], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode == 0, done.stdout


def project() -> dict[str, Any]:
    """The project as Compose loads it."""
    taken, said = read(FOLDER / "compose.yaml", **TOLD)
    assert taken, said
    found: dict[str, Any] = yaml.safe_load(said)
    return found


class TestCompose:
    """compose.yaml."""

    def test_what_it_binds_is_there(self) -> None:
        """Except the folder of keys, which the user creates."""
        sources = {
            volume["source"]
            for service in project()["services"].values()
            for volume in service.get("volumes", [])
            if volume["type"] == "bind"
        }

        assert {source for source in sources if not Path(source).exists()} == {str(FOLDER / "keys")}

    def test_nothing_but_loopback_is_served(self) -> None:
        """And the exporter not even there: only Prometheus reaches it."""
        services = project()["services"]
        addresses = {port["host_ip"] for service in services.values() for port in service.get("ports", [])}

        assert addresses == {"127.0.0.1"}
        assert "ports" not in services["exporter"]

    def test_without_a_password_it_does_not_start(self) -> None:
        """There is no default password."""
        taken, said = read(FOLDER / "compose.yaml")

        assert not taken
        assert "GRAFANA_PASSWORD" in said

    def test_an_unknown_key_is_refused(self, tmp_path: Path) -> None:
        """Without this, acceptance would prove nothing."""
        text = (FOLDER / "compose.yaml").read_text(encoding="utf-8")
        (tmp_path / "compose.yaml").write_text(text.replace("cap_drop:", "capabilities_drop:"), encoding="utf-8")
        taken, said = read(tmp_path / "compose.yaml", **TOLD)

        assert not taken
        assert "capabilities_drop" in said


class TestPrometheus:
    """prometheus.yaml."""

    def test_prometheus_3_starts_with_it(self, tmp_path: Path) -> None:
        """With the rules where the container has them."""
        text = (FOLDER / "prometheus.yaml").read_text(encoding="utf-8")
        text = text.replace("/etc/prometheus/alerts", str(ROOT / "alerts"))

        with prometheus_server.serving(need_partner("prometheus"), text, tmp_path) as server:
            found = server.get("/api/v1/rules")["groups"]

        assert {group["name"] for group in found} >= {"gpustall-chains", "gpustall-exporter"}
