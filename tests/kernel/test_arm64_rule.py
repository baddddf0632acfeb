"""On arm64 nothing is probed without --probes.on-arm64. Only the name of the machine is invented here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

import gpustall_standin as standin
from exporter import config
from exporter.app.daemon import Daemon
from exporter.host.libraries import LibraryKind
from tests.support import held_calls

FLAGS = {"web.listen-address": "127.0.0.1:0"}
ON_ARM64 = {**FLAGS, "probes.on-arm64": "true"}


@pytest.fixture
def resources() -> Iterator[ExitStack]:
    with ExitStack() as found:
        yield found


def _probed(daemon: Daemon) -> set[str]:
    daemon.looks.expect(standin.build_dir() / "libcuda.so.1", LibraryKind.DRIVER)
    return {probed.path.rpartition("/")[2] for probed in daemon.discovery.probed()}


class TestRun:
    def test_nothing_is_probed_on_arm64(self, resources: ExitStack, caplog: pytest.LogCaptureFixture) -> None:
        """A warning names the flag."""
        resources.enter_context(held_calls.held_calls("cudaEventRecord:1"))
        daemon = Daemon(config.load(FLAGS), resources, machine="aarch64")

        assert _probed(daemon) == set()
        assert "no library is probed: on arm64, a kernel fault" in caplog.text
        assert "set --probes.on-arm64 to probe anyway" in caplog.text

    def test_flag_allows_probes_with_a_warning(self, resources: ExitStack, caplog: pytest.LogCaptureFixture) -> None:
        daemon = Daemon(config.load(ON_ARM64), resources, machine="aarch64")

        assert "libcuda.so.1" in _probed(daemon)
        assert "although on arm64, a kernel fault" in caplog.text
