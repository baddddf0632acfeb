"""block: rows of disks to totals of containers and jobs."""

from __future__ import annotations

from exporter import catalog
from exporter.hostmetrics.block import PRUNE_NS, Block
from exporter.kernel import abi
from exporter.kernel.abi import DiskDirection
from exporter.kernel.share_rows import Shares
from exporter.model import Identity
from exporter.series.host_totals import TracedProcess
from exporter.totals import Counts, HistogramTotal, Series
from tests.support.tables import FakeMap

S = 1_000_000_000
NODE, JOB = Identity("gpu7"), Identity("gpu7", container="job")
RANK = Identity("gpu7", rank="0", container="job")
SDA = 8 << 20
TRACED = TracedProcess(1, 4026, RANK)


class _Groups:
    """Cgroup 7 is the job's container."""

    def __init__(self) -> None:
        self.gone: set[int] = set()

    def identity_of(self, number: int) -> Identity:
        return JOB if number == 7 else NODE

    def is_gone(self, number: int) -> bool:
        return number in self.gone


class _Scene:
    """A collector over tables that the test fills."""

    def __init__(self) -> None:
        self.maps = {"disks": FakeMap(), "disk_waits": FakeMap()}
        self.groups = _Groups()
        self.block = Block(self.maps, self.groups, {"8:0": "sda"}.__getitem__, ttl_ns=60 * S, shares=Shares(self.maps))

    def disk(self, cgroup_id: int, *, size_bytes: int, errors: int = 0, queue_ns: int = 0, device_ns: int = 0) -> None:
        """One read; with durations if they are given, in slot 9 and slot 80."""
        slots = [0] * (2 * abi.HIST_SLOTS)
        if device_ns:
            slots[9] = slots[abi.HIST_SLOTS + 80] = 1
        row = abi.DISK_ROW.pack(0, 0, 1, errors, size_bytes, queue_ns, device_ns, *slots)
        self.maps["disks"].put(abi.DISK_KEY.pack(cgroup_id, SDA, DiskDirection.READ), row)

    def waited(self, process: int, device: int, waits: int, wait_ns: int) -> None:
        """Waits of a process so far."""
        self.maps["disk_waits"].put(abi.DISK_WAIT_KEY.pack(process, device), abi.DISK_WAIT.pack(waits, wait_ns))


READ = ("sda", "read")


class TestDisks:
    """Requests, by container."""

    def test_requests_count_for_their_container(self) -> None:
        """Bytes and both durations."""
        scene = _Scene()
        scene.disk(7, size_bytes=4096, queue_ns=10, device_ns=1000)

        assert scene.block.collect(S, [])[JOB] == {
            Series(catalog.block.BYTES, READ): 4096,
            Series(catalog.block.ERRORS, READ): 0,
            Series(catalog.block.QUEUE_DURATION, READ): HistogramTotal(Counts(9, (1,)), 10),
            Series(catalog.block.DEVICE_DURATION, READ): HistogramTotal(Counts(80, (1,)), 1000),
        }

    def test_disk_without_statistics_has_no_durations(self) -> None:
        """No histogram rather than an empty one."""
        scene = _Scene()
        scene.disk(0, size_bytes=512, errors=1)

        assert scene.block.collect(S, [])[NODE] == {
            Series(catalog.block.BYTES, READ): 512,
            Series(catalog.block.ERRORS, READ): 1,
        }

    def test_rows_of_a_removed_cgroup_are_deleted_and_its_totals_stay(self) -> None:
        """The map has room again, and a row that comes back later is no reset."""
        scene = _Scene()
        scene.disk(7, size_bytes=4096)
        scene.groups.gone.add(7)
        scene.block.collect(PRUNE_NS, [])
        scene.block.collect(2 * PRUNE_NS, [])
        assert scene.maps["disks"].rows == {}
        scene.disk(7, size_bytes=512)
        totals = scene.block.collect(2 * PRUNE_NS + S, [])

        assert totals[JOB][Series(catalog.block.BYTES, READ)] == 4096 + 512
        assert scene.block.resets == 0

    def test_row_that_still_grows_is_kept(self) -> None:
        """What a cgroup has written before its end is still on its way to the disk."""
        scene = _Scene()
        scene.groups.gone.add(7)
        for at, size_bytes in enumerate((4096, 8192), start=1):
            scene.disk(7, size_bytes=size_bytes)
            scene.block.collect(at * PRUNE_NS, [])

        assert len(scene.maps["disks"].rows) == 1

    def test_without_maps_there_are_no_totals(self) -> None:
        assert Block({}, _Groups(), str, ttl_ns=S, shares=Shares({})).collect(S, [TRACED]) == {}


class TestWaits:
    """Waits of traced jobs."""

    def test_waits_count_for_the_job(self) -> None:
        """By the disk that ended them."""
        scene = _Scene()
        scene.waited(1, SDA, 3, 30)
        scene.waited(1, 0, 1, 5)

        assert scene.block.collect(S, [TRACED])[RANK] == {
            Series(catalog.block.WAIT, ("sda",)): 30,
            Series(catalog.block.WAITS, ("sda",)): 3,
            Series(catalog.block.WAIT, ("unknown",)): 5,
            Series(catalog.block.WAITS, ("unknown",)): 1,
        }

    def test_last_waits_of_an_ended_job_count(self) -> None:
        """And its rows are deleted then."""
        scene = _Scene()
        scene.waited(1, SDA, 3, 30)
        scene.block.collect(S, [TRACED])
        scene.waited(1, SDA, 4, 50)

        assert scene.block.collect(2 * S, [])[RANK][Series(catalog.block.WAIT, ("sda",))] == 50
        assert scene.maps["disk_waits"].rows == {}

    def test_job_without_an_identity_is_held_back(self) -> None:
        """Its rows stay."""
        scene = _Scene()
        scene.waited(1, SDA, 3, 30)

        assert scene.block.collect(S, []) == {}
        assert len(scene.maps["disk_waits"].rows) == 1
