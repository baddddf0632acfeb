"""What holds for every test: the same examples and the same random numbers in each run; capabilities and bytecode are kept."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

from exporter.host import capabilities
from tests.support import sweep

sweep.begin_run()

# A busy machine is no defect: no deadline. Other examples each time belong to `make acceptance`.
settings.register_profile("gate", deadline=None, derandomize=True, database=None)
settings.register_profile("random", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "gate"))

# Hundreds of tests start a program, and each start would compile all of its modules again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Of tests/kernel and tests/end_to_end, those that take half a minute and more: workers that run side by side begin with them.
LONGEST_FIRST = (
    *(
        "test_cgroup_namespaces.py",
        "test_least_privilege.py",
        "test_hostile_files.py",
        "test_hung_files.py",
        "test_check.py",
    ),
    *(
        "test_bad_input.py",
        "test_completion.py",
        "test_history.py",
        "test_cluster.py",
        "test_loading.py",
        "test_run.py",
    ),
    *(
        "test_one_file.py",
        "test_cuda.py",
        "test_nccl_progress.py",
        "test_denied_calls.py",
        "test_churn.py",
        "test_push.py",
    ),
    *("test_web.py", "test_switched_off.py", "test_serve.py", "test_names.py", "test_prometheus.py", "test_record.py"),
    *("test_fleet.py", "test_evidence.py", "test_engine.py", "test_killed.py", "test_shares.py", "test_top.py"),
)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ranks = {name: rank for rank, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: ranks.get(item.path.name, len(ranks)))


@pytest.fixture(autouse=True)
def _random_numbers_are_the_same() -> None:
    random.seed(20_261_128)


@pytest.fixture(autouse=True)
def _capabilities_are_kept() -> Iterator[None]:
    """A test that drops capabilities in this process would take them from all tests after it."""
    before = capabilities.effective()
    yield
    assert capabilities.effective() == before
