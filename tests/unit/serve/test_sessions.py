"""Sessions of browsers."""

from __future__ import annotations

from exporter.serve.sessions import (
    SESSION_SECONDS,
    SESSIONS_MAX,
    Sessions,
    kept_cookie,
    removed_cookie,
    session_id_of,
)

HASH = b"a" * 64


class TestSessions:
    def test_id_stands_for_the_token(self) -> None:
        sessions = Sessions()

        assert sessions.token_hash(sessions.begin(HASH)) == HASH

    def test_made_up_id_is_none(self) -> None:
        assert Sessions().token_hash("made up") is None

    def test_each_has_its_own_id(self) -> None:
        sessions = Sessions()

        assert sessions.begin(HASH) != sessions.begin(HASH)

    def test_ends_after_its_time(self) -> None:
        now = [0.0]
        sessions = Sessions(lambda: now[0])
        session_id = sessions.begin(HASH)
        now[0] = SESSION_SECONDS - 1.0
        assert sessions.token_hash(session_id) == HASH
        now[0] = SESSION_SECONDS

        assert sessions.token_hash(session_id) is None

    def test_ends_by_sign_out(self) -> None:
        sessions = Sessions()
        session_id = sessions.begin(HASH)
        sessions.end(session_id)

        assert sessions.token_hash(session_id) is None

    def test_oldest_ends_for_a_further_one(self) -> None:
        sessions = Sessions()
        ids = [sessions.begin(HASH) for _ in range(SESSIONS_MAX + 1)]

        assert [sessions.token_hash(one) for one in ids[:2]] == [None, HASH]


class TestCookie:
    def test_no_script_and_no_other_site_has_it(self) -> None:
        attributes = kept_cookie("x").split("; ")

        assert attributes[0] == "__Host-gpustall=x"
        assert {"Secure", "HttpOnly", "SameSite=Strict", "Path=/"} <= set(attributes)
        assert "Max-Age=0" in removed_cookie()

    def test_found_among_others(self) -> None:
        assert session_id_of("a=b; __Host-gpustall=x; c=d") == "x"
        assert session_id_of("a=b; gpustall=x") == ""
