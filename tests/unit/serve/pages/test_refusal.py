"""Pages for requests without an answer."""

from __future__ import annotations

import pytest

from exporter.serve.pages.refusal import local_path, refusal_page, sign_in_page
from exporter.serve.tools.failure import Failure, StatusKind
from tests.support.html_page import HtmlPage


class TestRefusal:
    def test_reason_and_remedy(self) -> None:
        page = HtmlPage(refusal_page(Failure(StatusKind.NOT_FOUND, "no <chain>", "use a larger since"), "/"))

        assert page.texts("h1") == ["Not found"]
        assert page.texts("p")[:2] == ["no <chain>.", "use a larger since."]

    def test_without_a_token_it_is_the_form_for_one(self) -> None:
        page = HtmlPage(refusal_page(Failure(StatusKind.NOT_AUTHENTICATED, "no known token"), "/chains/1?since=1h"))

        assert [one["action"] for one in page.all("form")] == ["/sign-in"]
        assert [one["value"] for one in page.all("input") if one["name"] == "path"] == ["/chains/1?since=1h"]


class TestSignIn:
    def test_problem_is_announced(self) -> None:
        page = HtmlPage(sign_in_page("/", "This token is not known."))

        assert [one["id"] for one in page.all("p") if one.get("role") == "alert"] == ["problem"]
        assert [one["aria-describedby"] for one in page.all("input") if one["name"] == "token"] == ["problem"]


class TestLocalPath:
    def test_path_of_this_server(self) -> None:
        assert local_path("/chains/1?since=1h") == "/chains/1?since=1h"

    @pytest.mark.parametrize(
        "path", ["//attacker.example", "https://attacker.example", "/\\attacker", "", "/\n/x", "x"]
    )
    def test_anything_else_leads_to_the_overview(self, path: str) -> None:
        assert local_path(path) == "/"
