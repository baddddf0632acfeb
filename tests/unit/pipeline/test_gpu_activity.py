"""device_watch: what GPUs did during an episode and before, and who shares them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from exporter.causes import Cause
from exporter.chains.gpu import Neighbour
from exporter.kernel.process_rows import ProcessRow
from exporter.kernel.tables import Tables
from exporter.pipeline.gpu_activity import GpuActivity
from tests.support.tables import FakeTables

SECOND = 1_000_000_000


@dataclass
class Gpu:
    """As the sampler has it."""

    gpu: str = "0"
    mig: str = ""
    throttled_ns: Mapping[str, int] = field(default_factory=dict)
    link_bytes_per_second: float = 0.0
    memory_total_bytes: int = 0
    process_bytes: Mapping[int, int] = field(default_factory=dict)


def processes(**tgids: int) -> dict[int, ProcessRow]:
    """Process 1, 2, ... by name and tgid."""
    kernel = FakeTables()
    for number, (comm, tgid) in enumerate(tgids.items(), start=1):
        kernel.process(number, tgid=tgid, comm=comm.encode())
    return Tables(kernel.maps).read_processes()


class Scene:
    """GPU 0, looked at four times a second. kernels: so far, by process."""

    def __init__(self, *gpus: Gpu) -> None:
        self.gpus = list(gpus)
        self.watch = GpuActivity(lambda: tuple(self.gpus))
        self.rows = processes(job=100, serve=200)
        self.kernels: dict[int, int] = {}
        self.now_ns = 0

    def go_on(self, seconds: int, *, throttled: str = "", share: float = 0.0, serve: int = 0) -> None:
        """So many seconds. throttled: by which reason, for which share of them. serve: kernels a second of process 2."""
        for _ in range(4 * seconds):
            self.now_ns += SECOND // 4
            for gpu in self.gpus if throttled else ():
                known = gpu.throttled_ns.get(throttled, 0)
                gpu.throttled_ns = {**gpu.throttled_ns, throttled: known + round(share * SECOND / 4)}
            self.kernels[2] = self.kernels.get(2, 0) + serve // 4
            self.watch.tick(self.rows, lambda: dict(self.kernels), self.now_ns)


class TestThrottling:
    """Throttling of the GPU that a process uses."""

    def test_shares_of_the_episode_and_of_the_time_before_are_apart(self) -> None:
        """Half a minute at a tenth, then five seconds at eight tenths."""
        scene = Scene(Gpu(process_bytes={100: 1}))
        scene.go_on(30, throttled="power", share=0.1)
        scene.go_on(5, throttled="power", share=0.8)

        side = scene.watch.side(1, 30 * SECOND, 35 * SECOND)
        assert (round(side.throttled, 2), round(side.throttled_before, 2), side.throttled_by) == (0.8, 0.1, "power")
        assert side.cause is Cause.GPU_THROTTLED

    def test_gpu_of_others_is_of_no_interest(self) -> None:
        """GPU 1 throttles, and the process is on GPU 0."""
        cool, hot = Gpu(process_bytes={100: 1}), Gpu(gpu="1")
        scene = Scene(cool)
        scene.go_on(10)
        scene.gpus = [cool, hot]
        hot.throttled_ns = {"thermal": 99 * SECOND}
        scene.go_on(5)

        assert scene.watch.side(1, 10 * SECOND, 15 * SECOND).cause is None

    def test_process_whose_gpu_is_not_known_has_no_side(self) -> None:
        """In a container the driver may list no processes."""
        scene = Scene(Gpu())
        scene.go_on(10, throttled="power", share=1.0)

        assert scene.watch.side(1, 5 * SECOND, 10 * SECOND).cause is None

    def test_without_a_driver_nothing_is_known(self) -> None:
        """No GPU at all."""
        scene = Scene()
        scene.go_on(10)

        assert scene.watch.side(1, 5 * SECOND, 10 * SECOND).cause is None


class TestNeighbours:
    """Others on the same GPU."""

    def test_kernels_of_a_traced_neighbour_are_counted(self) -> None:
        """None for 20 s, then 400 a second."""
        scene = Scene(Gpu(process_bytes={100: 1, 200: 1}))
        scene.go_on(20)
        scene.go_on(5, serve=400)

        assert scene.watch.side(1, 20 * SECOND, 25 * SECOND).neighbours == (Neighbour("serve", 400.0, 0.0),)

    def test_neighbour_that_is_not_traced_and_comes_is_outside(self) -> None:
        """Nothing is known of it but that it is there now."""
        scene = Scene(Gpu(process_bytes={100: 1}))
        scene.go_on(20)
        scene.gpus[0].process_bytes = {100: 1, 777: 1}
        scene.go_on(5)

        side = scene.watch.side(1, 20 * SECOND, 25 * SECOND)
        assert (side.cause, side.culprits) == (Cause.GPU_CONTENTION, (("outside", 1.0),))

    def test_one_that_was_there_before_has_not_come(self) -> None:
        """It may well be at work, but was so before."""
        scene = Scene(Gpu(process_bytes={100: 1, 777: 1}))
        scene.go_on(25)

        assert scene.watch.side(1, 20 * SECOND, 25 * SECOND).cause is None


class TestSizes:
    """What the GPUs of a process carry."""

    def test_link_and_memory_are_those_of_its_gpus(self) -> None:
        """The slower of two links, and the memory of both."""
        mine = {100: 1}
        one = Gpu(process_bytes=mine, link_bytes_per_second=25e9, memory_total_bytes=80)
        two = Gpu(gpu="1", process_bytes=mine, link_bytes_per_second=12e9, memory_total_bytes=80)
        scene = Scene(one, two, Gpu(gpu="2", link_bytes_per_second=1e9, memory_total_bytes=80))
        scene.go_on(1)

        assert (scene.watch.link_bytes_per_second(1), scene.watch.gpu_bytes(1)) == (12e9, 160)
        assert (scene.watch.link_bytes_per_second(2), scene.watch.gpu_bytes(2)) == (0.0, 0)
