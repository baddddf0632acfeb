"""nvml: the real nvidia-ml-py with the stand-in's libnvidia-ml.so.1, in a child process that finds it by its name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from exporter.gpu.model import FailureKind, GpuMemory, GpuProcess, Sample
from tests.support import nvml_child as there
from tests.support.gpus import Child, with_driver
from tests.support.standin_gpu import built

GIB = 1 << 30
MHZ = 1_000_000


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Child]:
    """One process for all tests of this module: each starts with the driver in its default state."""
    built()
    child = Child(tmp_path_factory.mktemp("nvml") / "state", **with_driver())
    child.write_state()
    assert child.call(there.opened) == "550.54.15"
    yield child
    child.close()


@pytest.fixture
def child(shared: Child) -> Child:
    """With GPU 0 open, and no failures of other tests."""
    shared.write_state("devices 2")
    shared.call(there.gpu)
    shared.call(there.failures)
    return shared


@pytest.fixture
def others(tmp_path: Path) -> Iterator[Callable[..., Child]]:
    """Starts processes with another driver, or with none."""
    built()
    made: list[Child] = []

    def make(*lines: str, **variables: str) -> Child:
        one = Child(tmp_path / "state", **variables)
        one.write_state(*lines)
        made.append(one)
        return one

    yield make
    for one in made:
        one.close()


class TestAbsence:
    """Nodes without a driver."""

    def test_without_the_library_nothing_is_imported(self, others: Callable[..., Child]) -> None:
        """nvidia-ml-py takes memory."""
        child = others()

        assert child.call(there.opened).startswith("absent: no libnvidia-ml.so.1")
        assert not child.call(there.imported, "pynvml")

    def test_driver_that_is_not_loaded_is_absent(self, others: Callable[..., Child]) -> None:
        """The library may exist, as in an image."""
        child = others("reloads -1", **with_driver())

        assert child.call(there.opened).startswith("absent: the NVIDIA driver is not loaded")

    def test_driver_of_another_version_than_the_library_is_a_failure(self, others: Callable[..., Child]) -> None:
        """A new driver is installed and not loaded: LIB_RM_VERSION_MISMATCH."""
        child = others("call nvmlInitWithFlags 18", **with_driver())

        assert child.call(there.opened) == ("nvmlInit", FailureKind.RELOADED)


class TestFacts:
    def test_facts_are_those_of_the_index(self, child: Child) -> None:
        """In hertz."""
        child.write_state(
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

        assert child.call(there.gpu, 1)._asdict() == {
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
        child.write_state("devices 3")

        assert child.call(there.count) == 3


class TestSample:
    def test_values_with_functions_of_their_own(self, child: Child) -> None:
        """In hertz, milliwatts, degrees and percent."""
        child.write_state(
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
        sample = child.call(there.sample)

        assert (sample.reasons, sample.sm_clock_hz, sample.memory_clock_hz) == (0x24, 1200 * MHZ, 1593 * MHZ)
        assert (sample.power_mw, sample.power_limit_mw, sample.celsius) == (698_250, 650_000, 81)
        assert (sample.utilization_percent, sample.memory_utilization_percent) == (97, 41)
        assert (sample.link_generation, sample.link_width) == (3, 8)

    def test_memory_has_reserved_bytes(self, child: Child) -> None:
        """The driver reserves them."""
        child.write_state(
            f"gpu 0 memory_total {10 * GIB}", f"gpu 0 memory_used {3 * GIB}", f"gpu 0 memory_reserved {GIB}"
        )

        assert child.call(there.sample).memory == GpuMemory(10 * GIB, 3 * GIB, 6 * GIB, GIB)

    def test_field_values(self, child: Child) -> None:
        """Errors, rows, replays, energy, and the temperature of the memory."""
        numbers = {82: 91, 83: 5_000, 3: 7, 4: 1, 142: 2, 143: 3, 144: 1, 145: 1, 94: 11}
        child.write_state(*(f"gpu 0 field {number} {value}" for number, value in numbers.items()))
        sample = child.call(there.sample)

        assert (sample.memory_celsius, sample.energy_mj) == (91, 5_000)
        assert (sample.corrected_errors, sample.uncorrected_errors) == (7, 1)
        assert (sample.corrected_rows, sample.uncorrected_rows) == (2, 3)
        assert (sample.is_repair_pending, sample.has_repair_failed) == (True, True)
        assert sample.pcie_replays == 11

    def test_gpu_without_spare_rows_has_retired_pages(self, child: Child) -> None:
        rows = (f"gpu 0 field {number} none" for number in (142, 143, 144, 145))
        child.write_state("gpu 0 field 29 4", "gpu 0 field 30 2", "gpu 0 field 31 1", *rows)
        sample = child.call(there.sample)

        assert (sample.corrected_pages, sample.uncorrected_pages, sample.is_repair_pending) == (4, 2, True)
        assert (sample.corrected_rows, sample.has_repair_failed) == (None, None)

    def test_nvlink_counts_kibibytes(self, child: Child) -> None:
        """Over all links."""
        child.write_state("gpu 0 field 138 3", "gpu 0 field 139 2")
        sample = child.call(there.sample)

        assert (sample.nvlink_sent_bytes, sample.nvlink_received_bytes) == (3 * 1024, 2 * 1024)

    def test_errors_of_single_links_are_added_up(self, child: Child) -> None:
        """Eighteen links, without a sum."""
        child.write_state("gpu 0 field 161 1", "gpu 0 field 162 2", "gpu 0 field 163 3")
        child.call(there.gpu)
        sample = child.call(there.sample)

        assert (sample.nvlink_replays, sample.nvlink_recoveries, sample.nvlink_crc_errors) == (18, 36, 54)

    def test_sums_over_links_are_preferred(self, child: Child) -> None:
        """Single links are not read then."""
        sums = ("gpu 0 field 52 5", "gpu 0 field 59 6", "gpu 0 field 38 7")
        child.write_state(*sums, "gpu 0 field 161 1", "gpu 0 field 162 1", "gpu 0 field 163 1")
        child.call(there.gpu)
        sample = child.call(there.sample)

        assert (sample.nvlink_replays, sample.nvlink_recoveries, sample.nvlink_crc_errors) == (5, 6, 7)

    def test_processes_have_their_memory(self, child: Child) -> None:
        """None when the driver does not report it."""
        child.write_state("gpu 0 process 4242 1073741824", "gpu 0 process 17 none", "gpu 1 process 5 1")

        assert child.call(there.sample).processes == (GpuProcess(4242, GIB), GpuProcess(17, None))

    def test_unsupported_value_is_missing_and_no_failure(self, child: Child) -> None:
        """All others are read."""
        names = ("PowerUsage", "Temperature", "UtilizationRates", "FieldValues", "MigMode", "CurrPcieLinkWidth")
        child.write_state(*(f"call nvmlDeviceGet{name} unsupported" for name in names), "gpu 0 reasons 4")
        sample = child.call(there.sample)

        assert (sample.power_mw, sample.celsius, sample.utilization_percent, sample.energy_mj) == (None,) * 4
        assert (sample.is_mig, sample.link_width) == (None, None)
        assert sample.reasons == 4
        assert child.call(there.failures) == []


class TestPcieBytes:
    """Counted by the driver, or from its throughput."""

    def test_count_of_64_bits_is_used(self, child: Child) -> None:
        """And no call waits 20 ms for the throughput."""
        child.write_state("gpu 0 field 197 5000000000", "gpu 0 field 198 6000000000")
        child.call(there.calls)
        sample = child.call(there.sample)

        assert (sample.pcie_sent_bytes, sample.pcie_received_bytes) == (5_000_000_000, 6_000_000_000)
        assert sample.pcie_sent_bytes_per_second is None
        assert "nvmlDeviceGetPcieThroughput" not in child.call(there.calls)

    @pytest.mark.parametrize("value", ["none", "u32:4000000000"])
    def test_without_such_a_count_the_throughput_is_read(self, child: Child, value: str) -> None:
        """32 bits wrap several times a second."""
        child.write_state(
            *(f"gpu 0 field {number} {value}" for number in (197, 198)), "gpu 0 pcie_sent 3", "gpu 0 pcie_received 4"
        )
        sample = child.call(there.sample)

        assert (sample.pcie_sent_bytes, sample.pcie_received_bytes) == (None, None)
        assert (sample.pcie_sent_bytes_per_second, sample.pcie_received_bytes_per_second) == (3_000, 4_000)

    def test_throughput_is_reused_for_seconds(self, child: Child) -> None:
        child.write_state(*(f"gpu 0 field {number} none" for number in (197, 198)), "gpu 0 pcie_sent 3")
        child.call(there.sample)
        child.call(there.calls)
        sample = child.call(there.sample)

        assert sample.pcie_sent_bytes_per_second == 3_000
        assert "nvmlDeviceGetPcieThroughput" not in child.call(there.calls)


class TestMig:
    """Divided GPUs."""

    DIVIDED = (
        "gpu 0 mig 1",
        f"gpu 0 instance 7 {10 * GIB} {GIB}",
        "gpu 0 instance 9 1000 10",
        f"gpu 0 instance_process 7 4242 {GIB}",
        "gpu 0 instance_process 9 17 none",
    )

    def test_each_instance_has_its_memory_and_processes(self, child: Child) -> None:
        """By the number of the GPU instance; the GPU has the processes of all."""
        child.write_state(*self.DIVIDED)
        sample = child.call(there.sample)

        assert sample.is_mig
        assert [one.mig for one in sample.instances] == ["7", "9"]
        assert sample.instances[0].memory == GpuMemory(10 * GIB, GIB, 9 * GIB, 0)
        assert sample.instances[0].uuid == "MIG-7-GPU-00000000-0000-0000-0000-000000000000"
        assert [one.processes for one in sample.instances] == [(GpuProcess(4242, GIB),), (GpuProcess(17, None),)]
        assert sample.processes == (GpuProcess(4242, GIB), GpuProcess(17, None))

    def test_gpu_with_mig_disabled_is_whole(self, child: Child) -> None:
        """Its processes are its own."""
        child.write_state("gpu 0 mig 0", "gpu 0 process 5 1")
        sample = child.call(there.sample)

        assert (sample.is_mig, sample.instances, sample.processes) == (False, (), (GpuProcess(5, 1),))

    def test_new_instances_are_found_in_the_next_sample(self, child: Child) -> None:
        """No handle is kept from one sample to the next."""
        child.write_state(*self.DIVIDED)
        child.call(there.sample)
        child.write_state("gpu 0 mig 1", "gpu 0 instance 3 1000 0")

        assert [one.mig for one in child.call(there.sample).instances] == ["3"]

    def test_compute_instances_share_their_gpu_instance(self, child: Child) -> None:
        """And its memory."""
        child.write_state(
            "gpu 0 mig 1", "gpu 0 instance 7 1000 10", "gpu 0 instance 7 1000 10", "gpu 0 instance_process 7 5 3"
        )
        (instance,) = child.call(there.sample).instances

        assert instance.memory == GpuMemory(1000, 10, 990, 0)

    def test_instance_that_is_removed_costs_only_itself(self, child: Child) -> None:
        """The GPU is sampled all the same."""
        child.write_state(*self.DIVIDED, "call nvmlDeviceGetGpuInstanceId 2")
        sample = child.call(there.sample)

        assert (sample.is_mig, sample.instances) == (True, ())
        assert set(child.call(there.failures)) == {("nvmlDeviceGetGpuInstanceId", FailureKind.RECONFIGURED)}

    def test_gpu_with_an_invalid_handle_must_be_opened_again(self, child: Child) -> None:
        """As after a change of the mode."""
        child.write_state("gpu 0 handles 1")
        assert child.call(there.sample) == ("nvmlDeviceGetUUID", FailureKind.RECONFIGURED)
        child.call(there.gpu)

        assert isinstance(child.call(there.sample), Sample)

    def test_index_that_belongs_to_another_gpu_is_detected(self, child: Child) -> None:
        """By its uuid."""
        child.write_state("gpu 0 uuid GPU-another")

        assert child.call(there.sample) == ("nvmlDeviceGetUUID", FailureKind.RECONFIGURED)


class TestXids:
    """XID errors, which are events of the driver."""

    def test_xids_are_returned_once(self, child: Child) -> None:
        """In the order in which they happened."""
        child.write_state("gpu 0 xid 1 94", "gpu 0 xid 2 31", "gpu 1 xid 1 13")
        child.call(there.sample)
        assert child.call(there.xids) == [94, 31]
        child.call(there.sample)

        assert child.call(there.xids) == []

    def test_xids_before_opening_are_not_returned(self, child: Child) -> None:
        """Events start when they are registered."""
        child.write_state("gpu 0 xid 1 94")
        child.call(there.gpu)
        child.write_state("gpu 0 xid 1 94", "gpu 0 xid 2 31")
        child.call(there.sample)

        assert child.call(there.xids) == [31]

    def test_last_xid_of_a_lost_gpu_is_returned(self, child: Child) -> None:
        """XID 79: the GPU has fallen off the bus, and cannot be sampled any more."""
        child.write_state("gpu 0 xid 1 79", "call nvmlDeviceGetUtilizationRates lost")
        assert child.call(there.sample) == ("nvmlDeviceGetUtilizationRates", FailureKind.LOST)

        assert child.call(there.xids) == [79]

    def test_gpu_without_events_is_sampled(self, child: Child) -> None:
        """It does not support them, which is no failure."""
        child.write_state("call nvmlDeviceRegisterEvents unsupported", "gpu 0 reasons 4")
        child.call(there.gpu)

        assert child.call(there.sample).reasons == 4
        assert child.call(there.failures) == []


class TestFailures:
    """Which failures cost what."""

    def test_lost_gpu_has_no_sample(self, child: Child) -> None:
        """The other one has."""
        child.call(there.gpu, 1)
        child.write_state("gpu 0 lost 1", "gpu 1 reasons 4")

        assert child.call(there.sample) == ("nvmlDeviceGetUUID", FailureKind.LOST)
        assert child.call(there.sample, 1).reasons == 4

    def test_lost_gpu_cannot_be_opened(self, child: Child) -> None:
        """Until it is back."""
        child.write_state("gpu 0 lost 1")
        assert child.call(there.gpu) == ("nvmlDeviceGetHandleByIndex", FailureKind.LOST)
        child.write_state()

        assert child.call(there.gpu).gpu == "0"

    def test_reloaded_driver_is_detected(self, others: Callable[..., Child]) -> None:
        """And can be opened again."""
        child = others(**with_driver())
        child.call(there.opened)
        child.call(there.gpu)
        child.write_state("reloads 1", "driver 570.86.15")
        assert child.call(there.sample) == ("nvmlDeviceGetUUID", FailureKind.RELOADED)

        assert child.call(there.opened) == "570.86.15"

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
        """All others are read."""
        child.write_state(f"call nvmlDeviceGetPowerUsage {word}", "gpu 0 reasons 4")
        sample = child.call(there.sample)

        assert (sample.power_mw, sample.reasons) == (None, 4)
        assert child.call(there.failures) == [("nvmlDeviceGetPowerUsage", trouble)]

    @pytest.mark.parametrize(("word", "times"), [("missing", 1), ("denied", 1), ("2", 1), ("unknown", 2)])
    def test_lasting_failure_is_not_tried_again(self, child: Child, word: str, times: int) -> None:
        """Until the GPU is opened again."""
        child.write_state(f"call nvmlDeviceGetPowerUsage {word}")
        child.call(there.sample)
        child.call(there.sample)

        assert len(child.call(there.failures)) == times

    def test_old_driver_is_read_with_older_functions(self, others: Callable[..., Child]) -> None:
        """Throttle reasons and memory, whose used bytes include the reserved ones; missing processes are a failure."""
        child = others("gpu 0 reasons 4", **with_driver("libnvidia-ml-470.so"))
        child.call(there.opened)
        child.call(there.gpu)
        sample = child.call(there.sample)

        assert sample.reasons == 4
        assert sample.memory == GpuMemory(80 * GIB, GIB // 2, 80 * GIB - GIB // 2)
        assert sample.processes is None
        assert child.call(there.failures) == [("nvmlDeviceGetComputeRunningProcesses_v3", FailureKind.NO_FUNCTION)]
