"""network_namespaces: failures. Entering another namespace takes CAP_SYS_ADMIN and is in tests/end_to_end/test_network.py."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from exporter.errors import NotPossibleHere
from exporter.host.network_namespaces import opened_inside


def never() -> socket.socket:
    raise AssertionError("the namespace was not entered")


def test_process_that_has_ended_raises_not_possible_here(tmp_path: Path) -> None:
    with pytest.raises(NotPossibleHere, match="cannot enter the network namespace of process 7"):
        opened_inside(str(tmp_path), 7, never)


def test_file_that_is_no_namespace_raises_not_possible_here(tmp_path: Path) -> None:
    (tmp_path / "7/ns").mkdir(parents=True)
    (tmp_path / "7/ns/net").touch()

    with pytest.raises(NotPossibleHere):
        opened_inside(str(tmp_path), 7, never)


def test_thread_has_ended_afterwards(tmp_path: Path) -> None:
    with pytest.raises(NotPossibleHere):
        opened_inside(str(tmp_path), 7, never)

    assert "network-namespace" not in {thread.name for thread in threading.enumerate()}
