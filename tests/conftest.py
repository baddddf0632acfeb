"""What holds for every test: hypothesis has no deadline, since a busy machine is no defect; capabilities are kept."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from exporter.host import capabilities

settings.register_profile("gpustall", deadline=None)
settings.load_profile("gpustall")


# Of tests/kernel and tests/end_to_end, those that take half a minute and more: workers that run side by side begin with them.
LONGEST_FIRST = (
    *("test_seccomp.py", "test_one_file.py", "test_push.py", "test_history.py", "test_paging.py", "test_cuda.py"),
    *(
        "test_nccl_progress.py",
        "test_confirm.py",
        "test_boards.py",
        "test_engine.py",
        "test_chains.py",
        "test_check.py",
    ),
    *("test_top.py", "test_one_call_once.py", "test_prometheus.py", "test_least_privilege.py"),
)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ranks = {name: rank for rank, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: ranks.get(item.path.name, len(ranks)))


@pytest.fixture(autouse=True)
def _capabilities_are_kept() -> Iterator[None]:
    """A test that drops capabilities in this process would take them from all tests after it."""
    before = capabilities.effective()
    yield
    assert capabilities.effective() == before
