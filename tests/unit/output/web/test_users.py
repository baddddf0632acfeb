"""web.users: passwords against bcrypt hashes."""

from __future__ import annotations

import base64
import threading

import bcrypt
import pytest

from exporter.output.web.users import Users
from tests.support.patience import PATIENCE_SECONDS

HASH = bcrypt.hashpw(b"correct horse", bcrypt.gensalt(4)).decode()


def header(name: str, password: str) -> str:
    """The Authorization header of a client."""
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


@pytest.fixture
def users() -> Users:
    """Alice."""
    return Users({"alice": HASH})


class TestUsers:
    """Passwords."""

    def test_right_password(self, users: Users) -> None:
        """Also with the prefix that htpasswd writes."""
        assert users.check(header("alice", "correct horse"))
        assert Users({"alice": HASH.replace("$2b$", "$2y$")}).check(header("alice", "correct horse"))

    @pytest.mark.parametrize(
        "authorization",
        [
            "",
            "Basic",
            "Basic ???",
            "Bearer " + base64.b64encode(b"alice:correct horse").decode(),
            "Basic " + base64.b64encode(b"alice").decode(),
            "Basic " + base64.b64encode(b"\xff:\xff").decode(),
            header("alice", "wrong"),
            header("alice", ""),
            header("bob", "correct horse"),
            header("", ""),
            header("alice", "correct horse" + "x" * 80),
            header("alice", "correct horse\0"),
            header("alice", "x" * 5000),
        ],
    )
    def test_other_credentials_are_refused(self, users: Users, authorization: str) -> None:
        """Twice, the second time from the cache."""
        assert not users.check(authorization)
        assert not users.check(authorization)

    def test_any_client_has_access_without_users(self) -> None:
        """Whatever it sends."""
        assert Users({}).cached_result("") is True

    def test_result_is_cached(self, users: Users) -> None:
        """None before the first check."""
        right, wrong = header("alice", "correct horse"), header("alice", "wrong")

        assert [users.cached_result(right), users.cached_result(wrong)] == [None, None]
        assert [users.check(right), users.check(wrong)] == [True, False]
        assert [users.cached_result(right), users.cached_result(wrong)] == [True, False]

    def test_unknown_user_costs_as_much_as_the_costliest(self) -> None:
        """So that the time does not reveal which users exist."""
        users = Users({"alice": HASH, "bob": HASH.replace("$04$", "$07$")})
        compared: list[bytes] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(bcrypt, "checkpw", lambda _password, wanted: compared.append(wanted) or False)
            users.check(header("carol", "x"))

        assert compared[0].startswith(b"$2b$07$")

    def test_wrong_passwords_do_not_evict_a_right_one(self, users: Users) -> None:
        """A guesser must not slow the scraper down."""
        users.check(header("alice", "correct horse"))
        for n in range(200):
            users.check(header("alice", str(n)))

        assert users.cached_result(header("alice", "correct horse")) is True
        assert users.cached_result(header("alice", "0")) is None

    def test_hundred_at_once_cost_one_hash(self) -> None:
        """At cost 10, a hundred hashes would take seven seconds."""
        slow = Users({"alice": bcrypt.hashpw(b"p", bcrypt.gensalt(10)).decode()})
        found: list[bool] = []
        threads = [threading.Thread(target=lambda: found.append(slow.check(header("alice", "p")))) for _ in range(100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=PATIENCE_SECONDS)

        assert found == [True] * 100
