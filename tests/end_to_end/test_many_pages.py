"""Thirty pages of ten faults on a node with three jobs: each page is of what fires."""

from __future__ import annotations

import pytest

from tests.support.many_pages import FAULTS, JOBS, Received, pages
from tests.support.requirements import need_command, need_tracing
from tests.support.standin_gpu import built

pytestmark = [pytest.mark.end_to_end, pytest.mark.acceptance]


@pytest.fixture(scope="module")
def received(tmp_path_factory: pytest.TempPathFactory) -> list[Received]:
    need_tracing()
    need_command("prometheus", "prometheus")
    need_command("prometheus-alertmanager", "prometheus-alertmanager")
    built()
    found = pages(tmp_path_factory.mktemp("paging"))
    for one in found:
        is_right = f"{one.is_of_what_fires} {one.is_of_the_fault}"
        print(
            f"\n{one.container or 'plain'}, {one.fault.name}: {is_right} {one.summary}\n    {one.text.splitlines()[0]}"
        )
    return found


def test_every_page_is_of_what_fires(received: list[Received]) -> None:
    """The title, the job, and what its command prints first when it is pasted."""
    assert [one.summary for one in received if not one.is_of_what_fires] == []


@pytest.mark.parametrize("fault", [one.name for one in FAULTS])
@pytest.mark.parametrize("container", JOBS)
def test_fault_pages(received: list[Received], container: str, fault: str) -> None:
    assert any(one.is_of_the_fault for one in received if (one.container, one.fault.name) == (container, fault))
