"""faults.trials.plan: what a seed chooses."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.faults.shapes.shape import InsideFault, Shape
from tests.faults.trials.extra import Extra
from tests.faults.trials.fault import OutsideFault
from tests.faults.trials.outside.registry import OUTSIDE
from tests.faults.trials.plan import (
    FAULT_SECONDS,
    GAP_SECONDS,
    SHARES,
    PlannedFault,
    PlannedTrial,
    Planner,
    accepted,
    is_decoy,
)

LOOP = Shape("loop", "", ("python3",), 0.04, frozenset({InsideFault.SLEEP, InsideFault.BATCH_SIZE}))
RANKS = Shape("ranks", "", ("python3",), 0.04, frozenset({InsideFault.HANG}), ranks=2)
COMPILED = Shape("compiled", "", ("loop",), 0.04, frozenset(), source="loop.cc")
SHAPES = (LOOP, RANKS, COMPILED)
COUNT = 300


def planned(seed: int = 1, count: int = COUNT, shapes: tuple[Shape, ...] = SHAPES) -> list[PlannedTrial]:
    """As many trials."""
    return list(Planner(seed, shapes, OUTSIDE).trials(count))


class TestPlanner:
    """Trials of a seed."""

    def test_equal_seeds_choose_equal_trials(self) -> None:
        """A failure can be run again."""
        assert planned(7) == planned(7)
        assert planned(7) != planned(8)

    def test_shorter_plan_is_the_begin_of_a_longer_one(self) -> None:
        """So that a first look at a seed is worth something."""
        assert planned(count=10) == planned(count=40)[:10]

    def test_half_of_the_trials_are_decoys(self) -> None:
        """Nothing at all is one as well."""
        decoys = [one for one in planned() if is_decoy(one.faults, OUTSIDE)]

        assert len(decoys) == COUNT // 2

    def test_every_shape_has_as_many_trials(self) -> None:
        """100 of 300 each."""
        assert set(Counter(one.shape for one in planned()).values()) == {100}

    def test_strengths_and_lengths_are_within_their_bounds(self) -> None:
        """10 to 300 %, 8 to 20 seconds."""
        shares = [fault.share for one in planned() for fault in one.faults]

        assert SHARES[0] <= min(shares) < 0.15
        assert 2 < max(shares) <= SHARES[1]
        assert all(FAULT_SECONDS[0] <= one.fault_seconds <= FAULT_SECONDS[1] for one in planned())

    def test_fault_from_inside_is_one_that_the_shape_offers(self) -> None:
        """And it is of one of its ranks."""
        inside = {(one.shape, fault.name, fault.rank) for one in planned() for fault in one.faults if fault.is_inside}

        assert inside == {("loop", "sleep", 0), ("loop", "batch-size", 0), ("ranks", "hang", 0), ("ranks", "hang", 1)}

    def test_compiled_program_does_nothing_besides(self) -> None:
        """So no fault is chosen that only a reader of files would feel."""
        assert {one.extra for one in planned() if one.shape == "compiled"} == {Extra.NONE}

    def test_job_has_the_extra_that_its_fault_needs(self) -> None:
        """A stopped reader of a log needs a log."""
        trials = list(Planner(1, SHAPES, OUTSIDE).only("stopped-log-reader", 4))

        assert {one.extra for one in trials} == {Extra.LOG}
        assert [one.shape for one in trials] == ["loop", "ranks", "loop", "ranks"]

    def test_second_fault_needs_nothing_of_the_job(self) -> None:
        """It is put on top of the first one."""
        second = [OUTSIDE[one.faults[1].name] for one in planned() if len(one.faults) == 2]

        assert second
        assert all(fault.extra is None and not fault.is_of_one_cpu for fault in second)

    def test_job_of_several_ranks_has_all_cpus(self) -> None:
        """It would wait for itself."""
        assert {one.cpus for one in planned() if one.shape == "ranks"} == {""}
        assert {one.cpus for one in planned() if one.shape == "loop"} == {"", "0"}


class TestSequences:
    """Faults and decoys one behind the other in one job."""

    PLANNED = tuple(Planner(1, SHAPES, OUTSIDE).sequences(COUNT))

    def test_each_has_six_to_twelve_half_of_them_decoys(self) -> None:
        """With a gap behind each."""
        lengths = {len(one.faults) for one in self.PLANNED}
        faults = [fault for one in self.PLANNED for fault in one.faults]
        decoys = sum(is_decoy((fault,), OUTSIDE) for fault in faults)

        assert lengths == set(range(6, 13))
        assert 0.45 < decoys / len(faults) < 0.55
        assert {one.gap_seconds for one in self.PLANNED} == {GAP_SECONDS}

    def test_job_does_and_has_what_all_of_its_faults_need(self) -> None:
        """A job has one place for its whole life."""
        for one in self.PLANNED:
            for fault in one.faults:
                if not fault.is_inside:
                    needs = OUTSIDE[fault.name]
                    assert needs.extra in (None, one.extra)
                    assert one.cpus or not needs.is_of_one_cpu
                    assert not (one.cpus and needs.is_of_all_cpus)

    def test_part_is_a_trial_of_one_fault(self) -> None:
        """Named as that of a trial is."""
        (first, *_) = self.PLANNED

        assert first.name == f"1-000-{first.shape}-{len(first.faults)}-in-sequence"
        assert first.part(1).faults == first.faults[1:2]
        assert first.part(1).name == f"1-000-{first.shape}-{first.faults[1].name}"


class TestRegistry:
    """Faults and decoys from outside."""

    def test_make_faults_installs_what_they_need(self) -> None:
        """FAULT_NEEDS of the Makefile names it."""
        makefile = (Path(__file__).parents[3] / "Makefile").read_text(encoding="utf-8")

        assert [need for fault in OUTSIDE.values() for need in fault.needs if need not in makefile] == []

    def test_as_many_decoys_as_faults(self) -> None:
        """Within a few."""
        kinds = Counter(fault.is_decoy for fault in OUTSIDE.values())

        assert abs(kinds[True] - kinds[False]) <= 3

    def test_decoy_has_no_culprit(self) -> None:
        """No program is to be named."""
        assert not any(fault.culprits for fault in OUTSIDE.values() if fault.is_decoy)

    def test_culprit_is_a_comm(self) -> None:
        """At most 15 characters, as the kernel keeps them."""
        assert [name for fault in OUTSIDE.values() for name in fault.culprits if len(name) > 15] == []

    def test_no_name_is_that_of_a_fault_from_inside(self) -> None:
        """A name says where to look."""
        assert not OUTSIDE.keys() & set(InsideFault)

    def test_causes_of_two_faults_are_all_right(self) -> None:
        """Whichever the engine finds first."""
        both = {
            name: OutsideFault(name, "", frozenset({cause}), lambda _job, _share: nullcontext())
            for name, cause in (("a", "irq"), ("b", "lock"))
        }
        faults = next(Planner(1, (LOOP,), both).only("a", 1)).faults

        assert accepted(faults, both) == {"irq"}
        assert accepted(faults, both, ranks=4) == {"irq"}
        assert accepted((*faults, *next(Planner(1, (LOOP,), both).only("b", 1)).faults), both) == {"irq", "lock"}

    @pytest.mark.parametrize(
        ("name", "ranks", "right"),
        [
            ("gc", 1, {"own_code"}),
            ("gc", 2, {"own_code", "slow_rank"}),
            ("worker-sleeps", 2, {"dataloader"}),
            ("batch-size", 2, {"changed"}),
        ],
    )
    def test_rank_that_does_more_than_the_others_is_late(self, name: str, ranks: int, right: set[str]) -> None:
        """Where the host is not the reason."""
        assert accepted((PlannedFault(name, 1.0, True),), {}, ranks) == right
