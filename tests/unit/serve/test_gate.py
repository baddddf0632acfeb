"""The gate: who is let in, what the audit has, and how often one may ask."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from exporter.config.web_file import RateLimit
from exporter.serve.gate import BODY_BYTES_MAX, READER, Gate
from exporter.serve.sessions import COOKIE, Sessions
from exporter.service.tokens import LOCAL_READER, TokenFile, hash_of

HOSTS = ("localhost", "127.0.0.1", "::1", "gpu7.example")
MANY = RateLimit(interval_seconds=0.001, burst=1000)
TOKEN = "x" * 43


class Got(NamedTuple):
    """unread: parts of the request's body."""

    status: int
    headers: dict[bytes, bytes]
    body: bytes
    unread: int

    @property
    def kind(self) -> str:
        kind: str = json.loads(self.body)["error"]["kind"]
        return kind


async def _application(scope: Any, receive: Any, send: Any) -> None:
    """Answers with the name of the reader, when it has the whole body."""
    while (await receive()).get("more_body"):
        pass
    reader = scope[READER]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": (reader.name if reader else "-").encode()})


def ask(
    gate: Gate, path: str = "/api/v1/health", body: tuple[bytes, ...] = (b"",), method: str = "POST", **headers: str
) -> Got:
    """headers: host is localhost, and the token is right, unless they say otherwise."""
    known = {"host": "localhost:10479", "authorization": f"Bearer {TOKEN}"} | headers
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "client": ("192.0.2.1", 4711),
        "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in known.items() if value],
    }
    parts = [
        {"type": "http.request", "body": one, "more_body": number < len(body)} for number, one in enumerate(body, 1)
    ]
    sent: list[dict[str, Any]] = []

    async def receive() -> Any:
        return parts.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(gate(scope, receive, send))
    return Got(
        sent[0]["status"], dict(sent[0]["headers"]), b"".join(one.get("body", b"") for one in sent[1:]), len(parts)
    )


@pytest.fixture
def tokens(tmp_path: Path) -> TokenFile:
    path = tmp_path / "tokens.toml"
    path.write_text(f'[grafana]\nsha256 = "{hashlib.sha256(TOKEN.encode()).hexdigest()}"\n')
    return TokenFile(path)


@pytest.fixture
def gate(tokens: TokenFile) -> Gate:
    return Gate(_application, HOSTS, tokens, MANY, Sessions())


@pytest.fixture
def audit(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.INFO, "exporter.serve.gate"):
        yield caplog


class TestHost:
    @pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:10479", "[::1]:10479", "gpu7.example."])
    def test_name_of_this_server_is_answered(self, gate: Gate, host: str) -> None:
        assert ask(gate, host=host).status == 200

    @pytest.mark.parametrize("host", ["", "attacker.example", "localhost.attacker.example", "127.0.0.1.example:80"])
    def test_other_name_is_refused(self, gate: Gate, host: str) -> None:
        """A browser sends it where the name of an attacker leads to this address."""
        assert ask(gate, host=host).kind == "wrong_host"

    def test_page_of_another_site_is_refused(self, gate: Gate) -> None:
        assert ask(gate, origin="https://attacker.example").kind == "wrong_host"
        assert ask(gate, origin="null").kind == "wrong_host"

    def test_own_page_is_answered(self, gate: Gate) -> None:
        assert ask(gate, origin="https://gpu7.example:10479").status == 200


class TestBearer:
    def test_right_token_is_known_by_its_name(self, gate: Gate) -> None:
        assert ask(gate).body == b"grafana"

    @pytest.mark.parametrize("authorization", ["", "Bearer", "Bearer wrong", f"Basic {TOKEN}", TOKEN])
    def test_anything_else_is_not(self, gate: Gate, authorization: str) -> None:
        found = ask(gate, authorization=authorization)

        assert found.kind == "not_authenticated"
        assert found.headers[b"www-authenticate"] == b"Bearer"

    def test_versions_need_no_token(self, gate: Gate) -> None:
        assert ask(gate, "/api/versions", authorization="").status == 200

    def test_every_client_is_local_without_tokens(self) -> None:
        assert (
            ask(Gate(_application, HOSTS, None, MANY, Sessions()), authorization="").body == LOCAL_READER.name.encode()
        )


class TestSession:
    """A browser that has signed in."""

    @pytest.fixture
    def browser(self, tokens: TokenFile) -> tuple[Gate, dict[str, str]]:
        sessions = Sessions()
        cookie = f"{COOKIE}={sessions.begin(hash_of(TOKEN))}"
        return Gate(_application, HOSTS, tokens, MANY, sessions), {"authorization": "", "cookie": cookie}

    @pytest.mark.parametrize("site", ["", "same-origin", "none"])
    def test_reads_as_the_token(self, browser: tuple[Gate, dict[str, str]], site: str) -> None:
        gate, headers = browser

        assert ask(gate, "/", method="GET", sec_fetch_site=site, **headers).body == b"grafana"

    @pytest.mark.parametrize("site", ["cross-site", "same-site"])
    def test_page_of_another_site_or_port_does_not(self, browser: tuple[Gate, dict[str, str]], site: str) -> None:
        gate, headers = browser

        assert ask(gate, "/", method="GET", sec_fetch_site=site, **headers).status == 401

    def test_does_not_call(self, browser: tuple[Gate, dict[str, str]]) -> None:
        """What changes nothing is read by GET; the tools by POST want the token itself."""
        gate, headers = browser

        assert ask(gate, "/api/v1/sql", method="POST", **headers).status == 401

    def test_ends_with_the_token(self, browser: tuple[Gate, dict[str, str]], tmp_path: Path) -> None:
        gate, headers = browser
        (tmp_path / "tokens.toml").write_text(f'[other]\nsha256 = "{hashlib.sha256(b"other").hexdigest()}"\n')

        assert ask(gate, "/", method="GET", **headers).status == 401

    def test_made_up_cookie_is_none(self, gate: Gate) -> None:
        assert ask(gate, "/", method="GET", authorization="", cookie=f"{COOKIE}=made-up").status == 401


class TestPages:
    def test_browser_without_a_token_gets_the_form_for_one(self, gate: Gate) -> None:
        found = ask(gate, "/chains/1", method="GET", authorization="", accept="text/html,*/*")

        assert found.status == 401
        assert b'action="/sign-in"' in found.body
        assert found.headers[b"content-security-policy"].startswith(b"default-src 'none'; ")

    def test_program_gets_a_document(self, gate: Gate) -> None:
        """Also where it accepts pages, below /api."""
        assert ask(gate, "/", method="GET", authorization="").kind == "not_authenticated"
        assert ask(gate, authorization="", accept="text/html").kind == "not_authenticated"

    def test_form_and_files_need_no_token(self, gate: Gate) -> None:
        for path in ("/sign-in", "/sign-out", "/static/style.css"):
            assert ask(gate, path, authorization="").status == 200


class TestBody:
    def test_longest_body_is_accepted(self, gate: Gate) -> None:
        half = bytes(BODY_BYTES_MAX // 2)

        assert ask(gate, body=(half, half)).status == 200

    def test_longer_one_is_refused_as_it_arrives(self, gate: Gate) -> None:
        half = bytes(BODY_BYTES_MAX // 2)

        assert ask(gate, body=(half, half, b"x")).kind == "too_large"

    def test_rest_is_read_before_the_answer(self, gate: Gate) -> None:
        """A client that still sends would not see it. Four parts of a quarter of a mebibyte are read, and two are not."""
        parts = (*(bytes(1 << 18),) * 4, b"beyond a mebibyte", b"last")
        got = ask(gate, body=parts, content_length="5000000")

        assert (got.kind, got.unread) == ("too_large", 2)

    def test_announced_length_is_refused_before_it_arrives(self, gate: Gate) -> None:
        assert ask(gate, content_length=str(BODY_BYTES_MAX + 1)).kind == "too_large"


class TestRateLimit:
    def test_burst_then_refusals(self, tokens: TokenFile) -> None:
        gate = Gate(_application, HOSTS, tokens, RateLimit(interval_seconds=3600.0, burst=3), Sessions())

        assert [ask(gate).status for _ in range(5)] == [200, 200, 200, 429, 429]

    def test_wrong_tokens_leave_others_their_rate(self, tokens: TokenFile) -> None:
        """Each address has its own, and each token."""
        gate = Gate(_application, HOSTS, tokens, RateLimit(interval_seconds=3600.0, burst=3), Sessions())

        assert [ask(gate, authorization="Bearer wrong").status for _ in range(5)] == [401, 401, 401, 429, 429]
        assert ask(gate).status == 200


class TestAudit:
    def test_answer_and_refusal_have_a_line_each(self, gate: Gate, audit: pytest.LogCaptureFixture) -> None:
        ask(gate)
        ask(gate, authorization="Bearer wrong")
        lines = [one.getMessage() for one in audit.records]

        assert 'reader="grafana" address=192.0.2.1' in lines[0]
        assert "status=200" in lines[0]
        assert 'reader="" ' in lines[1]
        assert "status=401" in lines[1]

    def test_path_cannot_write_another_line(self, gate: Gate, audit: pytest.LogCaptureFixture) -> None:
        ask(gate, '/x\nstatus=200 reader="admin')
        (line,) = [one.getMessage() for one in audit.records]

        assert "\n" not in line
        assert r"\"admin" in line

    def test_token_is_not_in_it(self, gate: Gate, audit: pytest.LogCaptureFixture) -> None:
        ask(gate)

        assert TOKEN not in audit.text


class TestHeaders:
    def test_answers_are_not_kept_or_guessed(self, gate: Gate) -> None:
        headers = ask(gate).headers

        assert headers[b"cache-control"] == b"no-store"
        assert headers[b"x-content-type-options"] == b"nosniff"
