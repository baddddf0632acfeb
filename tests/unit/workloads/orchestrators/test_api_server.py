"""orchestrators.api_server: the address of the API server, and the service account."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from exporter.config.orchestrator import OrchestratorKind, OrchestratorSettings
from exporter.errors import BadInput
from exporter.workloads.orchestrators.api_server import api_server


def url_by(environment: Mapping[str, str], url: str | None = None) -> str:
    """The URL of the API server without a service account."""
    settings = OrchestratorSettings(
        kind=OrchestratorKind.AUTO,
        url=url,
        ca_file=Path("/nonexistent/ca.crt"),
        token_file=Path("/nonexistent/token"),
        is_verified=True,
    )
    return api_server(settings, environment, "--nodes").url


class TestAddress:
    @pytest.mark.parametrize(
        ("environment", "url"),
        [
            ({"KUBERNETES_SERVICE_HOST": "10.96.0.1"}, "https://10.96.0.1:443"),
            (
                {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "6443"},
                "https://10.96.0.1:6443",
            ),
            ({"KUBERNETES_SERVICE_HOST": "fd00::1"}, "https://[fd00::1]:443"),
        ],
    )
    def test_variables_of_a_pod_name_it(self, environment: Mapping[str, str], url: str) -> None:
        """An IPv6 address is in brackets."""
        assert url_by(environment) == url

    def test_setting_replaces_them(self) -> None:
        assert url_by({"KUBERNETES_SERVICE_HOST": "10.96.0.1"}, "https://api:6443") == "https://api:6443"

    def test_message_names_what_needs_it(self) -> None:
        with pytest.raises(BadInput) as refused:
            url_by({})

        assert str(refused.value) == "--nodes: KUBERNETES_SERVICE_HOST is not set, so this is not a pod"
        assert refused.value.remedy == "set --orchestrator.url"
