"""ras: where NCCL's RAS can be queried."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.checks import ras
from exporter.checks.check import CheckState
from exporter.config import load


class TestRas:
    def test_not_wanted_has_no_check(self) -> None:
        """As by default."""
        assert list(ras.check(load({}, {}))) == []

    def test_wanted_has_one(self) -> None:
        (found,) = ras.check(replace(load({}, {}), with_ras=True))

        assert found.name == "NCCL RAS"

    @pytest.mark.parametrize(
        ("has_it", "is_allowed", "missing"),
        [(False, True, "CAP_SYS_ADMIN"), (True, False, "--collector.network.namespaces")],
    )
    def test_what_is_missing_to_enter_namespaces_is_named(self, has_it: bool, is_allowed: bool, missing: str) -> None:
        found = ras.namespaces(lambda _capability: has_it, is_allowed=is_allowed)

        assert found.state is CheckState.WARNING
        assert found.found == f"without {missing} only jobs in the exporter's own network namespace are queried"

    def test_with_both_every_job_is_queried(self) -> None:
        assert ras.namespaces(lambda _capability: True, is_allowed=True).state is CheckState.OK
