"""Scenes of episodes with a fault from outside of the job: where the job runs, and what disturbs it there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from tests.faults.episode import Scene
from tests.faults.injectors import cgroups, cpu, decoys, disk, gpu, interrupts, memory, network, quota, signals
from tests.faults.job import Job, Place

MIB = 1 << 20
HOGS_PER_CPU = 2
QUOTA_PERCENT = 40
DISK_BYTES = 64 * MIB
READ_BYTES = 256 << 10
SLOW_BYTES_PER_SECOND = 8 * MIB
FLOODING_READERS = 8
FLOODED_BYTES = 128 * MIB
CACHED_BYTES = 128 * MIB
TOUCHED_BYTES = 16 * MIB
KILLED_BYTES = 128 * MIB
SPARE_BYTES = 64 * MIB  # for the neighbour's pages: when too few can be reclaimed, the kernel kills instead
STOPPED_SECONDS = 0.5
MAPPED_PAGES = 128
STORM_SHARE = 0.5
FETCH_BYTES = 256 << 10
LATE_SECONDS = 0.02
TOOL_SECONDS = 2.0
LOST_ONE_OF = 15


@contextmanager
def small_share() -> Iterator[cgroups.Group]:
    """A group for the job that has a fifth of the CPUs when a group of the usual weight wants the others."""
    with cgroups.group("cpu", "job") as job:
        if job.version == 1:
            job.write("cpu.shares", 1024 // 4)
        else:
            job.write("cpu.weight", 100 // 4)
        yield job


@contextmanager
def neighbours(per_cpu: float = HOGS_PER_CPU) -> Iterator[Scene]:
    """Two hogs for each CPU, in a control group beside the job's."""
    count = round(per_cpu * len(os.sched_getaffinity(0)))
    with small_share() as job:
        yield Scene(place=Place((job.path,)), injector=lambda _: cpu.hogs(count))


@contextmanager
def own_quota(percent: int = QUOTA_PERCENT) -> Iterator[Scene]:
    """The job's own group may use so much of a CPU."""
    with cgroups.group("cpu", "job") as job:
        yield Scene(place=Place((job.path,)), injector=lambda _: quota.quota(job, percent))


@contextmanager
def quota_and_neighbours() -> Iterator[Scene]:
    """Both at once."""
    count = HOGS_PER_CPU * len(os.sched_getaffinity(0))
    with small_share() as job:

        @contextmanager
        def both(_: Job) -> Iterator[None]:
            with quota.quota(job, QUOTA_PERCENT), cpu.hogs(count):
                yield

        yield Scene(place=Place((job.path,)), injector=both)


@contextmanager
def slow_disk(bytes_per_second: int = SLOW_BYTES_PER_SECOND) -> Iterator[Scene]:
    """The loader reads 256 KiB for each batch from a disk that becomes so slow."""
    with cgroups.group("blkio", "job") as job, disk.loop_device(DISK_BYTES) as device:
        yield Scene(
            flags=("--loader-direct", f"--loader-file={device}", f"--loader-read-bytes={READ_BYTES}"),
            place=Place((job.path,)),
            injector=lambda _: disk.slow_reads(job, device, bytes_per_second),
        )


@contextmanager
def flooded_disk(readers: int = FLOODING_READERS) -> Iterator[Scene]:
    """The loader reads 256 KiB for each batch from a disk that others read all the time."""
    with disk.file_of(DISK_BYTES) as path, disk.file_of(FLOODED_BYTES) as others:
        yield Scene(
            flags=("--loader-direct", f"--loader-file={path}", f"--loader-read-bytes={READ_BYTES}"),
            injector=lambda _: disk.flood(others, readers),
        )


@contextmanager
def full_group(touched_bytes: int = TOUCHED_BYTES) -> Iterator[Scene]:
    """The step thread needs so much new memory in each step, in a group that a writer keeps full."""
    with cgroups.group("memory", "job") as job, disk.file_of(MIB) as path:
        yield Scene(
            flags=(f"--touch-bytes={touched_bytes}",),
            place=Place((job.path,)),
            injector=lambda _: memory.reclaim(job, path, touched_bytes + SPARE_BYTES),
        )


@contextmanager
def killed_by_limit(touched_bytes: int = KILLED_BYTES) -> Iterator[Scene]:
    """The step thread needs so much new memory in each step, of which its control group suddenly may have a small part."""
    with cgroups.group("memory", "job") as job:
        yield Scene(
            flags=(f"--touch-bytes={touched_bytes}",),
            place=Place((job.path,)),
            injector=lambda _: memory.oom_kill(job),
        )


@contextmanager
def pages_gone(pages: int = MAPPED_PAGES) -> Iterator[Scene]:
    """The step thread reads so many pages of a mapped file in each step, of which three quarters no longer fit for a while."""
    with cgroups.group("memory", "job") as job, disk.file_of(CACHED_BYTES) as path:
        disk.forget_pages(path)
        memory.fill_cache(job, path)

        @contextmanager
        def gone(_: Job) -> Iterator[None]:
            with memory.limit(job, memory.used_bytes(job) - CACHED_BYTES * 3 // 4):
                yield
            memory.fill_cache(job, path)

        yield Scene(
            flags=(f"--map-file={path}", f"--map-bytes={pages * 4096}"),
            place=Place((job.path,)),
            injector=gone,
        )


@contextmanager
def loader_file() -> Iterator[Scene]:
    """A file for the loader, in the page cache."""
    with disk.file_of(CACHED_BYTES) as path:
        yield Scene(flags=(f"--loader-file={path}",))


@contextmanager
def stop(seconds: float = STOPPED_SECONDS) -> Iterator[Scene]:
    """Rank 0 is stopped for so long."""

    def stopped(job: Job) -> AbstractContextManager[None]:
        return signals.stopped(job.rank_tgid(0), seconds)

    yield Scene(injector=stopped)


@contextmanager
def hogs_elsewhere() -> Iterator[Scene]:
    """The job has CPU 0 for itself, the hogs have the others."""
    own, others = decoys.one_cpu_of_two(len(os.sched_getaffinity(0)))
    yield Scene(place=Place(cpus=own), injector=lambda _: decoys.hogs_elsewhere(2, others))


@contextmanager
def unrelated_reads() -> Iterator[Scene]:
    """A neighbour reads a disk that the job has nothing to do with."""
    with disk.loop_device(DISK_BYTES) as device:
        yield Scene(injector=lambda _: decoys.unrelated_reads(device))


@contextmanager
def weak_hogs() -> Iterator[Scene]:
    """The job and hogs of the lowest priority share CPU 0."""
    own, _ = decoys.one_cpu_of_two(len(os.sched_getaffinity(0)))
    yield Scene(place=Place(cpus=own), injector=lambda _: decoys.weak_hogs(2, own))


@contextmanager
def crowd() -> Iterator[Scene]:
    """As many hogs as for a real contention."""
    count = HOGS_PER_CPU * len(os.sched_getaffinity(0))
    yield Scene(injector=lambda _: cpu.hogs(count))


@contextmanager
def irq_storm(share: float = STORM_SHARE) -> Iterator[Scene]:
    """Soft interrupts take this share of CPU 0, which is the job's only one."""
    own, others = decoys.one_cpu_of_two(len(os.sched_getaffinity(0)))
    yield Scene(place=Place(cpus=own), injector=lambda _: interrupts.storm(int(own), others, share))


@contextmanager
def slow_peer(late_seconds: float = LATE_SECONDS) -> Iterator[Scene]:
    """Each batch comes from a server, which then answers so much later."""
    with network.server() as server:
        yield Scene(
            flags=(*server.flags, f"--loader-fetch-bytes={FETCH_BYTES}"),
            injector=lambda _: server.late(late_seconds),
        )


@contextmanager
def tool_call(seconds: float = TOOL_SECONDS) -> Iterator[Scene]:
    """Each batch comes from a server, one of whose answers takes so long."""
    with network.server() as server:
        yield Scene(
            flags=(*server.flags, f"--loader-fetch-bytes={FETCH_BYTES}"),
            injector=lambda _: server.once_late(seconds),
        )


@contextmanager
def tcp_loss(one_of: int = LOST_ONE_OF) -> Iterator[Scene]:
    """Each batch comes through a wire that then loses one packet of so many, either way."""
    with (
        network.wire() as wire,
        network.server(network.PEER_ADDRESS, wire.peer) as server,
        network.dropper(one_of) as program,
    ):
        yield Scene(
            flags=(*server.flags, f"--loader-fetch-bytes={FETCH_BYTES}"),
            place=Place(namespace=wire.own),
            injector=lambda _: network.loss(program, wire.own, wire.peer),
        )


@contextmanager
def throttled_gpu() -> Iterator[Scene]:
    """The driver says that it holds the clocks down."""
    with gpu.driver() as driver:
        yield Scene(injector=driver.throttling)


@contextmanager
def shared_gpu() -> Iterator[Scene]:
    """The driver says that another program uses the GPU, and that one launches kernels."""
    with gpu.driver() as driver:
        yield Scene(injector=driver.shared)
