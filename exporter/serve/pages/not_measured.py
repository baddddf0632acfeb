"""What a page cannot show because this machine did not measure it, with the reason: an empty place never means zero.

In: an Explanation. Out: sentences.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from exporter.explain.explanation import Explanation
from exporter.explain.sums import ProcessSum
from exporter.text.figures import ranks


def not_measured(of: Explanation) -> Iterator[tuple[str, str]]:
    """What is missing, and why."""
    run = of.run
    if run is None:
        yield "everything", "the exporter has not recorded anything on this node; start `gpu-stall-exporter run`"
        return
    if not of.is_live:
        yield (
            "the time since then",
            "the exporter does not record; `systemctl status gpu-stall-exporter` has the reason",
        )
    if not run.has_chains:
        yield (
            "chains",
            "`run` was started with --no-collector.chains or --no-collector.sched, or its programs did not load;"
            " `gpu-stall-exporter check` says which",
        )
    if not of.processes:
        yield (
            "workloads",
            "no process made a traced call in this time; `gpu-stall-exporter check` says which libraries are found",
        )
        return
    yield from _of_processes(of.processes)
    yield (
        "kernels on the GPU, its clocks and its memory",
        "the history has times of the host; metrics of GPUs are at /metrics of `run`",
    )


def _of_processes(processes: Sequence[ProcessSum]) -> Iterator[tuple[str, str]]:
    without_steps = [one for one in processes if not one.steps.counts.total]
    if without_steps:
        yield f"steps of {_names(without_steps)}", "calls do not recur regularly, or the baseline is not complete yet"
    without_states = [one for one in processes if not one.states_ns]
    if without_states:
        yield (
            f"states of threads of {_names(without_states)}",
            "scheduling is not traced (--no-collector.sched, or its programs did not load)",
        )
    without_tgid = [one for one in processes if not one.labels.tgid]
    if without_tgid:
        yield (
            f"process ids of {_names(without_tgid)}",
            "the exporter is not in the host's PID namespace (hostPID: true)",
        )
    without_rank = [one for one in processes if not one.labels.identity.rank]
    if without_rank:
        number = len(without_rank)
        yield (
            f"ranks of {number} {'process' if number == 1 else 'processes'}",
            "no launcher has set a rank, such as RANK or OMPI_COMM_WORLD_RANK",
        )


def _names(processes: Sequence[ProcessSum]) -> str:
    """`ranks 0-3`, or how many processes."""
    numbers = [one.labels.identity.rank for one in processes]
    if all(numbers):
        return ranks(numbers)
    return f"{len(processes)} {'process' if len(processes) == 1 else 'processes'}"
