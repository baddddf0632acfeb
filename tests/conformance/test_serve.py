"""`serve`, tested by the conformance suite of MCP, and by Schemathesis, which reads the OpenAPI description."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.suites import node, schemathesis, suites
from tests.support.investigated import two_teams
from tests.support.serving import Serving, serving

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(1200)]

SECONDS = 300
FIXTURE = "Not testable"
"""The suite's message for checks that need tools of its own, which only a server for tests has."""

SCENARIOS = {
    "2025-11-25": (
        "server-initialize",
        "ping",
        "tools-list",
        "resources-list",
        "prompts-list",
        "dns-rebinding-protection",
    ),
    "2026-07-28": (
        "server-stateless",
        "tools-list",
        "server-sse-multiple-streams",
        "resources-list",
        "sep-2164-resource-not-found",
        "prompts-list",
        "dns-rebinding-protection",
        "caching",
        "http-header-validation",
        "input-required-result-unsupported-methods",
        "input-required-result-validate-input",
    ),
}


@pytest.fixture(scope="module")
def folder() -> Path:
    return suites()


@pytest.fixture(scope="module")
def server(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """On plain HTTP without tokens: the suite sends none."""
    made = tmp_path_factory.mktemp("serve")
    with serving(two_teams(made), made, is_open=True) as found:
        yield found


@pytest.fixture(scope="module")
def secured(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    made = tmp_path_factory.mktemp("secured")
    with serving(two_teams(made), made) as found:
        yield found


class TestModelContextProtocol:
    @pytest.mark.parametrize(
        ("version", "scenario"), [(version, one) for version, names in SCENARIOS.items() for one in names]
    )
    def test_scenario_passes(self, folder: Path, server: Serving, tmp_path: Path, version: str, scenario: str) -> None:
        suite = folder / "node_modules" / ".bin" / "conformance"
        command = [node(folder), suite, "server", f"--url={server.url}/mcp", f"--spec-version={version}"]
        subprocess.run(
            [*command, f"--scenario={scenario}", f"--output-dir={tmp_path}"],
            capture_output=True,
            timeout=SECONDS,
            check=False,  # also for the checks that need its own tools
        )
        (found,) = tmp_path.glob("*/checks.json")
        checks = json.loads(found.read_text())
        failed = [one for one in checks if one["status"] == "FAILURE"]

        assert [one for one in checks if one["status"] == "SUCCESS"]
        assert [one for one in failed if not one["errorMessage"].startswith(FIXTURE)] == []


class TestOpenApi:
    def test_requests_made_from_the_description_are_answered_as_it_says(
        self, folder: Path, secured: Serving, tmp_path: Path
    ) -> None:
        """Hundreds, valid and not. A text may fit the schema and still be no time or no SQL: that check is left out."""
        done = subprocess.run(
            [
                *schemathesis(folder),
                *("run", f"{secured.url}/api/v1/openapi.json", f"--url={secured.url}"),
                *("-H", f"Authorization: Bearer {secured.tokens['admin']}", f"--tls-verify={secured.certificate}"),
                *("--exclude-checks=positive_data_acceptance", "--max-examples=15", "--rate-limit=15/s", "--seed=1"),
            ],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            cwd=tmp_path,
            check=False,
        )

        described = secured.ask("/api/v1/openapi.json").document
        assert done.returncode == 0, done.stdout[-4000:]
        operations = (
            sum(map(len, described["paths"].values())) - 1
        )  # without the description, which it has read to begin
        assert f"Tested: {operations}\n" in done.stdout
