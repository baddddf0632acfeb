"""`run` beside a program of another user that takes all it can: other jobs keep their names, their counts and their page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.faults.injectors import NotPossible, disk
from tests.support import crowds, greedy
from tests.support.exporter_process import Exporter, running
from tests.support.exposition import Scrape
from tests.support.greedy import OTHER_USER
from tests.support.requirements import need_tracing
from tests.support.traced import eventually

pytestmark = pytest.mark.end_to_end
CALLS = "gpustall_cuda_operations_total"
ERRORS = "gpustall_cuda_operation_errors_total"
ALLOCATED = "gpustall_cuda_memory_allocated_bytes_total"
REFUSED = "gpustall_exporter_refused_total"
DISK_REQUESTS = "gpustall_block_device_duration_seconds"
PAGE_BYTES = 4_000_000


@pytest.fixture(scope="module", autouse=True)
def _possible_here() -> None:
    """Skip with a reason where something is missing."""
    need_tracing()


@pytest.fixture(scope="module")
def program() -> Iterator[Path]:
    with greedy.compiled_with_libraries() as found:
        yield found


def _of(scrape: Scrape, metric: str, **labels: str) -> dict[str, float]:
    """`rank container` -> the sum of the series with these labels."""
    found: dict[str, float] = {}
    for sample in scrape.matching(metric, **labels):
        key = f"{sample.labels['rank']} {sample.labels['container']}".strip()
        found[key] = found.get(key, 0) + sample.value
    return found


@contextmanager
def _probed(program: Path, *flags: str) -> Iterator[Exporter]:
    """An exporter that has found the program's libraries."""
    with running(*flags) as exporter, greedy.running(program):
        eventually(lambda: exporter.logs.count(f"attached to {program.parent}/") == 2, "both libraries are probed")
        yield exporter


class TestNames:
    def test_rank_of_another_user_is_not_added_to(self, program: Path) -> None:
        """Root has rank 0; then another user claims it, with sizes that no machine has and one that some have."""
        with _probed(program) as exporter, greedy.running(program, "allocations", "23", rank=0):
            eventually(
                lambda: _of(exporter.scrape(), CALLS, operation="cudaMalloc") == {"0": 23}, "the job is exported"
            )
            separate = {"0": 23 * 4096, f"0 uid {OTHER_USER}": 7 * 4096}
            with greedy.running(program, "huge", "3", "allocations", "7", user=OTHER_USER, rank=0):
                eventually(lambda: _of(exporter.scrape(), ALLOCATED) == separate, "both are exported, each as its own")
                scrape = exporter.scrape()

            assert scrape.total(REFUSED, resource="claimed_labels", owner=f"uid {OTHER_USER}") == 1
            assert f"limit reached: labels already in use for uid {OTHER_USER}" in exporter.logs

    def test_user_with_more_ranks_than_there_are_places_leaves_some_to_others(self, program: Path) -> None:
        """Each of its processes has a rank of its own and fails in 200 ways."""
        with _probed(program, "--series.max-workloads=64") as exporter, ExitStack() as jobs:
            for rank in range(80):
                jobs.enter_context(greedy.running(program, "errors", "200", user=OTHER_USER, rank=rank))
            eventually(lambda: "other other" in _of(exporter.scrape(), CALLS), "all places are taken")
            for rank in range(4):
                jobs.enter_context(greedy.running(program, "allocations", "23", "errors", "2", rank=rank))
            own = {f"{rank} uid 0": 23.0 for rank in range(4)}
            eventually(lambda: _of(exporter.scrape(), CALLS, operation="cudaMalloc") == own, "the job is exported")
            body = exporter.get().body
            scrape = exporter.scrape()

            errors = _of(scrape, ERRORS)
            assert [errors[f"{rank} uid 0"] for rank in range(4)] == [2, 2, 2, 2]
            assert sum(errors.values()) <= 80 * 200 + 4 * 2  # series of ranks that have lost their places have ended
            assert len(body) <= PAGE_BYTES
            assert scrape.total(REFUSED, resource="workloads", owner=f"uid {OTHER_USER}") >= 16
            assert scrape.total(REFUSED, resource="series", owner=f"uid {OTHER_USER}") >= 60 * (200 - 32)


@pytest.mark.whole_machine  # its groups fill the tables of every exporter of the machine
class TestControlGroups:
    def test_disk_of_another_is_counted_beside_a_user_with_more_groups_than_rows(self) -> None:
        """The user reads once in each of 3,000 groups, which on ordinary machines is more than all rows."""
        with ExitStack() as stack:
            try:
                own, other = (stack.enter_context(disk.loop_device(1 << 20)) for _ in range(2))
                greedy_user = stack.enter_context(crowds.crowd("blkio", "greedy", OTHER_USER))
                patient = stack.enter_context(crowds.crowd("blkio", "patient", 0))
            except NotPossible as reason:
                pytest.skip(str(reason))
            exporter = stack.enter_context(running())
            stack.enter_context(greedy_user.acting("reads", other, groups=3000, times=1))
            stack.enter_context(patient.acting("reads", own, groups=1, times=23))
            requests = {"device": own.name, "direction": "read"}
            eventually(lambda: exporter.scrape().total(f"{DISK_REQUESTS}_count", **requests) >= 23, "they are counted")
            scrape = exporter.scrape()

            assert scrape.total(f"{DISK_REQUESTS}_count", **requests) == 23
            assert scrape.total(REFUSED, resource="disks", owner=f"uid {OTHER_USER}") > 0
            assert f"limit reached: disks for uid {OTHER_USER}" in exporter.logs
