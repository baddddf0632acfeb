"""collectors: which of them run."""

from __future__ import annotations

import pytest

from exporter.config.collectors import COLLECTORS, CollectorSettings
from exporter.errors import BadInput


class TestEnabled:
    def test_all_by_default_in_a_fixed_order(self) -> None:
        assert CollectorSettings().enabled == COLLECTORS

    def test_disabled_one_is_left_out(self) -> None:
        assert CollectorSettings(nccl=False).enabled == tuple(name for name in COLLECTORS if name != "nccl")

    def test_chains_need_sched(self) -> None:
        assert {"sched", "chains"} & set(CollectorSettings(sched=False).enabled) == set()

    def test_cuda_or_nccl_is_required(self) -> None:
        with pytest.raises(BadInput, match="no calls would be traced"):
            CollectorSettings(cuda=False, nccl=False)
