"""config.fleet_flags: flags of commands that ask several nodes."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

import pytest

from exporter.config.environment import FlagDefaults
from exporter.config.fleet_flags import (
    DEADLINE_SECONDS_MAX,
    FleetFlags,
    add_arguments,
    add_node_arguments,
    fleet_flags,
    for_same_nodes,
)
from exporter.config.orchestrator import OrchestratorSettings
from exporter.errors import BadInput


def flags_of(
    *arguments: str, environment: Mapping[str, str] | None = None, deadline_seconds_max: float = DEADLINE_SECONDS_MAX
) -> FleetFlags | None:
    return fleet_flags(parsed(*arguments, environment=environment), environment or {}, deadline_seconds_max)


def parsed(*arguments: str, environment: Mapping[str, str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    defaults = FlagDefaults(parser)
    found = parser.parse_args(arguments)
    defaults.fill(found, environment or {})
    return found


class TestSameNodes:
    """What the next command is given."""

    def test_flags_are_words_of_a_shell(self) -> None:
        flags = ("--nodes=gpu[01-16]", "--nodes.ca=my ca.pem", "--nodes.insecure", "--nodes.deadline=2s")

        assert for_same_nodes(parsed(*flags)) == " '--nodes=gpu[01-16]' '--nodes.ca=my ca.pem' --nodes.insecure"

    def test_what_the_environment_has_is_left_out(self) -> None:
        environment = {"GPUSTALL_NODES": "a", "GPUSTALL_NODES_INSECURE": "true"}

        assert for_same_nodes(parsed("--nodes.ca=ca.pem", environment=environment)) == " --nodes.ca=ca.pem"


class TestFleetFlags:
    def test_without_nodes_there_are_none(self) -> None:
        assert flags_of("--nodes.deadline=1s") is None

    def test_defaults(self) -> None:
        assert flags_of("--nodes=a,b") == FleetFlags(
            *("a,b", 10.0, None, None, None, None),
            is_insecure=False,
            is_all_required=False,
            orchestrator=OrchestratorSettings(),
        )

    def test_all_of_them(self) -> None:
        found = flags_of(
            "--nodes=a",
            "--nodes.deadline=2s",
            "--nodes.ca=ca.pem",
            "--nodes.cert=cert.pem",
            "--nodes.key=key.pem",
            "--nodes.token-file=token",
            "--nodes.server-name=serve.example",
            "--nodes.insecure",
            "--require-all",
        )
        assert found == FleetFlags(
            *("a", 2.0, Path("ca.pem"), Path("cert.pem"), Path("key.pem"), Path("token")),
            is_insecure=True,
            is_all_required=True,
            orchestrator=OrchestratorSettings(),
            server_name="serve.example",
        )

    def test_longest_deadline_may_be_less_than_that_of_a_command(self) -> None:
        with pytest.raises(BadInput, match=r"--nodes\.deadline: want at most 15s"):
            flags_of("--nodes=a", "--nodes.deadline=16s", deadline_seconds_max=15.0)

    def test_server_has_all_but_require_all(self) -> None:
        parser = argparse.ArgumentParser()
        add_node_arguments(parser, "nodes")
        found = parser.parse_args(["--nodes=a"])
        FlagDefaults(parser).fill(found, {})

        flags = fleet_flags(found, {})
        assert flags is not None
        assert flags.is_all_required is False

    def test_api_server_of_kubernetes_may_be_named(self) -> None:
        found = flags_of("--nodes=kubernetes:a=b", "--orchestrator.url=http://127.0.0.1:8001")

        assert found is not None
        assert found.orchestrator.url == "http://127.0.0.1:8001"

    def test_variables_of_the_environment(self) -> None:
        """For a fleet that is the same each time."""
        found = flags_of(environment={"GPUSTALL_NODES": "a", "GPUSTALL_NODES_TOKEN_FILE": "token"})

        assert found is not None
        assert (found.nodes, found.token) == ("a", Path("token"))

    @pytest.mark.parametrize("text", ["soon", "0s", "601s"])
    def test_deadline_out_of_range_is_refused(self, text: str) -> None:
        with pytest.raises(BadInput, match=r"--nodes\.deadline: "):
            flags_of("--nodes=a", f"--nodes.deadline={text}")
