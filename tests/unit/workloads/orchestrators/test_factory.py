"""orchestrators.factory: the orchestrator in the settings, or the one that the environment shows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from exporter.config.orchestrator import OrchestratorKind, OrchestratorSettings
from exporter.errors import BadInput
from exporter.workloads.orchestrators import factory
from exporter.workloads.orchestrators.ecs import EcsAgent, TaskMetadata
from exporter.workloads.orchestrators.kubernetes import ApiServer, Kubelet

IN_A_POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "6443"}
IN_A_TASK = {"ECS_CONTAINER_METADATA_URI_V4": "http://169.254.170.2/v4/1"}
NO_FILE = Path("/nonexistent/token")


def source_of(kind: str, environment: Mapping[str, str], url: str = "", token_file: Path = NO_FILE) -> object:
    """The source of the poller; None where there is no poller."""
    settings = OrchestratorSettings(
        kind=OrchestratorKind(kind), url=url or None, ca_file=NO_FILE, token_file=token_file, is_verified=True
    )
    poller = factory.make_poller(settings, "gpu7", environment, lambda _is_current: None)
    return poller and poller.source


def url_of(source: object) -> str:
    """The URL of its endpoint."""
    assert isinstance(source, ApiServer | Kubelet | EcsAgent | TaskMetadata)
    return source.endpoint.url


class TestAuto:
    """--orchestrator.kind=auto."""

    def test_pod_with_a_service_account_uses_the_api_server(self, tmp_path: Path) -> None:
        """At the address in the variables that Kubernetes sets in every pod."""
        token = tmp_path / "token"
        token.write_text("secret")
        source = source_of("auto", IN_A_POD, token_file=token)

        assert isinstance(source, ApiServer)
        assert url_of(source) == "https://10.96.0.1:6443"

    def test_pod_without_a_service_account_has_no_source(self) -> None:
        """The API server would refuse it."""
        assert source_of("auto", IN_A_POD) is None

    def test_ecs_task_uses_its_metadata_endpoint(self) -> None:
        source = source_of("auto", IN_A_TASK)

        assert isinstance(source, TaskMetadata)
        assert url_of(source) == "http://169.254.170.2/v4/1"

    def test_other_machine_has_no_source(self) -> None:
        assert source_of("auto", {}) is None


class TestSettings:
    """A kind and a URL in the settings."""

    def test_kubelet_and_ecs_agent_are_on_this_machine(self) -> None:
        """At their default ports."""
        assert url_of(source_of("kubelet", {})) == "https://127.0.0.1:10250"
        assert url_of(source_of("ecs-agent", {})) == "http://127.0.0.1:51678"

    def test_url_of_the_settings_replaces_that_of_the_environment(self) -> None:
        assert url_of(source_of("kubernetes", IN_A_POD, "https://api:6443")) == "https://api:6443"

    def test_kind_none_has_no_source_even_in_a_pod(self) -> None:
        assert source_of("none", IN_A_POD) is None

    @pytest.mark.parametrize(
        ("kind", "missing"), [("kubernetes", "KUBERNETES_SERVICE_HOST"), ("ecs", "METADATA_URI_V4")]
    )
    def test_unknown_address_is_refused(self, kind: str, missing: str) -> None:
        """The message names the variable that is not set, and the flag to use."""
        with pytest.raises(BadInput, match=missing) as refused:
            source_of(kind, {})

        assert refused.value.remedy == "set --orchestrator.url"

    @pytest.mark.parametrize(
        ("kind", "environment", "variable"),
        [
            ("kubernetes", IN_A_POD | {"KUBERNETES_SERVICE_PORT": "65536"}, "KUBERNETES_SERVICE_PORT"),
            ("ecs", {"ECS_CONTAINER_METADATA_URI_V4": "http://169.254.170.2:0/v4/1"}, "ECS_CONTAINER_METADATA_URI_V4"),
        ],
    )
    def test_port_that_does_not_exist_is_refused(
        self, kind: str, environment: Mapping[str, str], variable: str
    ) -> None:
        """At the start, by the name of the variable."""
        with pytest.raises(BadInput, match=f"{variable} does not make a valid URL") as refused:
            source_of(kind, environment)

        assert refused.value.remedy == "set --orchestrator.url"
