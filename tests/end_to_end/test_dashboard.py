"""The dashboard of `serve`, as a browser without scripts reads it: over TLS, signed in by a cookie."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

import pytest

from exporter.serve.pages.layout import static_url
from exporter.serve.pages.span import moment_text
from exporter.serve.sessions import COOKIE
from tests.support.history import MS, SECOND
from tests.support.html_page import HtmlPage
from tests.support.investigated import two_teams
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import Serving, serving
from tests.support.traced import eventually


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """One for all tests, which do not change it."""
    folder = tmp_path_factory.mktemp("dashboard")
    with serving(two_teams(folder), folder) as found:
        yield found


class Got(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def page(self) -> HtmlPage:
        return HtmlPage(self.body)


class Browser:
    """Sends what a browser sends, and keeps the cookie. It follows no redirect."""

    def __init__(self, server: Serving) -> None:
        self._server = server
        self.cookie = ""

    def open(self, path: str, **headers: str) -> Got:
        return self._ask("GET", path, b"", headers)

    def send(self, path: str, fields: dict[str, str], **headers: str) -> Got:
        body = urlencode(fields).encode()
        return self._ask("POST", path, body, {"Content-Type": "application/x-www-form-urlencoded", **headers})

    def sign_in(self, name: str, path: str = "/") -> Got:
        return self.send("/sign-in", {"token": self._server.tokens.get(name, name), "path": path})

    def _ask(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Got:
        address = urlsplit(self._server.url)
        connection = http.client.HTTPSConnection(
            address.hostname or "", address.port, timeout=PATIENCE_SECONDS, context=self._server.trusting()
        )
        known = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8", "Sec-Fetch-Site": "same-origin"}
        cookies = {"Cookie": self.cookie} if self.cookie else {}
        try:
            connection.request(method, path, body or None, known | cookies | headers)
            response = connection.getresponse()
            got = Got(response.status, response.headers, response.read())
        finally:
            connection.close()
        if given := got.headers["Set-Cookie"]:
            self.cookie = given.partition(";")[0]
        return got


@pytest.fixture
def signed_in(server: Serving) -> Browser:
    browser = Browser(server)
    assert browser.sign_in("admin").status == 303
    return browser


class TestSignIn:
    def test_every_page_asks_for_a_token_first(self, server: Serving) -> None:
        for path in ("/", "/chains/1111?since=1h", "/workload?workload=rank%3D3"):
            got = Browser(server).open(path)

            assert got.status == 401
            assert [one["value"] for one in got.page.all("input") if one["name"] == "path"] == [path]

    def test_token_leads_to_the_page_that_was_wanted(self, server: Serving) -> None:
        browser = Browser(server)
        got = browser.sign_in("admin", "/chains/1111?since=1h")

        assert (got.status, got.headers["Location"]) == (303, "/chains/1111?since=1h")
        assert browser.open(got.headers["Location"]).status == 200

    def test_cookie_is_not_the_token(self, server: Serving) -> None:
        """Scripts do not have it, other sites do not send it, and it is kept for hours at most."""
        given = Browser(server).sign_in("admin").headers["Set-Cookie"]

        assert given.startswith(f"{COOKIE}=")
        assert server.tokens["admin"] not in given
        assert given.endswith("; Path=/; Max-Age=28800; Secure; HttpOnly; SameSite=Strict")

    def test_wrong_token_is_refused_with_the_form(self, server: Serving) -> None:
        got = Browser(server).sign_in("wrong")

        assert (got.status, got.headers["Set-Cookie"]) == (401, None)
        assert got.page.texts("p")[0] == "This token is not known."

    def test_no_path_leads_to_another_site(self, server: Serving) -> None:
        for path in ("//attacker.example/", "https://attacker.example", "/\\attacker.example"):
            assert Browser(server).sign_in("admin", path).headers["Location"] == "/"

    @pytest.mark.parametrize("site", ["cross-site", "same-site"])
    def test_form_of_another_site_or_port_does_not_sign_in(self, server: Serving, site: str) -> None:
        fields = {"token": server.tokens["admin"], "path": "/"}
        got = Browser(server).send("/sign-in", fields, **{"Sec-Fetch-Site": site})

        assert (got.status, got.headers["Set-Cookie"]) == (400, None)

    def test_form_of_another_name_is_refused_by_the_gate(self, server: Serving) -> None:
        got = Browser(server).send("/sign-in", {"token": "x"}, Origin="https://attacker.example")

        assert got.status == 421

    def test_sign_out_ends_the_session(self, server: Serving, signed_in: Browser) -> None:
        cookie = signed_in.cookie
        got = signed_in.send("/sign-out", {})
        signed_in.cookie = cookie  # as a thief of the cookie would

        assert (got.status, got.headers["Location"]) == (303, "/")
        assert signed_in.open("/").status == 401

    def test_session_only_reads(self, signed_in: Browser) -> None:
        """Tools want the token itself; a timeline may be downloaded."""
        assert signed_in.send("/api/v1/tools/explain", {}).status == 401
        assert signed_in.open("/api/v1/timeline?since=15m").status == 200

    def test_audit_has_who_signed_in_and_no_token(self, server: Serving) -> None:
        Browser(server).sign_in("team-a")

        wanted = r"reader=\"team-a\" address=127.0.0.1 method=\"POST\" path=\"/sign-in\" tool=\"\" status=303"
        assert eventually(lambda: wanted in server.log.read_text(), "the audit has it")
        assert server.tokens["team-a"] not in server.log.read_text()


class TestPages:
    def test_every_link_of_the_first_page_leads_to_a_page(self, signed_in: Browser) -> None:
        first = signed_in.open("/?since=15m")
        statuses = {path: signed_in.open(path).status for path in first.page.links if path.startswith("/")}

        assert first.status == 200
        assert {urlsplit(path).path for path in statuses} >= {"/", "/chains/11111111", "/workload"}
        assert set(statuses.values()) == {200}

    def test_verdict_is_the_one_of_the_tool(self, server: Serving, signed_in: Browser) -> None:
        """At a given time, whatever has changed since then."""
        at = server.call("query_sql", statement="select max(seen_unix_seconds) as seen from node")["rows"][0]["seen"]
        moment = moment_text(int(at * SECOND) + 2 * MS)
        said = server.call("explain", at=moment)["summary"]

        assert signed_in.open(f"/?until={moment}").page.texts("h1") == [said]
        assert "loses 46 %" in said

    def test_team_sees_its_namespace(self, server: Serving) -> None:
        """In every page, and in what may be downloaded."""
        browser = Browser(server)
        browser.sign_in("team-a")
        page = browser.open("/?since=1h").page

        assert "/chains/11111111?since=1h" in page.links
        assert "trainer-4" not in page.text
        assert browser.open("/chains/2222?since=1h").status == 404
        assert browser.open("/workload?workload=rank%3D4").status == 404
        assert b"trainer-4" not in browser.open("/api/v1/timeline?since=15m").body

    def test_policy_lets_nothing_of_others_run(self, signed_in: Browser) -> None:
        headers = signed_in.open("/").headers
        policy = headers["Content-Security-Policy"]

        assert policy.startswith("default-src 'none'; style-src 'self'; script-src 'self'; ")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["Cache-Control"] == "no-store"
        assert headers["X-Content-Type-Options"] == "nosniff"

    def test_files_are_kept_by_their_hash(self, server: Serving) -> None:
        for name in ("style.css", "script.js", "icon.svg"):
            got = Browser(server).open(static_url(name))

            assert got.status == 200
            assert got.headers["Cache-Control"].endswith("immutable")

    def test_no_other_file_is_served(self, signed_in: Browser) -> None:
        for name in ("..%2flayout.py", "../layout.py", "%2fetc%2fpasswd"):
            assert signed_in.open(f"/static/{name}").status == 404

    @pytest.mark.parametrize(
        ("path", "status", "heading"),
        [
            ("/?since=soon", 400, "Not understood"),
            ("/?until=2001-01-01", 400, "Not understood"),
            ("/chains/ffff", 404, "Not found"),
            ("/nothing", 404, "Not found"),
            ("/static/gate.py", 404, "Not found"),
        ],
    )
    def test_mistake_is_a_page_with_its_status(self, signed_in: Browser, path: str, status: int, heading: str) -> None:
        got = signed_in.open(path)

        assert (got.status, got.page.texts("h1")) == (status, [heading])

    def test_page_of_another_site_does_not_read(self, signed_in: Browser) -> None:
        assert signed_in.open("/", **{"Sec-Fetch-Site": "cross-site"}).status == 401


class TestWithoutTokens:
    def test_pages_are_open_and_a_missing_history_is_the_reason(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        folder = tmp_path_factory.mktemp("open")
        with serving(folder / "none.sqlite", folder, is_open=True) as server:
            status, body = server.fetch("/", Accept="text/html")

        assert status == 503
        assert any("no history at" in one for one in HtmlPage(body).texts("p"))
