"""fleet.node_view: the workloads of a node, from its explanation."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from exporter.chains.chain import Severity
from exporter.fleet.failure import NodeUnusable
from exporter.fleet.node_view import NodeView, decoded, view_request
from exporter.model import Identity
from exporter.scrape.view import CauseLoss, OperationRates, Process
from exporter.text.untrusted import Untrusted
from tests.support.traced import only

RANK_3 = {"node": "gpu7", "rank": "3", "container": "", "namespace": "training", "pod": "trainer-3"}


def an_operation(**changes: Any) -> dict[str, Any]:
    """100 calls in 20 s, of 10 ms each."""
    known = {"api": "nccl", "operation": "ncclAllReduce", "calls": 100, "errors": 2, "timed_calls": 100}
    times = {"timed_seconds": 1.0, "p50_seconds": 0.01, "p95_seconds": 0.02, "p99_seconds": 0.03}
    return known | times | changes


def a_process(**changes: Any) -> dict[str, Any]:
    """20 s with 40 steps of half a second; 5 s are lost to the contention of CPUs, 4 s of these to stress-ng."""
    known = {**RANK_3, "pid": 100, "comm": "python", "recorded_seconds": 20.0, "steps": 40, "step_mean_seconds": 0.5}
    lost = {"lost_seconds": {"cpu_contention": 5.0}, "operations": [an_operation()]}
    culprits = {"culprits": [{"cause": "cpu_contention", "name": "stress-ng", "lost_seconds": 4.0}]}
    return known | lost | culprits | changes


def a_chain(**changes: Any) -> dict[str, Any]:
    known = {**RANK_3, "chain_id": "1" * 32, "state": "open", "cause": "cpu_contention", "effect": "step"}
    more = {"severity": "high", "culprits": [{"name": "stress-ng", "share_ratio": 0.8}], "waiting": []}
    return known | more | {"lost_ratio": 0.5} | changes


def an_explanation(**changes: Any) -> dict[str, Any]:
    known = {"version": 1, "exporter": {"is_running": True}, "processes": [a_process()], "chains": [a_chain()]}
    return known | changes


def view(**changes: Any) -> NodeView:
    return decoded(bytearray(json.dumps(an_explanation(**changes)).encode()))


class TestRequest:
    def test_span_has_two_windows_at_least(self) -> None:
        assert view_request().target == "/api/v1/explain?since=30s"


class TestWorkloads:
    def test_figures_are_those_of_the_windows(self) -> None:
        one = only(view().workloads)

        assert one.identity == Identity("", "3", "", "training", "trainer-3")
        assert one.processes == (Process("100", "python"),)
        assert (one.window_seconds, one.steps, one.step_seconds) == (20.0, 40, 0.5)
        assert one.lost == (CauseLoss("cpu_contention", 0.25, (("stress-ng", 0.2),)),)
        assert one.calls_per_second == 5.0

    def test_operations_have_rates_and_quantiles(self) -> None:
        assert only(view().workloads).operations == (
            OperationRates("ncclAllReduce", "", 5.0, 0.05, (0.01, 0.02, 0.03), 0.1),
        )

    def test_quantile_that_is_missing_lies_beyond_the_last_edge(self) -> None:
        """As null, or of an exporter of an older version."""
        older = an_operation(p99_seconds=None)
        del older["p95_seconds"]
        one = only(only(view(processes=[a_process(operations=[older])]).workloads).operations)

        assert one.quantiles_seconds == (0.01, math.inf, math.inf)

    def test_processes_of_one_identity_are_one_workload(self) -> None:
        """40 steps of 0.5 s and 20 of 0.8 s; the lost time is the mean; quantiles of two processes have no mean."""
        second = a_process(pid=200, steps=20, step_mean_seconds=0.8, lost_seconds={}, culprits=[])
        one = only(view(processes=[a_process(), second]).workloads)

        assert one.processes == (Process("100", "python"), Process("200", "python"))
        assert one.steps == 60
        assert one.step_seconds == pytest.approx(0.6)
        assert one.lost_share == 0.125
        assert (one.operations[0].calls_per_second, one.operations[0].quantiles_seconds) == (10.0, None)

    def test_runtime_call_and_the_driver_calls_that_it_makes_count_once(self) -> None:
        calls = [an_operation(api="cuda", calls=60), an_operation(api="cuda_driver", calls=80), an_operation(calls=20)]

        assert only(view(processes=[a_process(operations=calls)]).workloads).calls_per_second == 5.0

    def test_lost_time_is_no_more_than_there_was(self) -> None:
        lost = {"lock": 30.0, "io": 10.0}

        assert only(view(processes=[a_process(lost_seconds=lost)]).workloads).lost_share == 1.0

    def test_process_without_a_window_has_no_rates(self) -> None:
        assert only(view(processes=[a_process(recorded_seconds=0.0)]).workloads).window_seconds is None

    def test_process_without_steps_has_no_length_of_a_step(self) -> None:
        assert only(view(processes=[a_process(steps=0, step_mean_seconds=None)]).workloads).step_seconds is None


class TestChains:
    def test_open_chain_has_what_holds_now_and_its_worst_share(self) -> None:
        now = {"lost_ratio": 0.2, "slowdown_ratio": 0.3, "culprits": [{"name": "backup", "share_ratio": 1.0}]}
        one = only(view(chains=[a_chain(now=now)]).chains)

        assert (one.lost_share, one.worst_lost_share, one.culprits) == (0.2, 0.5, ("backup",))

    def test_open_chain_has_its_culprits(self) -> None:
        one = only(view().chains)

        assert (one.cause, one.effect, one.severity) == ("cpu_contention", "step", Severity.HIGH)
        assert (one.culprits, one.ids) == (("stress-ng",), ("1" * 32,))

    def test_chain_that_is_over_is_left_out(self) -> None:
        assert view(chains=[a_chain(state="resolved")]).chains == ()

    def test_chains_of_workloads_that_wait_for_it_are_there(self) -> None:
        waiting = a_chain(rank="4", cause="peer_rank")

        assert [one.cause for one in view(chains=[a_chain(waiting=[waiting])]).chains] == [
            "cpu_contention",
            "peer_rank",
        ]

    def test_two_chains_of_one_workload_and_cause_are_one_line(self) -> None:
        one = only(view(chains=[a_chain(severity="low"), a_chain(chain_id="2" * 32, severity="critical")]).chains)

        assert (one.severity, one.ids) == (Severity.CRITICAL, ("1" * 32, "2" * 32))


class TestHostileNodes:
    @pytest.mark.parametrize(
        "changes",
        [
            {"processes": {}},
            {"processes": [a_process(steps=-1)]},
            {"processes": [a_process(recorded_seconds="20")]},
            {"processes": [a_process(operations=[{}])]},
            {"processes": [a_process()] * 4097},
            {"chains": [a_chain(severity="deadly")]},
            {"chains": [a_chain(waiting=[1])]},
            {"exporter": {"is_running": "yes"}},
        ],
    )
    def test_what_is_not_an_explanation_is_refused(self, changes: dict[str, Any]) -> None:
        with pytest.raises(Untrusted):
            view(**changes)

    def test_other_version_is_named(self) -> None:
        with pytest.raises(NodeUnusable, match="an explanation of version 2, not 1"):
            view(version=2)

    def test_names_are_printable(self) -> None:
        assert only(view(processes=[a_process(comm="\x1b[2J")]).workloads).processes == (Process("100", "\ufffd[2J"),)
