"""Thirty pages of ten faults on a node with three jobs: each page is of what fires."""

from __future__ import annotations

import pytest

from tests.support.many_pages import FAULTS, JOBS, Received, pages
from tests.support.requirements import need_command, need_tracing
from tests.support.standin_gpu import built

pytestmark = [pytest.mark.end_to_end, pytest.mark.acceptance]


@pytest.fixture(scope="module")
def paged(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], list[Received]]:
    need_tracing()
    need_command("prometheus", "prometheus")
    need_command("prometheus-alertmanager", "prometheus-alertmanager")
    built()
    found = pages(tmp_path_factory.mktemp("paging"))
    for (container, fault), received in found.items():
        print(f"\n{container or 'plain'}, {fault or 'no fault'}:")
        print(
            "".join(f"  {one.is_of_the_incident} {one.summary}\n      {one.text.splitlines()[0]}\n" for one in received)
        )
    return found


@pytest.mark.parametrize("fault", [one.name for one in FAULTS])
@pytest.mark.parametrize("container", JOBS)
def test_fault_pages_with_its_own_incident(
    paged: dict[tuple[str, str], list[Received]], container: str, fault: str
) -> None:
    """The title, the job, and what the command prints first when it is pasted."""
    received = paged[container, fault]

    assert received
    assert all(one.is_of_the_incident for one in received)
