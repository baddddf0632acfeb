"""`serve`, tested by the conformance suite and the inspector of MCP, and by Schemathesis, which reads the OpenAPI description."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.suites import node, schemathesis, suites
from tests.support.investigated import two_teams
from tests.support.serving import Serving, serving

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(1200)]

SECONDS = 300
TOOL_FAILED = 5
"""Exit status of the inspector for a result with isError."""
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


class TestInspector:
    def test_every_tool_is_listed_and_answers(self, folder: Path, secured: Serving, tmp_path: Path) -> None:
        """With TLS and a token, as in a client's configuration."""
        listed = inspected(folder, secured, tmp_path, "tools/list")["tools"]
        arguments = {"episode": ('--tool-arg=chain_id="11111111"',), "query_sql": ("--tool-arg=name=slow-ranks",)}
        arguments["compare"] = ("--tool-arg=since=10s",)  # of a short history
        for name in (one["name"] for one in listed):
            given = (f"--tool-name={name}", *arguments.get(name, ()))
            answer = inspected(folder, secured, tmp_path, "tools/call", *given)

            assert "truncated" in answer["structuredContent"], name
        assert len(listed) == 9

    def test_failure_fits_the_schema_of_its_tool(self, folder: Path, secured: Serving, tmp_path: Path) -> None:
        """The inspector compares it, and shows nothing of a result that does not fit."""
        given = ("--tool-name=explain", "--tool-arg=since=soon")
        answer = inspected(folder, secured, tmp_path, "tools/call", *given, code=TOOL_FAILED)

        assert answer["structuredContent"]["error"]["kind"] == "bad_input"

    def test_resource_and_prompt_are_read(self, folder: Path, secured: Serving, tmp_path: Path) -> None:
        resource = inspected(folder, secured, tmp_path, "resources/read", "--uri=schema://history")
        prompt = inspected(folder, secured, tmp_path, "prompts/get", "--prompt-name=investigate")

        assert "call_sites" in resource["contents"][0]["text"]
        assert "episode" in prompt["messages"][0]["content"]["text"]


def inspected(folder: Path, server: Serving, home: Path, method: str, *more: str, code: int = 0) -> Any:
    """What the inspector of the protocol prints. code: its exit status then."""
    header = f"Authorization: Bearer {server.tokens['admin']}"
    done = subprocess.run(
        [
            *(node(folder), folder / "node_modules" / ".bin" / "mcp-inspector", "--cli", f"{server.url}/mcp"),
            *("--transport=http", "--header", header, f"--method={method}", *more),
        ],
        env={"HOME": str(home), "NODE_EXTRA_CA_CERTS": str(server.certificate)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == code, done.stderr[-2000:]
    return json.loads(done.stdout)


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
