"""orchestrators.choice: whom the settings and the environment say to ask."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from exporter.config.orchestrator import OrchestratorKind, OrchestratorSettings
from exporter.errors import BadInput
from exporter.workloads.orchestrators import factory
from exporter.workloads.orchestrators.ecs import Agent, TaskMetadata
from exporter.workloads.orchestrators.kubernetes import ApiServer, Kubelet

IN_A_POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "6443"}
IN_A_TASK = {"ECS_CONTAINER_METADATA_URI_V4": "http://169.254.170.2/v4/1"}
NO_FILE = Path("/nonexistent/token")


def asked(kind: str, environment: Mapping[str, str], url: str = "", token_file: Path = NO_FILE) -> object:
    """Who is asked; None where nobody is."""
    settings = OrchestratorSettings(
        kind=OrchestratorKind(kind), url=url or None, ca_file=NO_FILE, token_file=token_file, is_verified=True
    )
    enquirer = factory.enquirer_of(settings, "gpu7", environment, lambda _is_current: None)
    return enquirer and enquirer.source


def url_of(source: object) -> str:
    """Where it is asked."""
    assert isinstance(source, ApiServer | Kubelet | Agent | TaskMetadata)
    return source.endpoint.url


class TestAuto:
    """What the environment shows."""

    def test_pod_with_a_service_account_asks_its_api_server(self, tmp_path: Path) -> None:
        """At the address that Kubernetes gives every pod."""
        token = tmp_path / "token"
        token.write_text("secret")
        source = asked("auto", IN_A_POD, token_file=token)

        assert isinstance(source, ApiServer)
        assert url_of(source) == "https://10.96.0.1:6443"

    def test_pod_without_one_asks_nobody(self) -> None:
        """It would be refused."""
        assert asked("auto", IN_A_POD) is None

    def test_task_asks_its_metadata(self) -> None:
        """Of ECS."""
        source = asked("auto", IN_A_TASK)

        assert isinstance(source, TaskMetadata)
        assert url_of(source) == "http://169.254.170.2/v4/1"

    def test_anywhere_else_nobody_is_asked(self) -> None:
        """As on a machine of one's own."""
        assert asked("auto", {}) is None


class TestSaid:
    """What the settings say."""

    def test_address_of_version_6_is_in_brackets(self) -> None:
        """As URLs have it."""
        assert url_of(asked("kubernetes", {"KUBERNETES_SERVICE_HOST": "fd00::1"})) == "https://[fd00::1]:443"

    def test_kubelet_and_agent_are_on_this_machine(self) -> None:
        """At their usual ports."""
        assert url_of(asked("kubelet", {})) == "https://127.0.0.1:10250"
        assert url_of(asked("ecs-agent", {})) == "http://127.0.0.1:51678"

    def test_url_that_is_given_counts(self) -> None:
        """Whatever the environment says."""
        assert url_of(asked("kubernetes", IN_A_POD, "https://api:6443")) == "https://api:6443"

    def test_none_is_nobody(self) -> None:
        """Also in a pod."""
        assert asked("none", IN_A_POD) is None

    @pytest.mark.parametrize(
        ("kind", "missing"), [("kubernetes", "KUBERNETES_SERVICE_HOST"), ("ecs", "METADATA_URI_V4")]
    )
    def test_nowhere_to_ask_is_said(self, kind: str, missing: str) -> None:
        """It names the variable, and the flag that helps."""
        with pytest.raises(BadInput, match=missing) as refused:
            asked(kind, {})

        assert refused.value.remedy == "set --orchestrator.url"
