"""A job that is restarted again and again while its library is installed in every way there is: it never dies of its probes."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.exporter_process import Exporter, running
from tests.support.held_calls import fresh_rank
from tests.support.requirements import need_tracing
from tests.support.traced import eventually
from tests.support.versions import NAME, Versions, ended, made, overwrite

pytestmark = [pytest.mark.end_to_end, pytest.mark.acceptance]
OPERATIONS = "gpustall_cuda_operations_total"
CALLS = 23
PATIENT_JOBS = 30
VERSIONS = range(1, 10)


@pytest.fixture(scope="module", autouse=True)
def _possible_here() -> None:
    """Skip with a reason where something is missing."""
    need_tracing()


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> Versions:
    return Versions(tmp_path_factory.mktemp("versions"), VERSIONS)


def _cut(library: Path, content: bytes) -> None:
    """To nothing, by its path, and then written."""
    os.truncate(library, 0)
    library.write_bytes(content)


def _moved(library: Path, content: bytes) -> None:
    """As package managers do."""
    new = library.with_name("new")
    new.write_bytes(content)
    new.replace(library)


def _deleted(library: Path, content: bytes) -> None:
    library.unlink()
    library.write_bytes(content)


def _linked(library: Path, content: bytes) -> None:
    """From a cache that keeps the file, which is overwritten through its other name the next time."""
    cache = library.with_name("cache")
    if cache.exists():
        overwrite(cache, content)
        library.unlink()
    else:
        cache.write_bytes(content)
        library.unlink()
    library.hardlink_to(cache)


def _completed(library: Path, content: bytes) -> None:
    """In pieces, closed after each."""
    for end in (0, 1, 100, len(content) // 2):
        library.write_bytes(content[:end])
    with library.open("ab") as file:
        file.write(content[len(content) // 2 :])


WAYS: tuple[Callable[[Path, bytes], None], ...] = (overwrite, _cut, _moved, _deleted, _linked, _completed)


def _is_probed(tgid: int) -> bool:
    """Whether the kernel has put a breakpoint into its copy of the library's code."""
    code = re.split(rf" r-xp .*/{re.escape(NAME)}\n", Path(f"/proc/{tgid}/smaps").read_text())[1]
    found = re.search(r"^Anonymous: +(\d+) kB", code, re.MULTILINE)
    return found is not None and found[1] != "0"


class TestRestarts:
    @pytest.mark.parametrize(
        "restarts", [60, pytest.param(1_000, marks=[pytest.mark.soak, pytest.mark.timeout(3_000)])]
    )
    def test_job_never_dies_and_its_calls_are_counted(self, versions: Versions, tmp_path: Path, restarts: int) -> None:
        """Most jobs call at once, and may be seen too late; thirty or so wait until they are probed: 23 are 23."""
        chance = random.Random(restarts)
        library = versions.installed(tmp_path / "lib", 1)
        with running("--probes.discovery-interval=1s") as exporter:
            for _ in range(restarts):
                number, rank = chance.choice(VERSIONS), fresh_rank()
                chance.choice(WAYS)(library, versions.content(number))
                before = _attached(exporter, library)
                with versions.program(library, CALLS, RANK=rank) as job:
                    is_patient = chance.random() < PATIENT_JOBS / restarts
                    if is_patient:
                        eventually(
                            lambda before=before: _attached(exporter, library) > before, "all its probes are there"
                        )
                        eventually(lambda job=job: _is_probed(job.pid), "its library is probed")
                    assert made(job) == str(number)
                    if is_patient:
                        eventually(lambda rank=rank: _calls(exporter, rank) == CALLS, "23 calls are counted")
                    assert ended(job) == 0
            page = exporter.scrape()

        assert page.total("gpustall_exporter_changed_libraries_total", library="runtime") > 0
        assert page.losses() == {}


def _attached(exporter: Exporter, library: Path) -> int:
    """How often all probes of the library were attached."""
    return exporter.logs.count(f"attached to {library}: ")


def _calls(exporter: Exporter, rank: str) -> float:
    return exporter.scrape().total(OPERATIONS, rank=rank, operation="cudaEventRecord")
