"""sampler: GPUs are sampled in turn; one that hangs, is lost or reloaded costs only its own metrics.

A hanging call waits for an event that the test sets.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator

import pytest

from exporter.errors import ExporterError, NotPossibleHere
from exporter.gpu.model import FailureKind, Sample
from exporter.gpu.sampled_gpu import SamplerTiming
from exporter.gpu.sampler import GpuSampler
from tests.support.gpus import Clock, FakeDriver, FakeGpu, Held, facts, failure
from tests.support.traced import eventually

SECOND = 1_000_000_000
EAGER = SamplerTiming(first_retry_seconds=0.0, last_retry_seconds=0.0, absent_seconds=0.0)
"""What failed is tried again in the next round."""
NO_DRIVER = NotPossibleHere("there is no libnvidia-ml.so.1")


@pytest.fixture
def held() -> Iterator[Held]:
    """An event that hanging calls wait for; set at the end."""
    what = Held()
    yield what
    what.release()


_made: list[GpuSampler] = []
AN_HOUR = 3600.0


@pytest.fixture(autouse=True)
def _without_threads() -> Iterator[None]:
    """Stops all samplers of a test."""
    yield
    while _made:
        _made.pop().stop()


def sampler_of(driver: FakeDriver, clock: Clock | None = None, pace: SamplerTiming = EAGER) -> GpuSampler:
    """Its time passes only when the test, or a call that hangs, lets it pass."""
    clock = clock or Clock()
    _made.append(GpuSampler(driver, pace, clock, clock.wait))
    return _made[-1]


def gpus(count: int) -> list[FakeGpu]:
    """GPUs with default samples."""
    return [FakeGpu(facts(index)) for index in range(count)]


def rounds(sampler: GpuSampler, until: Callable[[], object]) -> None:
    """As many rounds as it takes."""
    eventually(lambda: sampler.round() or until(), "it has come to that")  # type: ignore[func-returns-value]


class TestSamples:
    def test_every_gpu_is_sampled(self) -> None:
        """In the order of their numbers, with the time of each sample."""
        first, second = gpus(2)
        second.answers = [Sample(power_mw=23)]
        sampler = sampler_of(FakeDriver([first, second]))
        sampler.round()

        assert [one.facts.gpu for one in sampler.reading().records] == ["0", "1"]
        assert [one.sample for one in sampler.reading().records] == [Sample(reasons=0), Sample(power_mw=23)]
        assert [one.sampled_ns for one in sampler.reading().records] == [100 * SECOND] * 2

    def test_handles_are_kept(self) -> None:
        """A GPU is opened once."""
        driver = FakeDriver([*gpus(1)])
        sampler = sampler_of(driver)
        for _ in range(3):
            sampler.round()

        assert driver.calls == {"open": 1, "gpu 0": 1}

    def test_throttled_time_is_from_sample_to_sample(self) -> None:
        """Without gaps."""
        clock, (gpu,) = Clock(), gpus(1)
        gpu.answers = [Sample(reasons=0x4)]
        sampler = sampler_of(FakeDriver([gpu]), clock)
        for seconds in (0, 1, 60, 1):
            clock.pass_seconds(seconds)
            sampler.round()

        assert sampler.reading().records[0].throttled_ns["power"] == 2 * SECOND

    @pytest.mark.parametrize(
        "answer", [failure(FailureKind.LOST), failure(FailureKind.DRIVER), failure(FailureKind.RELOADED)]
    )
    def test_sample_after_a_failed_one_covers_no_time(self, answer: Exception) -> None:
        """Whatever the failure; when the driver was reloaded, for all of its GPUs."""
        clock, (failing, other) = Clock(), gpus(2)
        failing.answers = [Sample(reasons=0x4), answer, Sample(reasons=0x4)]
        other.answers = [Sample(reasons=0x4)]
        sampler = sampler_of(FakeDriver([failing, other]), clock)
        for _ in range(4):
            sampler.round()
            clock.pass_seconds(1)
        booked = [one.throttled_ns["power"] for one in sampler.reading().records]

        assert booked[0] == SECOND
        assert booked[1] == (SECOND if answer.kind is FailureKind.RELOADED else 3 * SECOND)

    def test_sample_after_a_hang_covers_no_time(self, held: Held) -> None:
        """However short the hang was."""
        clock, (gpu,) = Clock(held), gpus(1)
        gpu.answers = [Sample(reasons=0x4)]
        sampler = sampler_of(FakeDriver([gpu]), clock)
        sampler.round()
        gpu.held = held
        sampler.round()
        held.release()
        rounds(sampler, lambda: sampler.reading().records[0].sampled_ns > 100 * SECOND)

        assert sampler.reading().records[0].throttled_ns["power"] == 0

    def test_sample_covers_the_time_of_a_hang_of_another_gpu(self, held: Held) -> None:
        """The round takes a second longer."""
        clock, (stuck, other) = Clock(held), gpus(2)
        other.answers = [Sample(reasons=0x4)]
        sampler = sampler_of(FakeDriver([stuck, other]), clock)
        sampler.round()
        stuck.held = held
        clock.pass_seconds(1)
        sampler.round()

        assert sampler.reading().records[1].throttled_ns["power"] == 2 * SECOND

    def test_states_are_those_of_the_samples(self) -> None:
        sampler = sampler_of(FakeDriver([*gpus(2)]))
        sampler.round()

        assert [state.gpu for state in sampler.states()] == ["0", "1"]

    def test_xids_are_counted_by_number(self) -> None:
        """Since the GPU was first sampled."""
        (gpu,) = gpus(1)
        sampler = sampler_of(FakeDriver([gpu]))
        for numbers in ([94], [], [94, 31]):
            gpu.xids = numbers
            sampler.round()

        assert sampler.reading().records[0].xids == {94: 2, 31: 1}

    def test_before_the_first_round_all_is_empty(self) -> None:
        sampler = GpuSampler(FakeDriver([*gpus(1)]))

        assert (sampler.reading().records, sampler.states(), sampler.reading().failures) == ((), (), {})


class TestAbsence:
    """Without a driver."""

    def test_absence_is_logged_once_at_debug_level(self, caplog: pytest.LogCaptureFixture) -> None:
        """Most nodes without a driver never have one."""
        caplog.set_level(logging.DEBUG)
        sampler = sampler_of(FakeDriver([], [NO_DRIVER, NO_DRIVER]))
        sampler.round()
        sampler.round()

        assert [record.levelname for record in caplog.records] == ["DEBUG"]
        assert (sampler.reading().records, sampler.reading().failures) == ((), {})
        assert sampler.absent_reason == "there is no libnvidia-ml.so.1"

    def test_driver_that_comes_later_is_found(self) -> None:
        """It may be installed by a pod."""
        sampler = sampler_of(FakeDriver([*gpus(1)], [NO_DRIVER]))
        sampler.round()
        sampler.round()

        assert (len(sampler.reading().records), sampler.absent_reason) == (1, "")

    def test_missing_driver_is_looked_for_every_30_seconds(self) -> None:
        clock, driver = Clock(), FakeDriver([], [NO_DRIVER] * 3)
        sampler = sampler_of(driver, clock, SamplerTiming())
        for _ in range(61):
            sampler.round()
            clock.pass_seconds(1)

        assert driver.calls["open"] == 3


class TestHangs:
    """Calls that do not return."""

    def test_gpu_that_hangs_costs_the_others_nothing(self, held: Held) -> None:
        """Its call is abandoned, and counted once."""
        stuck, other = gpus(2)
        stuck.held = held
        sampler = sampler_of(FakeDriver([stuck, other]), Clock(held))
        for _ in range(3):
            sampler.round()

        assert [one.sample for one in sampler.reading().records] == [None, Sample(reasons=0)]
        assert sampler.reading().failures == {("0", FailureKind.TIMEOUT): 1}

    def test_hung_gpu_is_skipped_until_its_call_returns(self, held: Held) -> None:
        (gpu,) = gpus(1)
        sampler = sampler_of(FakeDriver([gpu]), Clock(held))
        sampler.round()
        gpu.held, gpu.answers = held, [Sample(power_mw=23)]
        sampler.round()
        sampler.round()
        assert sampler.reading().records[0].sample == Sample(reasons=0)
        held.release()
        rounds(sampler, lambda: sampler.reading().records[0].sample == Sample(power_mw=23))

        assert sampler.reading().failures == {("0", FailureKind.TIMEOUT): 1}

    def test_hung_gpu_keeps_its_last_sample(self, held: Held) -> None:
        """With its time, by which it is stale."""
        clock, (gpu,) = Clock(held), gpus(1)
        sampler = sampler_of(FakeDriver([gpu]), clock)
        sampler.round()
        gpu.held = held
        clock.pass_seconds(60)
        sampler.round()

        assert sampler.reading().records[0].sampled_ns == 100 * SECOND
        assert sampler.states()[0].gpu == "0"

    def test_at_most_one_thread_per_gpu_hangs(self, held: Held) -> None:
        """However many rounds there are."""
        stuck = gpus(3)
        for one in stuck:
            one.held = held
        sampler = sampler_of(FakeDriver([*stuck]), Clock(held))
        before = threading.active_count()
        for _ in range(5):
            sampler.round()

        assert sampler.reading().failures == {(str(index), FailureKind.TIMEOUT): 1 for index in range(3)}
        assert threading.active_count() - before <= 3 + 1  # and the helper that is left

    def test_driver_that_hangs_at_opening_is_skipped_until_it_returns(self, held: Held) -> None:
        """Then it is opened again."""
        driver = FakeDriver([*gpus(1)], held=held)
        sampler = sampler_of(driver, Clock(held))
        sampler.round()
        sampler.round()
        assert (driver.calls["open"], sampler.reading().failures) == (1, {("", FailureKind.TIMEOUT): 1})
        held.release()
        rounds(sampler, lambda: sampler.reading().records)

        assert driver.calls["open"] == 2

    def test_hang_and_recovery_are_logged_once(self, held: Held, caplog: pytest.LogCaptureFixture) -> None:
        """With the name of the call."""
        caplog.set_level(logging.INFO)
        (gpu,) = gpus(1)
        gpu.held = held
        sampler = sampler_of(FakeDriver([gpu]), Clock(held))
        sampler.round()
        sampler.round()
        held.release()
        rounds(sampler, lambda: sampler.reading().records[0].sample)

        assert [record.getMessage() for record in caplog.records] == [
            "GPU 0: NVML call nvmlDeviceGetUUID timed out after 1 s; skipped until it returns",
            "GPU 0: sampled again",
        ]

    def test_stop_waits_for_no_call(self, held: Held) -> None:
        """Not even for its timeout."""
        (gpu,) = gpus(1)
        gpu.held = held
        sampler = GpuSampler(FakeDriver([gpu]), SamplerTiming(call_seconds=AN_HOUR))
        sampler.start()
        eventually(lambda: held.waiting, "the call has begun")
        sampler.stop()

        assert sampler._thread is not None
        assert not sampler._thread.is_alive()


class TestLosses:
    """GPUs that fall off the bus, and drivers that are unloaded."""

    def test_lost_gpu_costs_the_others_nothing(self) -> None:
        """It is counted, and keeps its last sample."""
        lost, other = gpus(2)
        lost.answers = [Sample(power_mw=1), failure(FailureKind.LOST)]
        sampler = sampler_of(FakeDriver([lost, other]))
        for _ in range(3):
            sampler.round()

        assert [one.sample for one in sampler.reading().records] == [Sample(power_mw=1), Sample(reasons=0)]
        assert sampler.reading().failures == {("0", FailureKind.LOST): 2}

    def test_gpu_that_cannot_be_opened_is_known_by_its_number(self) -> None:
        """So that `up` can be 0."""
        sampler = sampler_of(FakeDriver([failure(FailureKind.LOST), *gpus(1)]))
        sampler.round()

        assert [(one.facts.gpu, one.sample is None) for one in sampler.reading().records] == [("0", True), ("0", False)]

    def test_lost_gpu_is_opened_again(self) -> None:
        """Its old handle is released."""
        (gpu,) = gpus(1)
        gpu.answers = [failure(FailureKind.RECONFIGURED), Sample(power_mw=1)]
        driver = FakeDriver([gpu])
        sampler = sampler_of(driver)
        sampler.round()
        sampler.round()

        assert (driver.calls["gpu 0"], gpu.times_closed) == (2, 1)
        assert sampler.reading().records[0].sample == Sample(power_mw=1)

    def test_delay_between_attempts_doubles_up_to_a_minute(self) -> None:
        """Attempts after 1, 2, 4, 8, 16, 32 and 60 seconds."""
        clock, driver = Clock(), FakeDriver([failure(FailureKind.LOST)])
        sampler = sampler_of(driver, clock, SamplerTiming())
        tried: list[int] = []
        for second in range(200):
            before = driver.calls["gpu 0"]
            sampler.round()
            tried += [second] * (driver.calls["gpu 0"] - before)
            clock.pass_seconds(1)

        assert tried == [0, 1, 3, 7, 15, 31, 63, 123, 183]

    def test_attempts_never_end(self) -> None:
        """A day of them."""
        clock, driver = Clock(), FakeDriver([failure(FailureKind.LOST)])
        sampler = sampler_of(driver, clock, SamplerTiming())
        for _ in range(1_500):
            sampler.round()
            clock.pass_seconds(60)

        assert driver.calls["gpu 0"] == 1_500

    def test_loss_and_recovery_are_logged_once(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO)
        (gpu,) = gpus(1)
        gpu.answers = [*([failure(FailureKind.LOST)] * 3), Sample()]
        sampler = sampler_of(FakeDriver([gpu]))
        for _ in range(5):
            sampler.round()

        assert [record.getMessage() for record in caplog.records] == [
            "GPU 0: NVML call nvmlDeviceGetUUID failed: lost",
            "GPU 0: sampled again",
        ]

    def test_xids_of_a_sample_that_failed_count(self) -> None:
        """XID 79 comes with the loss."""
        (gpu,) = gpus(1)
        gpu.answers, gpu.xids = [failure(FailureKind.LOST)], [79]
        sampler = sampler_of(FakeDriver([gpu]))
        sampler.round()

        assert sampler.reading().records[0].xids == {79: 1}

    def test_reloaded_driver_is_opened_again(self) -> None:
        """And every GPU of it; throttled time stays."""
        clock, (first, second) = Clock(), gpus(2)
        first.answers = [Sample(reasons=0x4), Sample(reasons=0x4), failure(FailureKind.RELOADED), Sample(power_mw=1)]
        driver = FakeDriver([first, second])
        sampler = sampler_of(driver, clock)
        for _ in range(4):
            sampler.round()
            clock.pass_seconds(1)

        assert driver.calls == {"open": 2, "close": 1, "gpu 0": 2, "gpu 1": 2}
        assert sampler.reading().records[0].throttled_ns["power"] == SECOND
        assert sampler.reading().failures == {("0", FailureKind.RELOADED): 1}

    def test_unloaded_driver_is_a_failure(self) -> None:
        """Its GPUs stay known."""
        (gpu,) = gpus(1)
        gpu.answers = [Sample(), failure(FailureKind.RELOADED), Sample()]
        driver = FakeDriver([gpu])
        sampler = sampler_of(driver)
        sampler.round()
        driver.refusals = [NO_DRIVER]
        sampler.round()
        sampler.round()

        assert sampler.reading().failures == {("0", FailureKind.RELOADED): 1, ("", FailureKind.RELOADED): 1}
        assert len(sampler.reading().records) == 1

    def test_gpu_that_is_not_listed_any_more_stays_known(self) -> None:
        """It is not sampled."""
        stays, goes = gpus(2)
        stays.answers = [Sample(), failure(FailureKind.RELOADED), Sample()]
        driver = FakeDriver([stays, goes])
        sampler = sampler_of(driver)
        sampler.round()
        driver.gpus = [stays]
        for _ in range(3):
            sampler.round()

        assert [one.facts.gpu for one in sampler.reading().records] == ["0", "1"]
        assert driver.calls["gpu 1"] == 1

    def test_gpu_with_a_new_number_is_known_only_under_that(self) -> None:
        """Its throttled time starts over, or it would count twice."""
        clock, (gone, moves) = Clock(), gpus(2)
        moves.answers = [Sample(reasons=0x4), Sample(reasons=0x4), failure(FailureKind.RELOADED), Sample(reasons=0)]
        driver = FakeDriver([gone, moves])
        sampler = sampler_of(driver, clock)
        for _ in range(3):
            sampler.round()
            clock.pass_seconds(1)
        driver.gpus = [FakeGpu(facts(0, "GPU-1"))]
        sampler.round()
        (known,) = sampler.reading().records

        assert (known.facts.gpu, known.facts.uuid, known.throttled_ns["power"]) == ("0", "GPU-1", 0)


class TestSingleCalls:
    def test_each_failed_call_is_counted(self) -> None:
        """The sample is good."""
        (gpu,) = gpus(1)
        gpu.failures = [failure(FailureKind.NO_FUNCTION), failure(FailureKind.DRIVER, "nvmlDeviceGetPowerUsage")]
        sampler = sampler_of(FakeDriver([gpu]))
        sampler.round()

        assert sampler.reading().records[0].sample == Sample(reasons=0)
        assert sampler.reading().failures == {("0", FailureKind.NO_FUNCTION): 1, ("0", FailureKind.DRIVER): 1}

    def test_missing_function_is_logged_once_for_all_gpus(self, caplog: pytest.LogCaptureFixture) -> None:
        first, second = gpus(2)
        first.failures, second.failures = [failure(FailureKind.NO_FUNCTION)], [failure(FailureKind.NO_FUNCTION)]
        sampler_of(FakeDriver([first, second])).round()

        assert [record.getMessage() for record in caplog.records] == [
            "GPU 0: NVML call nvmlDeviceGetUUID failed: no_function; its value is not reported"
        ]


class TestDefects:
    """Exceptions of our own code."""

    def test_defect_fails_the_collector_until_a_good_round(self, caplog: pytest.LogCaptureFixture) -> None:
        """It is logged once, and the thread continues."""
        (gpu,) = gpus(1)
        gpu.answers = [ValueError("a defect")]
        sampler = GpuSampler(FakeDriver([gpu]), SamplerTiming(sample_seconds=0.01))
        sampler.start()
        eventually(lambda: sampler._defect, "the defect was met")

        with pytest.raises(ExporterError, match="could not be sampled"):
            sampler.reading()
        gpu.answers = [Sample()]
        eventually(lambda: sampler._defect is None, "it is over")
        sampler.stop()

        assert sampler.reading().records[0].sample == Sample()
        assert len(caplog.records) == 1
