"""nvml: the real nvidia-ml-py asks the stand-in's libnvidia-ml.so.1, in a process of its own, which finds it by its name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from exporter.gpu.model import FailureKind, GpuMemory, GpuProcess, Sample
from tests.support import asking_nvml as there
from tests.support.gpus import Child, with_driver
from tests.support.standin_gpu import built

GIB = 1 << 30
MHZ = 1_000_000


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Child]:
    """One process for all tests of this module: each begins with the driver as it is by itself."""
    built()
    child = Child(tmp_path_factory.mktemp("nvml") / "state", **with_driver())
    child.tell()
    assert child.do(there.opened) == "550.54.15"
    yield child
    child.close()


@pytest.fixture
def child(shared: Child) -> Child:
    """With GPU 0 open, and nothing left of other tests."""
    shared.tell("devices 2")
    shared.do(there.gpu)
    shared.do(there.failures)
    return shared


@pytest.fixture
def others(tmp_path: Path) -> Iterator[Callable[..., Child]]:
    """Makes processes with another driver, or with none."""
    built()
    made: list[Child] = []

    def make(*lines: str, **variables: str) -> Child:
        one = Child(tmp_path / "state", **variables)
        one.tell(*lines)
        made.append(one)
        return one

    yield make
    for one in made:
        one.close()


class TestAbsence:
    """Machines without a driver."""

    def test_without_the_library_nothing_is_imported(self, others: Callable[..., Child]) -> None:
        """nvidia-ml-py takes memory."""
        child = others()

        assert child.do(there.opened).startswith("absent: no libnvidia-ml.so.1")
        assert not child.do(there.imported, "pynvml")

    def test_driver_that_is_not_loaded_is_absent(self, others: Callable[..., Child]) -> None:
        """The library may be there, as in an image."""
        child = others("reloads -1", **with_driver())

        assert child.do(there.opened).startswith("absent: the NVIDIA driver is not loaded")

    def test_driver_that_is_another_than_the_library_s_is_a_failure(self, others: Callable[..., Child]) -> None:
        """Somebody has installed a new one and not loaded it: LIB_RM_VERSION_MISMATCH."""
        child = others("call nvmlInitWithFlags 18", **with_driver())

        assert child.do(there.opened) == ("nvmlInit", FailureKind.RELOADED)


class TestFacts:
    """What a GPU is."""

    def test_they_are_those_of_its_number(self, child: Child) -> None:
        """In hertz."""
        child.tell(
            "driver 570.86.15",
            "gpu 1 name NVIDIA H100 80GB HBM3",
            "gpu 1 uuid GPU-1f0a",
            "gpu 1 bus_id 00000000:3B:00.0",
            "gpu 1 sm_clock_max 1755",
            "gpu 1 memory_clock_max 1593",
            "gpu 1 slowdown 87",
            "gpu 1 link_generation_max 4",
            "gpu 1 link_width_max 8",
        )

        assert child.do(there.gpu, 1)._asdict() == {
            "gpu": "1",
            "uuid": "GPU-1f0a",
            "model": "NVIDIA H100 80GB HBM3",
            "pci_bus_id": "00000000:3B:00.0",
            "driver_version": "550.54.15",  # as it was when it was opened
            "sm_clock_max_hz": 1755 * MHZ,
            "memory_clock_max_hz": 1593 * MHZ,
            "slowdown_celsius": 87,
            "link_generation_max": 4,
            "link_width_max": 8,
        }

    def test_gpus_are_counted(self, child: Child) -> None:
        """Those of the driver."""
        child.tell("devices 3")

        assert child.do(there.count) == 3


class TestSample:
    """What a GPU tells."""

    def test_plain_values(self, child: Child) -> None:
        """In hertz, milliwatts, degrees and percent."""
        child.tell(
            "gpu 0 reasons 0x24",
            "gpu 0 sm_clock 1200",
            "gpu 0 memory_clock 1593",
            "gpu 0 power 698250",
            "gpu 0 power_limit 650000",
            "gpu 0 temperature 81",
            "gpu 0 utilization 97",
            "gpu 0 memory_utilization 41",
            "gpu 0 link_generation 3",
            "gpu 0 link_width 8",
        )
        sample = child.do(there.sample)

        assert (sample.reasons, sample.sm_clock_hz, sample.memory_clock_hz) == (0x24, 1200 * MHZ, 1593 * MHZ)
        assert (sample.power_mw, sample.power_limit_mw, sample.celsius) == (698_250, 650_000, 81)
        assert (sample.utilization_percent, sample.memory_utilization_percent) == (97, 41)
        assert (sample.link_generation, sample.link_width) == (3, 8)

    def test_memory_tells_what_is_reserved(self, child: Child) -> None:
        """The driver's own part."""
        child.tell(f"gpu 0 memory_total {10 * GIB}", f"gpu 0 memory_used {3 * GIB}", f"gpu 0 memory_reserved {GIB}")

        assert child.do(there.sample).memory == GpuMemory(10 * GIB, 3 * GIB, 6 * GIB, GIB)

    def test_field_values(self, child: Child) -> None:
        """Errors, rows, replays, energy, and the temperature of the memory."""
        numbers = {82: 91, 83: 5_000, 3: 7, 4: 1, 142: 2, 143: 3, 144: 1, 145: 1, 94: 11}
        child.tell(*(f"gpu 0 field {number} {value}" for number, value in numbers.items()))
        sample = child.do(there.sample)

        assert (sample.memory_celsius, sample.energy_mj) == (91, 5_000)
        assert (sample.corrected_errors, sample.uncorrected_errors) == (7, 1)
        assert (sample.corrected_rows, sample.uncorrected_rows) == (2, 3)
        assert (sample.is_repair_pending, sample.has_repair_failed) == (True, True)
        assert sample.pcie_replays == 11

    def test_retired_pages_are_those_of_gpus_that_have_no_spare_rows(self, child: Child) -> None:
        """Which of the two a GPU tells is its own affair."""
        rows = (f"gpu 0 field {number} none" for number in (142, 143, 144, 145))
        child.tell("gpu 0 field 29 4", "gpu 0 field 30 2", "gpu 0 field 31 1", *rows)
        sample = child.do(there.sample)

        assert (sample.corrected_pages, sample.uncorrected_pages, sample.is_repair_pending) == (4, 2, True)
        assert (sample.corrected_rows, sample.has_repair_failed) == (None, None)

    def test_nvlink_counts_kibibytes(self, child: Child) -> None:
        """Over all links."""
        child.tell("gpu 0 field 138 3", "gpu 0 field 139 2")
        sample = child.do(there.sample)

        assert (sample.nvlink_sent_bytes, sample.nvlink_received_bytes) == (3 * 1024, 2 * 1024)

    def test_errors_of_single_links_are_added_up(self, child: Child) -> None:
        """Eighteen of them, where no sum is told."""
        child.tell("gpu 0 field 161 1", "gpu 0 field 162 2", "gpu 0 field 163 3")
        child.do(there.gpu)
        sample = child.do(there.sample)

        assert (sample.nvlink_replays, sample.nvlink_recoveries, sample.nvlink_crc_errors) == (18, 36, 54)

    def test_sums_over_links_are_taken_where_they_are_told(self, child: Child) -> None:
        """Single links are not asked then."""
        sums = ("gpu 0 field 52 5", "gpu 0 field 59 6", "gpu 0 field 38 7")
        child.tell(*sums, "gpu 0 field 161 1", "gpu 0 field 162 1", "gpu 0 field 163 1")
        child.do(there.gpu)
        sample = child.do(there.sample)

        assert (sample.nvlink_replays, sample.nvlink_recoveries, sample.nvlink_crc_errors) == (5, 6, 7)

    def test_processes_and_what_each_has(self, child: Child) -> None:
        """None where the driver does not say how much."""
        child.tell("gpu 0 process 4242 1073741824", "gpu 0 process 17 none", "gpu 1 process 5 1")

        assert child.do(there.sample).processes == (GpuProcess(4242, GIB), GpuProcess(17, None))

    def test_what_a_device_does_not_support_is_missing_and_no_failure(self, child: Child) -> None:
        """All else is told."""
        names = ("PowerUsage", "Temperature", "UtilizationRates", "FieldValues", "MigMode", "CurrPcieLinkWidth")
        child.tell(*(f"call nvmlDeviceGet{name} unsupported" for name in names), "gpu 0 reasons 4")
        sample = child.do(there.sample)

        assert (sample.power_mw, sample.celsius, sample.utilization_percent, sample.energy_mj) == (None,) * 4
        assert (sample.is_mig, sample.link_width) == (None, None)
        assert sample.reasons == 4
        assert child.do(there.failures) == []


class TestPcieBytes:
    """By the driver's count, or by looks at the throughput."""

    def test_count_of_64_bits_is_taken(self, child: Child) -> None:
        """And nobody waits 20 ms for a look."""
        child.tell("gpu 0 field 197 5000000000", "gpu 0 field 198 6000000000")
        child.do(there.calls)
        sample = child.do(there.sample)

        assert (sample.pcie_sent_bytes, sample.pcie_received_bytes) == (5_000_000_000, 6_000_000_000)
        assert sample.pcie_sent_bytes_per_second is None
        assert "nvmlDeviceGetPcieThroughput" not in child.do(there.calls)

    @pytest.mark.parametrize("value", ["none", "u32:4000000000"])
    def test_without_such_a_count_the_throughput_is_looked_at(self, child: Child, value: str) -> None:
        """32 bits are full several times in a second."""
        child.tell(
            *(f"gpu 0 field {number} {value}" for number in (197, 198)), "gpu 0 pcie_sent 3", "gpu 0 pcie_received 4"
        )
        sample = child.do(there.sample)

        assert (sample.pcie_sent_bytes, sample.pcie_received_bytes) == (None, None)
        assert (sample.pcie_sent_bytes_per_second, sample.pcie_received_bytes_per_second) == (3_000, 4_000)

    def test_next_look_is_seconds_away(self, child: Child) -> None:
        """Until then the last one holds."""
        child.tell(*(f"gpu 0 field {number} none" for number in (197, 198)), "gpu 0 pcie_sent 3")
        child.do(there.sample)
        child.do(there.calls)
        sample = child.do(there.sample)

        assert sample.pcie_sent_bytes_per_second == 3_000
        assert "nvmlDeviceGetPcieThroughput" not in child.do(there.calls)


class TestMig:
    """GPUs that are divided."""

    DIVIDED = (
        "gpu 0 mig 1",
        f"gpu 0 instance 7 {10 * GIB} {GIB}",
        "gpu 0 instance 9 1000 10",
        f"gpu 0 instance_process 7 4242 {GIB}",
        "gpu 0 instance_process 9 17 none",
    )

    def test_each_instance_has_its_memory_and_processes(self, child: Child) -> None:
        """By the number of the GPU instance; the GPU has the processes of all."""
        child.tell(*self.DIVIDED)
        sample = child.do(there.sample)

        assert sample.is_mig
        assert [one.mig for one in sample.instances] == ["7", "9"]
        assert sample.instances[0].memory == GpuMemory(10 * GIB, GIB, 9 * GIB, 0)
        assert sample.instances[0].uuid == "MIG-7-GPU-00000000-0000-0000-0000-000000000000"
        assert [one.processes for one in sample.instances] == [(GpuProcess(4242, GIB),), (GpuProcess(17, None),)]
        assert sample.processes == (GpuProcess(4242, GIB), GpuProcess(17, None))

    def test_gpu_that_could_be_divided_is_whole(self, child: Child) -> None:
        """Its processes are its own."""
        child.tell("gpu 0 mig 0", "gpu 0 process 5 1")
        sample = child.do(there.sample)

        assert (sample.is_mig, sample.instances, sample.processes) == (False, (), (GpuProcess(5, 1),))

    def test_instances_that_are_made_anew_are_seen_at_once(self, child: Child) -> None:
        """No handle is kept from one sample to the next."""
        child.tell(*self.DIVIDED)
        child.do(there.sample)
        child.tell("gpu 0 mig 1", "gpu 0 instance 3 1000 0")

        assert [one.mig for one in child.do(there.sample).instances] == ["3"]

    def test_compute_instances_of_one_gpu_instance_are_one(self, child: Child) -> None:
        """They share its memory."""
        child.tell(
            "gpu 0 mig 1", "gpu 0 instance 7 1000 10", "gpu 0 instance 7 1000 10", "gpu 0 instance_process 7 5 3"
        )
        (instance,) = child.do(there.sample).instances

        assert instance.memory == GpuMemory(1000, 10, 990, 0)

    def test_instance_that_goes_meanwhile_is_a_failure_and_no_more(self, child: Child) -> None:
        """The GPU is told all the same."""
        child.tell(*self.DIVIDED, "call nvmlDeviceGetGpuInstanceId 2")
        sample = child.do(there.sample)

        assert (sample.is_mig, sample.instances) == (True, ())
        assert set(child.do(there.failures)) == {("nvmlDeviceGetGpuInstanceId", FailureKind.RECONFIGURED)}

    def test_gpu_whose_handle_is_no_good_has_to_be_opened_anew(self, child: Child) -> None:
        """As after a change of the mode."""
        child.tell("gpu 0 handles 1")
        assert child.do(there.sample) == ("nvmlDeviceGetUUID", FailureKind.RECONFIGURED)
        child.do(there.gpu)

        assert isinstance(child.do(there.sample), Sample)

    def test_number_that_is_another_gpu_s_now_is_found_out(self, child: Child) -> None:
        """By its uuid."""
        child.tell("gpu 0 uuid GPU-another")

        assert child.do(there.sample) == ("nvmlDeviceGetUUID", FailureKind.RECONFIGURED)


class TestXids:
    """Errors that the driver tells of as events."""

    def test_they_come_once(self, child: Child) -> None:
        """In the order in which they happened."""
        child.tell("gpu 0 xid 1 94", "gpu 0 xid 2 31", "gpu 1 xid 1 13")
        child.do(there.sample)
        assert child.do(there.xids) == [94, 31]
        child.do(there.sample)

        assert child.do(there.xids) == []

    def test_those_of_before_are_not_told(self, child: Child) -> None:
        """Events begin where somebody asks for them."""
        child.tell("gpu 0 xid 1 94")
        child.do(there.gpu)
        child.tell("gpu 0 xid 1 94", "gpu 0 xid 2 31")
        child.do(there.sample)

        assert child.do(there.xids) == [31]

    def test_the_last_word_of_a_gpu_that_is_lost_is_told(self, child: Child) -> None:
        """XID 79 says that it has fallen off the bus, and no sample is taken any more."""
        child.tell("gpu 0 xid 1 79", "call nvmlDeviceGetUtilizationRates lost")
        assert child.do(there.sample) == ("nvmlDeviceGetUtilizationRates", FailureKind.LOST)

        assert child.do(there.xids) == [79]

    def test_gpu_without_events_is_sampled(self, child: Child) -> None:
        """No failure: it does not support them."""
        child.tell("call nvmlDeviceRegisterEvents unsupported", "gpu 0 reasons 4")
        child.do(there.gpu)

        assert child.do(there.sample).reasons == 4
        assert child.do(there.failures) == []


class TestFailures:
    """What goes wrong, and what becomes of the rest."""

    def test_lost_gpu_has_no_sample(self, child: Child) -> None:
        """The other one has."""
        child.do(there.gpu, 1)
        child.tell("gpu 0 lost 1", "gpu 1 reasons 4")

        assert child.do(there.sample) == ("nvmlDeviceGetUUID", FailureKind.LOST)
        assert child.do(there.sample, 1).reasons == 4

    def test_lost_gpu_cannot_be_opened(self, child: Child) -> None:
        """Until it is back."""
        child.tell("gpu 0 lost 1")
        assert child.do(there.gpu) == ("nvmlDeviceGetHandleByIndex", FailureKind.LOST)
        child.tell()

        assert child.do(there.gpu).gpu == "0"

    def test_driver_that_was_loaded_anew_is_found_out(self, others: Callable[..., Child]) -> None:
        """And can be opened again."""
        child = others(**with_driver())
        child.do(there.opened)
        child.do(there.gpu)
        child.tell("reloads 1", "driver 570.86.15")
        assert child.do(there.sample) == ("nvmlDeviceGetUUID", FailureKind.RELOADED)

        assert child.do(there.opened) == "570.86.15"

    @pytest.mark.parametrize(
        ("word", "trouble"),
        [
            ("denied", FailureKind.NO_PERMISSION),
            ("unknown", FailureKind.DRIVER),
            ("missing", FailureKind.NO_FUNCTION),
            ("2", FailureKind.DRIVER),  # INVALID_ARGUMENT, though the handle is a good one
        ],
    )
    def test_call_that_fails_costs_its_value(self, child: Child, word: str, trouble: FailureKind) -> None:
        """All others go on."""
        child.tell(f"call nvmlDeviceGetPowerUsage {word}", "gpu 0 reasons 4")
        sample = child.do(there.sample)

        assert (sample.power_mw, sample.reasons) == (None, 4)
        assert child.do(there.failures) == [("nvmlDeviceGetPowerUsage", trouble)]

    @pytest.mark.parametrize(("word", "times"), [("missing", 1), ("denied", 1), ("2", 1), ("unknown", 2)])
    def test_what_will_not_change_is_not_asked_again(self, child: Child, word: str, times: int) -> None:
        """Before the GPU is opened anew."""
        child.tell(f"call nvmlDeviceGetPowerUsage {word}")
        child.do(there.sample)
        child.do(there.sample)

        assert len(child.do(there.failures)) == times

    def test_functions_that_an_old_driver_lacks_have_older_ones_in_their_place(
        self, others: Callable[..., Child]
    ) -> None:
        """Reasons and memory, which then has what is reserved among what is used; processes are not told, and that is counted."""
        child = others("gpu 0 reasons 4", **with_driver("libnvidia-ml-470.so"))
        child.do(there.opened)
        child.do(there.gpu)
        sample = child.do(there.sample)

        assert sample.reasons == 4
        assert sample.memory == GpuMemory(80 * GIB, GIB // 2, 80 * GIB - GIB // 2)
        assert sample.processes is None
        assert child.do(there.failures) == [("nvmlDeviceGetComputeRunningProcesses_v3", FailureKind.NO_FUNCTION)]
