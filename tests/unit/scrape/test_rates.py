"""rates: two scrapes that are written down here, and what happened in between."""

from __future__ import annotations

from exporter import catalog
from exporter.chains.chain import Severity
from exporter.model import Identity
from exporter.scrape.rates import Observer, view_of
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
    """The one that there is."""
    (found,) = view_of(now, before).workloads
    return found


class TestLost:
    """Shares of the time between two scrapes."""

    def test_it_is_what_was_lost_meanwhile_over_the_time(self) -> None:
        """0.8 s of 2 s, then 0.1 s of 2 s; the most first."""
        before = lost_at(100, {"lock": 7.0, "cpu_contention": 3.0})
        now = lost_at(102, {"lock": 7.125, "cpu_contention": 3.75})

        assert only_workload(now, before).lost == (CauseLoss("cpu_contention", 0.375), CauseLoss("lock", 0.0625))

    def test_a_cause_that_did_nothing_is_left_out(self) -> None:
        """Its total is of before."""
        before, now = lost_at(100, {"lock": 7.0, "irq": 1.0}), lost_at(102, {"lock": 7.0, "irq": 1.5})

        assert only_workload(now, before).lost == (CauseLoss("irq", 0.25),)

    def test_a_cause_that_is_new_counts_from_nothing(self) -> None:
        """Its series begins with its first second."""
        before, now = lost_at(100, {"lock": 7.0}), lost_at(102, {"lock": 7.0, "irq": 0.5})

        assert only_workload(now, before).lost == (CauseLoss("irq", 0.25),)

    def test_a_first_scrape_counts_since_the_counting_began(self) -> None:
        """10 s of the 40 s that the workload is known."""
        assert only_workload(lost_at(100, {"lock": 10.0}, since_seconds=60)).lost == (CauseLoss("lock", 0.25),)

    def test_an_exporter_that_was_restarted_has_counted_anew(self) -> None:
        """What it has is all of its own, and of its time: half a second of the last one."""
        before, now = lost_at(100, {"lock": 0.25}), lost_at(102, {"lock": 0.5}, since_seconds=101)

        assert only_workload(now, before).lost == (CauseLoss("lock", 0.5),)

    def test_a_counter_that_went_back_has_begun_anew(self) -> None:
        """Also where nobody says when."""
        before = scrape_at(100, {catalog.workload.INFO: ALIVE, catalog.sched.LOST: {(RANK_0, ("lock",)): Number(9.0)}})
        now = scrape_at(102, {catalog.workload.INFO: ALIVE, catalog.sched.LOST: {(RANK_0, ("lock",)): Number(0.5)}})

        assert only_workload(now, before).lost == (CauseLoss("lock", 0.25),)

    def test_nothing_lost_is_known_to_be_nothing(self) -> None:
        """The counters are there."""
        found = only_workload(lost_at(102, {"lock": 7.0}), lost_at(100, {"lock": 7.0}))

        assert (found.lost, found.lost_share) == ((), 0)

    def test_without_accounting_nothing_is_known(self) -> None:
        """None, not 0."""
        found = only_workload(scrape_at(100, {catalog.workload.INFO: ALIVE}))

        assert (found.lost, found.lost_share, found.step_seconds) == (None, None, None)

    def test_a_metric_that_was_missing_altogether_is_not_all_news(self) -> None:
        """Its collector had failed; the totals of a hundred seconds are not those of two."""
        before = scrape_at(100, {catalog.workload.INFO: ALIVE})

        assert only_workload(lost_at(102, {"lock": 50.0}), before).lost is None

    def test_the_first_of_a_metric_is_news_where_its_collector_was_at_work(self) -> None:
        """It had counted steps before anything was lost."""
        before = stepped_at(100, {200: 10}, 5.0)

        assert only_workload(lost_at(102, {"lock": 0.5}), before).lost == (CauseLoss("lock", 0.25),)

    def test_culprits_stand_with_their_cause(self) -> None:
        """The worst first; a cause without one has none."""

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

    def test_it_is_that_of_the_steps_in_between(self) -> None:
        """Four steps in one second."""
        found = only_workload(stepped_at(102, {200: 14}, 6.0), stepped_at(100, {200: 10}, 5.0))

        assert (found.step_seconds, found.is_step_old) == (0.25, False)

    def test_the_last_one_stays_while_none_ends(self) -> None:
        """Marked as old."""
        observer = Observer()
        scrapes = [stepped_at(100, {200: 10}, 5.0), stepped_at(102, {200: 14}, 6.0), stepped_at(104, {200: 14}, 6.0)]
        (found,) = [observer.view_of(scrape) for scrape in scrapes][-1].workloads

        assert (found.step_seconds, found.is_step_old) == (0.25, True)

    def test_a_histogram_that_began_anew_counts_whole(self) -> None:
        """Two steps of half a second, though it had more before."""
        found = only_workload(stepped_at(102, {210: 2}, 1.0, since_seconds=101), stepped_at(100, {200: 10}, 5.0))

        assert found.step_seconds == 0.5

    def test_a_bucket_that_went_back_is_a_new_beginning(self) -> None:
        """Also where nobody says when."""

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

    def test_all_calls_count_and_the_timed_ones_take_time(self) -> None:
        """20 launches in 2 s, of which 2 are timed, with half a second each; 4 errors."""
        found = only_workload(self.called(102, 120, 12), self.called(100, 100, 10))
        launch = next(one for one in found.operations if one.name == "cudaLaunchKernel")

        assert (launch.calls_per_second, launch.busy_share, launch.errors_per_second) == (10.0, 0.5, 2.0)
        assert launch.quantiles_seconds is not None
        assert [round(quantile, 3) for quantile in launch.quantiles_seconds] == [0.958, 0.996, 0.999]

    def test_calls_without_times_have_no_quantiles(self) -> None:
        """Driver calls inside of runtime calls are only counted."""
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

    def test_a_call_of_the_runtime_and_those_inside_of_it_are_one(self) -> None:
        """10 launches and 10 reductions a second."""
        assert only_workload(self.called(102, 120, 12), self.called(100, 100, 10)).calls_per_second == 20

    def test_what_was_not_called_is_left_out(self) -> None:
        """Its totals are of before."""
        assert only_workload(self.called(102, 100, 10), self.called(100, 100, 10)).operations == ()


class TestWorkloads:
    """Who is there."""

    def test_one_without_a_process_has_gone(self) -> None:
        """Its totals stay with the exporter for a while."""
        gone = scrape_at(102, {catalog.sched.LOST: {(RANK_0, ("lock",)): counted(2.0)}})

        assert view_of(gone, lost_at(100, {"lock": 1.0})).workloads == ()

    def test_processes_of_one_identity_are_one_workload(self) -> None:
        """With their numbers and names."""
        alive: Series = {
            (RANK_0, ("4027", "trainer", *[""] * 8)): Number(1),
            (RANK_0, ("4026", "python", *[""] * 8)): Number(1),
        }

        assert only_workload(scrape_at(1, {catalog.workload.INFO: alive})).processes == (
            Process("4026", "python"),
            Process("4027", "trainer"),
        )

    def test_a_workload_that_came_meanwhile_has_the_time_since_then(self) -> None:
        """Half a second of the one second that it is known."""
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

    def test_sampling_is_as_it_is_now(self) -> None:
        """A gauge, of which no difference is made."""
        sampled = {catalog.workload.INFO: ALIVE, catalog.workload.SAMPLED_PROCESSES: {(RANK_0, ()): Number(1)}}
        lost: Series = {(RANK_0, ("lock",)): counted(1.0)}

        now, before = (scrape_at(at, {**sampled, catalog.sched.LOST: lost}) for at in (102, 100))

        assert only_workload(now, before).is_sampled


class TestChains:
    """Those that are open."""

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
            },
        )

        assert view_of(scrape).chains == (
            OpenChain(RANK_1, "cpu_contention", "gap", Severity.CRITICAL, ("stress-ng",), ("6f95",)),
            OpenChain(RANK_0, "lock", "gap", Severity.MEDIUM, (), ("77aa",)),
        )

    def test_a_severity_that_nobody_knows_is_the_worst(self) -> None:
        """Of a later version, perhaps."""
        series: Series = {(RANK_0, ("lock", "gap")): Number(9)}
        scrape = scrape_at(1, {catalog.chains.ACTIVE: series, catalog.chains.SEVERITY: series})

        assert [chain.severity for chain in view_of(scrape).chains] == [Severity.CRITICAL]


class TestNotes:
    """What one has to know to read the figures."""

    def test_a_quiet_exporter_with_a_workload_needs_none(self) -> None:
        """All is well."""
        assert view_of(lost_at(100, {"lock": 1.0})).notes == ()

    def test_without_processes_it_is_said(self) -> None:
        """An empty table would be a riddle."""
        assert view_of(scrape_at(1, {})).notes == ("no process has called CUDA or NCCL since it is probed",)

    def test_probes_that_were_removed_are_the_reason(self) -> None:
        """By SIGUSR1."""
        (note,) = view_of(scrape_at(1, {catalog.own.PROBES_ENABLED: {(None, ()): Number(0)}})).notes

        assert note.startswith("every probe has been removed (SIGUSR1)")

    def test_collectors_that_failed_are_named(self) -> None:
        """One that works is not."""
        states: Series = {(None, ("nccl",)): Number(0), (None, ("cuda",)): Number(1)}
        scrape = scrape_at(1, {catalog.workload.INFO: ALIVE, catalog.own.COLLECTOR_SUCCESS: states})

        assert view_of(scrape).notes == ("failed collectors: nccl; their figures are missing or incomplete",)

    def test_losses_of_the_interval_are_told(self) -> None:
        """Not those of before, and not what a walk makes up for."""

        def at(seconds: float, sched: float, watch: float) -> Scrape:
            losses: Series = {
                (None, ("sched", "thread_storage")): counted(sched),
                (None, ("cuda", "nesting")): counted(5),
                (None, ("mapping_watch", "ring_full")): counted(watch),
            }
            return scrape_at(seconds, {catalog.workload.INFO: ALIVE, catalog.own.LOSSES: losses})

        assert view_of(at(102, 9, 8), at(100, 2, 3)).notes == ("not recorded: sched thread_storage 7 times",)

    def test_without_return_probes_nothing_is_timed(self) -> None:
        """The kind of attachment says so."""
        info: Series = {(None, ("0.1.0", "3.11", "1.1", "6.12", "entry")): Number(1)}
        scrape = scrape_at(1, {catalog.workload.INFO: ALIVE, catalog.own.BUILD_INFO: info})

        assert view_of(scrape).notes == (
            "returns are not probed on this kernel: calls are counted, and nothing is timed",
        )


class TestView:
    """What it says of itself."""

    def test_window_is_between_the_scrapes(self) -> None:
        """By the monotonic clock; none for the first."""
        first, second = scrape_at(100, {}), scrape_at(102.5, {})

        assert (view_of(first).window_seconds, view_of(second, first).window_seconds) == (None, 2.5)

    def test_workloads_stand_in_the_order_of_their_labels(self) -> None:
        """Whatever the exporter's is."""
        alive: Series = {
            (identity, ("1", "trainer", *[""] * 8)): Number(1) for identity in (RANK_1, Identity(node="gpu8"), RANK_0)
        }

        assert [one.identity for one in view_of(scrape_at(1, {catalog.workload.INFO: alive})).workloads] == [
            RANK_0,
            RANK_1,
            Identity(node="gpu8"),
        ]
