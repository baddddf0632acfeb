"""sampled_gpu: delays after failures. What happens to one GPU in a round is in test_sampler.py."""

from __future__ import annotations

import pytest

from exporter.gpu.sampled_gpu import SamplerTiming

SECOND = 1_000_000_000


class TestRetryDelay:
    @pytest.mark.parametrize(
        ("failures", "seconds"), [(1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (8, 60), (1_000_000, 60)]
    )
    def test_delay_doubles_up_to_the_last(self, failures: int, seconds: int) -> None:
        timing = SamplerTiming(first_retry_seconds=1.0, last_retry_seconds=60.0)

        assert timing.retry_ns(failures) == seconds * SECOND
