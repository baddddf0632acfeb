"""failure_log: failures are counted each time and logged once."""

from __future__ import annotations

import logging

import pytest

from exporter.gpu.failure_log import DRIVER, FailureLog
from exporter.gpu.model import FailureKind
from tests.support.gpus import failure


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


@pytest.fixture(autouse=True)
def _info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


class TestFailureLog:
    def test_repeated_failure_is_counted_and_logged_once(self, caplog: pytest.LogCaptureFixture) -> None:
        log = FailureLog()
        for _ in range(3):
            log.add("0", FailureKind.LOST, "fell off the bus")

        assert log.counts == {("0", FailureKind.LOST): 3}
        assert logged(caplog) == ["GPU 0: fell off the bus"]

    def test_failure_of_the_driver_names_no_gpu(self, caplog: pytest.LogCaptureFixture) -> None:
        log = FailureLog()
        log.add(DRIVER, FailureKind.RELOADED, "not loaded")

        assert logged(caplog) == ["NVIDIA driver: not loaded"]
        assert log.last == "NVIDIA driver: not loaded"

    def test_recovery_is_logged_only_after_a_failure_of_that_gpu(self, caplog: pytest.LogCaptureFixture) -> None:
        log = FailureLog()
        log.add("0", FailureKind.LOST, "lost")
        log.recovered("1", "GPU 1: sampled again")
        log.recovered("0", "GPU 0: sampled again")
        log.recovered("0", "GPU 0: sampled again")

        assert logged(caplog) == ["GPU 0: lost", "GPU 0: sampled again"]

    def test_failure_after_a_recovery_is_logged_again(self, caplog: pytest.LogCaptureFixture) -> None:
        log = FailureLog()
        log.add("0", FailureKind.LOST, "lost")
        log.recovered("0", "back")
        log.add("0", FailureKind.LOST, "lost")

        assert logged(caplog) == ["GPU 0: lost", "back", "GPU 0: lost"]

    def test_failed_call_is_logged_once_whatever_recovers(self, caplog: pytest.LogCaptureFixture) -> None:
        log = FailureLog()
        for _ in range(2):
            log.add_call("0", failure(FailureKind.DRIVER, "nvmlDeviceGetPowerUsage"))
            log.recovered("0", "back")

        assert log.counts == {("0", FailureKind.DRIVER): 2}
        assert logged(caplog) == ["GPU 0: NVML call nvmlDeviceGetPowerUsage failed: driver; its value is not reported"]

    def test_missing_function_is_logged_for_the_first_gpu_only(self, caplog: pytest.LogCaptureFixture) -> None:
        log = FailureLog()
        for gpu in ("0", "1"):
            log.add_call(gpu, failure(FailureKind.NO_FUNCTION, "nvmlDeviceGetPowerUsage"))

        assert log.counts == {("0", FailureKind.NO_FUNCTION): 1, ("1", FailureKind.NO_FUNCTION): 1}
        assert logged(caplog) == [
            "GPU 0: NVML call nvmlDeviceGetPowerUsage failed: no_function; its value is not reported"
        ]
