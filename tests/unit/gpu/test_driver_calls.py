"""driver_calls: which failures cost one value, which the GPU, and which are not tried again."""

from __future__ import annotations

from typing import Any

import pytest

from exporter.gpu.driver_calls import DriverFailure, OptionalCalls
from exporter.gpu.model import FailureKind

HANDLE = object()


class Driver:
    """Functions that return 23 or fail. errors: function -> its failure."""

    def __init__(self, **errors: DriverFailure) -> None:
        self.errors = errors
        self.called: list[str] = []

    def call(self, before_call: Any, name: str, *_arguments: Any) -> int:
        before_call(name)
        self.called.append(name)
        if name in self.errors:
            raise self.errors[name]
        return 23


def failure(kind: FailureKind, *, is_unsupported: bool = False) -> DriverFailure:
    return DriverFailure("power", kind, "no", is_unsupported=is_unsupported)


def calls_of(driver: Driver) -> OptionalCalls:
    found = OptionalCalls(driver.call)
    found.handle = HANDLE
    return found


def power(calls: OptionalCalls, handle: object = HANDLE) -> Any:
    return calls.value(lambda _: None, "power", handle)


class TestValue:
    def test_result_is_returned(self) -> None:
        assert power(calls_of(Driver())) == 23

    def test_failed_call_is_none_and_recorded(self) -> None:
        calls = calls_of(Driver(power=failure(FailureKind.DRIVER)))

        assert power(calls) is None
        assert [one.kind for one in calls.take_failures()] == [FailureKind.DRIVER]
        assert calls.take_failures() == []

    def test_unsupported_feature_is_no_failure(self) -> None:
        calls = calls_of(Driver(power=failure(FailureKind.DRIVER, is_unsupported=True)))

        assert power(calls) is None
        assert calls.take_failures() == []

    @pytest.mark.parametrize("kind", [FailureKind.LOST, FailureKind.RESET_REQUIRED, FailureKind.RELOADED])
    def test_failure_of_the_whole_gpu_is_raised(self, kind: FailureKind) -> None:
        with pytest.raises(DriverFailure):
            power(calls_of(Driver(power=failure(kind))))

    @pytest.mark.parametrize(
        ("kind", "times"),
        [(FailureKind.NO_FUNCTION, 1), (FailureKind.NO_PERMISSION, 1), (FailureKind.DRIVER, 2)],
    )
    def test_lasting_failure_is_not_tried_again(self, kind: FailureKind, times: int) -> None:
        driver = Driver(power=failure(kind))
        calls = calls_of(driver)
        for _ in range(2):
            power(calls)

        assert len(driver.called) == times

    def test_invalid_argument_with_the_valid_handle_of_the_gpu_is_a_failure_of_the_driver(self) -> None:
        """And it is not tried again."""
        driver = Driver(power=failure(FailureKind.RECONFIGURED))
        calls = calls_of(driver)
        for _ in range(2):
            power(calls)

        assert [one.kind for one in calls.take_failures()] == [FailureKind.DRIVER]
        assert len(driver.called) == 1

    def test_invalid_handle_of_an_instance_is_tried_again(self) -> None:
        """Instances come and go."""
        driver = Driver(power=failure(FailureKind.RECONFIGURED))
        calls = calls_of(driver)
        for _ in range(2):
            power(calls, handle=object())

        assert [one.kind for one in calls.take_failures()] == [FailureKind.RECONFIGURED] * 2


class TestEither:
    def test_newer_function_is_preferred(self) -> None:
        driver = Driver()
        calls_of(driver).either(lambda _: None, ("newer", HANDLE), ("older", HANDLE))

        assert driver.called == ["newer"]

    def test_missing_newer_function_is_replaced_for_good(self) -> None:
        driver = Driver(newer=failure(FailureKind.NO_FUNCTION))
        calls = calls_of(driver)
        results = [calls.either(lambda _: None, ("newer", HANDLE), ("older", HANDLE)) for _ in range(2)]

        assert results == [23, 23]
        assert driver.called == ["newer", "older", "older"]
        assert calls.take_failures() == []

    def test_other_failure_of_the_newer_function_is_a_failure(self) -> None:
        driver = Driver(newer=failure(FailureKind.DRIVER))
        calls = calls_of(driver)

        assert calls.either(lambda _: None, ("newer", HANDLE), ("older", HANDLE)) is None
        assert driver.called == ["newer"]


class TestAttempt:
    def test_default_is_returned_on_failure(self) -> None:
        calls = calls_of(Driver())

        def fail() -> int:
            raise failure(FailureKind.DRIVER)

        assert calls.attempt(lambda: 23, 0) == 23
        assert calls.attempt(fail, 0) == 0
        assert len(calls.take_failures()) == 1
