"""scrape.rates: the differences of two given scrapes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter import catalog
from exporter.chains.chain import Severity
from exporter.model import Identity
from exporter.scrape.rates import ViewBuilder, view_of
from exporter.scrape.samples import Distribution, Number, Scrape
from exporter.scrape.view import CauseLoss, OpenChain, Process, Workload
from tests.support.views import BEGAN_NS, RANK_0, RANK_1, Series, counted, scrape_at

ALIVE: Series = {(RANK_0, ("4026", "trainer", *[""] * 8)): Number(1)}


def lost_at(at_seconds: float, lost: dict[str, float], since_seconds: float = 0.0) -> Scrape:
    """A scrape of rank 0 with these seconds lost by cause."""
    series: Series = {(RANK_0, (cause,)): counted(value, since_seconds) for cause, value in lost.items()}
    return scrape_at(at_seconds, {catalog.workload.INFO: ALIVE, catalog.sched.LOST: series})


def stepped_at(at_seconds: float, counts: dict[int, int], sum_seconds: float, since_seconds: float = 0.0) -> Scrape:
    """A scrape of rank 0 with these steps."""
    steps: Series = {(RANK_0, ()): Distribution(counts, sum_seconds, BEGAN_NS + round(since_seconds * 1e9))}
    return scrape_at(at_seconds, {catalog.workload.INFO: ALIVE, catalog.sched.STEP_DURATION: steps})


def only_workload(now: Scrape, before: Scrape | None = None) -> Workload:
    """The only workload."""
    (found,) = view_of(now, before).workloads
    return found


class TestLost:
    """Shares of the time between two scrapes."""

    def test_lost_share_is_lost_time_over_elapsed_time(self) -> None:
        """0.8 s of 2 s, then 0.1 s of 2 s; the largest first."""
        before = lost_at(100, {"lock": 7.0, "cpu_contention": 3.0})
        now = lost_at(102, {"lock": 7.125, "cpu_contention": 3.75})

        assert only_workload(now, before).lost == (CauseLoss("cpu_contention", 0.375), CauseLoss("lock", 0.0625))

    def test_no_more_than_all_time_is_lost(self) -> None:
        """2.5 s in the 2 s between two scrapes, since the exporter was late to read its counters for the second."""
        before, now = lost_at(100, {"lock": 7.0, "irq": 3.0}), lost_at(102, {"lock": 9.0, "irq": 3.5})
        found = only_workload(now, before)

        assert (found.lost, found.lost_share) == ((CauseLoss("lock", 0.8), CauseLoss("irq", 0.2)), 1.0)

    def test_cause_without_an_increase_is_left_out(self) -> None:
        before, now = lost_at(100, {"lock": 7.0, "irq": 1.0}), lost_at(102, {"lock": 7.0, "irq": 1.5})

        assert only_workload(now, before).lost == (CauseLoss("irq", 0.25),)

    def test_new_cause_counts_from_zero(self) -> None:
        """Its series begins with its first lost time."""
        before, now = lost_at(100, {"lock": 7.0}), lost_at(102, {"lock": 7.0, "irq": 0.5})

        assert only_workload(now, before).lost == (CauseLoss("irq", 0.25),)

    def test_first_scrape_has_the_totals_since_the_start(self) -> None:
        """10 s of the 40 s since the workload's start."""
        assert only_workload(lost_at(100, {"lock": 10.0}, since_seconds=60)).lost == (CauseLoss("lock", 0.25),)

    def test_totals_after_a_restart_of_the_exporter_count_whole(self) -> None:
        """Over the time since the restart: half a second of the last one."""
        before, now = lost_at(100, {"lock": 0.25}), lost_at(102, {"lock": 0.5}, since_seconds=101)

        assert only_workload(now, before).lost == (CauseLoss("lock", 0.5),)

    def test_counter_that_fell_was_reset(self) -> None:
        """Also without a start time."""
        before = scrape_at(100, {catalog.workload.INFO: ALIVE, catalog.sched.LOST: {(RANK_0, ("lock",)): Number(9.0)}})
        now = scrape_at(102, {catalog.workload.INFO: ALIVE, catalog.sched.LOST: {(RANK_0, ("lock",)): Number(0.5)}})

        assert only_workload(now, before).lost == (CauseLoss("lock", 0.25),)

    def test_no_lost_time_is_empty(self) -> None:
        """The counters exist."""
        found = only_workload(lost_at(102, {"lock": 7.0}), lost_at(100, {"lock": 7.0}))

        assert (found.lost, found.lost_share) == ((), 0)

    def test_lost_time_is_unknown_without_accounting(self) -> None:
        """None, not 0."""
        found = only_workload(scrape_at(100, {catalog.workload.INFO: ALIVE}))

        assert (found.lost, found.lost_share, found.step_seconds) == (None, None, None)

    def test_totals_of_a_metric_that_was_missing_are_not_an_increase(self) -> None:
        """Its collector had failed; totals of a hundred seconds are not those of two."""
        before = scrape_at(100, {catalog.workload.INFO: ALIVE})

        assert only_workload(lost_at(102, {"lock": 50.0}), before).lost is None

    def test_first_total_counts_when_its_collector_had_worked(self) -> None:
        """It had counted steps before any time was lost."""
        before = stepped_at(100, {200: 10}, 5.0)

        assert only_workload(lost_at(102, {"lock": 0.5}), before).lost == (CauseLoss("lock", 0.25),)

    def test_culprits_belong_to_their_cause(self) -> None:
        """The largest first; a cause may have none."""

        def at(seconds: float, lost: float, of_stress: float, of_others: float) -> Scrape:
            return scrape_at(
                seconds,
                {
                    catalog.workload.INFO: ALIVE,
                    catalog.sched.LOST: {
                        (RANK_0, ("cpu_contention",)): counted(lost),
                        (RANK_0, ("lock",)): counted(lost),
                    },
                    catalog.sched.CULPRIT: {
                        (RANK_0, ("cpu_contention", "other")): counted(of_others),
                        (RANK_0, ("cpu_contention", "stress-ng")): counted(of_stress),
                        (RANK_0, ("lock", "")): counted(lost),
                    },
                },
            )

        assert only_workload(at(102, 2.0, 1.5, 0.5), at(100, 1.0, 0.75, 0.25)).lost == (
            CauseLoss("cpu_contention", 0.5, (("stress-ng", 0.375), ("other", 0.125))),
            CauseLoss("lock", 0.5),
        )


class TestSteps:
    """Their mean length."""

    def test_step_length_is_the_mean_of_the_window(self) -> None:
        """Four steps in one second."""
        found = only_workload(stepped_at(102, {200: 14}, 6.0), stepped_at(100, {200: 10}, 5.0))

        assert (found.step_seconds, found.is_step_old) == (0.25, False)

    def test_last_step_length_is_kept_while_no_step_ends(self) -> None:
        """Marked as old."""
        builder = ViewBuilder()
        scrapes = [stepped_at(100, {200: 10}, 5.0), stepped_at(102, {200: 14}, 6.0), stepped_at(104, {200: 14}, 6.0)]
        (found,) = [builder.add(scrape) for scrape in scrapes][-1].workloads

        assert (found.step_seconds, found.is_step_old) == (0.25, True)

    def test_histogram_with_a_new_start_counts_whole(self) -> None:
        """Two steps of half a second, though it had more before."""
        found = only_workload(stepped_at(102, {210: 2}, 1.0, since_seconds=101), stepped_at(100, {200: 10}, 5.0))

        assert found.step_seconds == 0.5

    def test_histogram_with_a_bucket_that_fell_was_reset(self) -> None:
        """Also without a start time."""

        def at(seconds: float, counts: dict[int, int], sum_seconds: float) -> Scrape:
            steps: Series = {(RANK_0, ()): Distribution(counts, sum_seconds)}
            return scrape_at(seconds, {catalog.workload.INFO: ALIVE, catalog.sched.STEP_DURATION: steps})

        assert only_workload(at(102, {210: 2}, 1.0), at(100, {200: 10}, 5.0)).step_seconds == 0.5


class TestOperations:
    """Calls a second, their time, their quantiles."""

    def called(self, at_seconds: float, calls: int, timed: int) -> Scrape:
        """A scrape: launches of which some are timed, each takes up to 1 s (slot 240), with driver calls inside them."""
        return scrape_at(
            at_seconds,
            {
                catalog.workload.INFO: ALIVE,
                catalog.cuda.OPERATIONS: {
                    (RANK_0, ("runtime", "cudaLaunchKernel")): counted(calls),
                    (RANK_0, ("driver", "cuLaunchKernel")): counted(calls),
                },
                catalog.cuda.OPERATION_DURATION: {
                    (RANK_0, ("runtime", "cudaLaunchKernel")): Distribution({240: timed}, timed * 0.5, BEGAN_NS)
                },
                catalog.cuda.OPERATION_ERRORS: {
                    (RANK_0, ("runtime", "cudaLaunchKernel", "2")): counted(calls / 10),
                    (RANK_0, ("runtime", "cudaLaunchKernel", "700")): counted(calls / 10),
                },
                catalog.nccl.OPERATION_DURATION: {
                    (RANK_0, ("ncclAllReduce", "0")): Distribution({232: calls}, calls * 0.25, BEGAN_NS)
                },
            },
        )

    def test_all_calls_count_and_timed_ones_have_durations(self) -> None:
        """20 launches in 2 s, of which 2 are timed, with half a second each; 4 errors."""
        found = only_workload(self.called(102, 120, 12), self.called(100, 100, 10))
        launch = next(one for one in found.operations if one.name == "cudaLaunchKernel")

        assert (launch.calls_per_second, launch.busy_share, launch.errors_per_second) == (10.0, 0.5, 2.0)
        assert launch.quantiles_seconds is not None
        assert [round(quantile, 3) for quantile in launch.quantiles_seconds] == [0.958, 0.996, 0.999]

    def test_calls_without_times_have_no_quantiles(self) -> None:
        """Driver calls within runtime calls are only counted."""
        found = only_workload(self.called(102, 120, 12), self.called(100, 100, 10))
        launch = next(one for one in found.operations if one.name == "cuLaunchKernel")

        assert (launch.calls_per_second, launch.quantiles_seconds) == (10.0, None)

    def test_most_time_comes_first(self) -> None:
        """20 reductions of a quarter of a second in 2 s."""
        found = only_workload(self.called(102, 120, 12), self.called(100, 100, 10))

        assert [(one.name, one.communicator) for one in found.operations] == [
            ("ncclAllReduce", "0"),
            ("cudaLaunchKernel", ""),
            ("cuLaunchKernel", ""),
        ]

    def test_runtime_call_and_its_driver_calls_count_once(self) -> None:
        """10 launches and 10 reductions a second."""
        assert only_workload(self.called(102, 120, 12), self.called(100, 100, 10)).calls_per_second == 20

    def test_operation_without_calls_is_left_out(self) -> None:
        assert only_workload(self.called(102, 100, 10), self.called(100, 100, 10)).operations == ()


class TestWorkloads:
    """Running workloads."""

    def test_workload_without_a_process_is_left_out(self) -> None:
        """The exporter keeps its totals for a while."""
        gone = scrape_at(102, {catalog.sched.LOST: {(RANK_0, ("lock",)): counted(2.0)}})

        assert view_of(gone, lost_at(100, {"lock": 1.0})).workloads == ()

    def test_processes_of_one_identity_are_one_workload(self) -> None:
        """With their pids and names."""
        alive: Series = {
            (RANK_0, ("4027", "trainer", *[""] * 8)): Number(1),
            (RANK_0, ("4026", "python", *[""] * 8)): Number(1),
        }

        assert only_workload(scrape_at(1, {catalog.workload.INFO: alive})).processes == (
            Process("4026", "python"),
            Process("4027", "trainer"),
        )

    def test_new_workload_has_the_time_since_its_start(self) -> None:
        """Half a second of one second."""
        before, now = scrape_at(100, {}), lost_at(104, {"lock": 0.5}, since_seconds=103)

        assert only_workload(now, before).lost == (CauseLoss("lock", 0.5),)

    def test_lateness_is_the_mean_of_collectives(self) -> None:
        """One second over ten collectives, of both communicators."""

        def at(seconds: float, lag: float, collectives: int) -> Scrape:
            return scrape_at(
                seconds,
                {
                    catalog.workload.INFO: ALIVE,
                    catalog.nccl.ARRIVAL_LAG: {(RANK_0, ("0",)): counted(lag), (RANK_0, ("1",)): counted(0)},
                    catalog.nccl.ENQUEUED: {(RANK_0, (c,)): counted(collectives) for c in ("0", "1")},
                },
            )

        assert only_workload(at(102, 4.0, 15), at(100, 3.0, 10)).late_seconds == 0.1

    def test_sampling_is_the_current_gauge(self) -> None:
        sampled = {catalog.workload.INFO: ALIVE, catalog.workload.SAMPLED_PROCESSES: {(RANK_0, ()): Number(1)}}
        lost: Series = {(RANK_0, ("lock",)): counted(1.0)}

        now, before = (scrape_at(at, {**sampled, catalog.sched.LOST: lost}) for at in (102, 100))

        assert only_workload(now, before).is_sampled


class TestChains:
    """Open chains."""

    def test_severity_and_culprit_come_from_their_metrics(self) -> None:
        """The worst first; one that is resolved is left out."""
        scrape = scrape_at(
            1,
            {
                catalog.chains.ACTIVE: {
                    (RANK_0, ("lock", "gap")): Number(1),
                    (RANK_0, ("irq", "gap")): Number(0),
                    (RANK_1, ("cpu_contention", "gap")): Number(1),
                },
                catalog.chains.SEVERITY: {
                    (RANK_0, ("lock", "gap")): Number(2),
                    (RANK_0, ("irq", "gap")): Number(0),
                    (RANK_1, ("cpu_contention", "gap")): Number(4),
                },
                catalog.chains.INFO: {
                    (RANK_1, ("6f95", "cpu_contention", "stress-ng")): Number(1),
                    (RANK_0, ("77aa", "lock", "")): Number(1),
                },
                catalog.chains.LOST: {(RANK_1, ("6f95", "cpu_contention")): Number(0.48)},
                catalog.chains.LOST_AT_WORST: {(RANK_1, ("6f95", "cpu_contention")): Number(0.55)},
            },
        )

        assert view_of(scrape).chains == (
            OpenChain(RANK_1, "cpu_contention", "gap", Severity.CRITICAL, ("stress-ng",), ("6f95",), 0.48, 0.55),
            OpenChain(RANK_0, "lock", "gap", Severity.MEDIUM, (), ("77aa",)),
        )

    @pytest.mark.parametrize("cause", ["nccl_hang", "stalled"])
    def test_job_that_stands_still_loses_all_of_its_time_to_that(self, cause: str) -> None:
        """And not to the lock that its thread waits for."""
        now = lost_at(102, {"lock": 8.9})
        standing: Series = {(RANK_0, (cause, "step")): Number(1)}
        now = replace(now, numbers={**now.numbers, catalog.chains.ACTIVE.name: standing})

        assert only_workload(now, lost_at(100, {"lock": 7.0})).lost == (CauseLoss(cause, 1.0),)

    def test_unknown_severity_is_the_worst(self) -> None:
        """A later version of the exporter may have more."""
        series: Series = {(RANK_0, ("lock", "gap")): Number(9)}
        scrape = scrape_at(1, {catalog.chains.ACTIVE: series, catalog.chains.SEVERITY: series})

        assert [chain.severity for chain in view_of(scrape).chains] == [Severity.CRITICAL]


class TestNotes:
    """Reasons why figures are incomplete."""

    def test_a_quiet_exporter_with_a_workload_needs_none(self) -> None:
        assert view_of(lost_at(100, {"lock": 1.0})).notes == ()

    def test_missing_processes_are_a_note(self) -> None:
        """An empty table needs a reason."""
        assert view_of(scrape_at(1, {})).notes == ("no process has called CUDA or NCCL since the probes were attached",)

    def test_probes_that_were_removed_are_the_reason(self) -> None:
        """By SIGUSR1."""
        (note,) = view_of(scrape_at(1, {catalog.own.PROBES_ENABLED: {(None, ()): Number(0)}})).notes

        assert note.startswith("all probes were removed (SIGUSR1)")

    def test_collectors_that_failed_are_named(self) -> None:
        """One that works is not."""
        states: Series = {(None, ("nccl",)): Number(0), (None, ("cuda",)): Number(1)}
        scrape = scrape_at(1, {catalog.workload.INFO: ALIVE, catalog.own.COLLECTOR_SUCCESS: states})

        assert view_of(scrape).notes == ("failed collectors: nccl; their figures are missing or incomplete",)

    def test_records_dropped_in_the_interval_are_a_note(self) -> None:
        """Not earlier ones, and not those that a walk through /proc recovers."""

        def at(seconds: float, sched: float, watch: float) -> Scrape:
            losses: Series = {
                (None, ("sched", "thread_storage")): counted(sched),
                (None, ("cuda", "nesting")): counted(5),
                (None, ("mapping_watch", "ring_full")): counted(watch),
            }
            return scrape_at(seconds, {catalog.workload.INFO: ALIVE, catalog.own.LOSSES: losses})

        assert view_of(at(102, 9, 8), at(100, 2, 3)).notes == ("dropped records: sched thread_storage 7 times",)

    def test_missing_return_probes_are_a_note(self) -> None:
        """By the attachment kind of the build info."""
        info: Series = {(None, ("0.1.0", "3.11", "1.1", "6.12", "entry")): Number(1)}
        scrape = scrape_at(1, {catalog.workload.INFO: ALIVE, catalog.own.BUILD_INFO: info})

        assert view_of(scrape).notes == ("this kernel has no return probes: calls are counted but not timed",)


class TestView:
    """Time and order of a view."""

    def test_window_is_between_the_scrapes(self) -> None:
        """By the monotonic clock; none for the first."""
        first, second = scrape_at(100, {}), scrape_at(102.5, {})

        assert (view_of(first).window_seconds, view_of(second, first).window_seconds) == (None, 2.5)

    def test_workloads_are_ordered_by_their_labels(self) -> None:
        alive: Series = {
            (identity, ("1", "trainer", *[""] * 8)): Number(1) for identity in (RANK_1, Identity(node="gpu8"), RANK_0)
        }

        assert [one.identity for one in view_of(scrape_at(1, {catalog.workload.INFO: alive})).workloads] == [
            RANK_0,
            RANK_1,
            Identity(node="gpu8"),
        ]
