"""Fixtures of tests that open sockets: certificates, no proxy of the environment, and no thread or socket left open."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support import certificates
from tests.support.certificates import Certificates
from tests.support.traced import eventually

PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def without_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the proxies of the environment, in capitals or not."""
    for name in PROXY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture(autouse=True)
def nothing_left_open() -> Iterator[None]:
    """After each test the threads and sockets of this process are those of before it."""
    threads, sockets = set(threading.enumerate()), _sockets()
    yield
    eventually(lambda: set(threading.enumerate()) <= threads, "every thread has ended")
    eventually(lambda: _sockets() <= sockets, "every socket is closed")


@pytest.fixture(scope="session")
def issued(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Certificates for all tests of a folder."""
    return certificates.issue(tmp_path_factory.mktemp("certificates"))


def _sockets() -> set[str]:
    """Links such as `socket:[4711]`, one for each open socket."""
    found = set()
    for fd in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the descriptor of the listing itself
            found.add(str(fd.readlink()))
    return {link for link in found if link.startswith("socket:")}
