"""The description of the HTTP API."""

from __future__ import annotations

from exporter.serve.calls import Calls
from exporter.serve.http_api import routes
from exporter.serve.openapi import document
from exporter.serve.tools.registry import TOOLS


class TestDocument:
    def test_has_every_path_that_is_served(self) -> None:
        served = {route.path for route in routes(Calls(None, 1.0))}  # type: ignore[arg-type]
        tools = {f"/api/v1/tools/{one.name}" for one in TOOLS}

        assert set(document(TOOLS)["paths"]) == (served - {"/api/v1/tools/{name}"}) | tools

    def test_only_versions_are_open(self) -> None:
        operations = [(path, one) for path, methods in document(TOOLS)["paths"].items() for one in methods.values()]

        assert [path for path, one in operations if one.get("security") == []] == ["/api/versions"]
