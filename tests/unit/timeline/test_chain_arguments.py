"""chain_arguments: what is shown of a chain."""

from __future__ import annotations

from exporter.chains.chain import Change, End
from exporter.history.recorded_chains import KnownState, RecordedChain
from exporter.timeline.chain_arguments import chain_arguments
from tests.support.history import SECOND, an_event, resolved
from tests.support.timelines import at


class TestChainArguments:
    def test_names_and_units_are_those_of_explain(self) -> None:
        event = resolved(an_event(lost_ns=3 * SECOND, peer="5", detail="more"), 24, End.RECOVERED)

        assert chain_arguments(RecordedChain(1, (event,), (), KnownState.RESOLVED, at(24))) == {
            "chain_id": "1" * 32,
            "state": "resolved",
            "cause": "cpu_contention",
            "effect": "gap",
            "severity": "high",
            "began_unix_seconds": at(0) / SECOND,
            "lost_ratio": 0.46,
            "lost_seconds": 3.0,
            "contribution_ratio": 0.97,
            "slowdown_ratio": 0.9,
            "baseline_step_seconds": 0.014,
            "causes": ("cpu_contention 97 %", "cpu_oversubscribed 2.0 %"),
            "culprits": ("stress-ng 94 %", "cron 4.0 %"),
            "culprit_pids": ("777",),
            "peer_rank": "5",
            "cgroup": "/job",
            "end": "recovered",
            "detail": "more",
            "remedy": "stress-ng is using the job's CPUs. Pin it elsewhere.",
            "commands": ("taskset -acp 0-3 100", "renice -n 19 -p 777"),
        }

    def test_what_is_not_known_is_left_out(self) -> None:
        event = an_event(slowdown=None, usual_step_ns=0, culprits=(), culprit_tgids=(), commands=(), cgroup="")
        found = chain_arguments(RecordedChain(1, (event,), (), KnownState.OPEN, at(24)))

        assert not found.keys() & {"slowdown_ratio", "baseline_step_seconds", "culprits", "culprit_pids", "commands"}
        assert not found.keys() & {"cgroup", "end", "peer_rank", "detail", "lost_seconds"}

    def test_commands_name_the_culprits_while_they_were_known(self) -> None:
        """At its end a chain may have none any more."""
        last = an_event(change=Change.ESCALATED, culprit_tgids=(), commands=("ps",))
        found = chain_arguments(RecordedChain(1, (an_event(), last), (), KnownState.OPEN, at(24)))

        assert (found["culprit_pids"], found["commands"]) == (("777",), ("taskset -acp 0-3 100", "renice -n 19 -p 777"))
