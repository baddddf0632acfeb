"""Remedies for causes on the node: CPUs, disks, memory, interrupts, the network."""

from __future__ import annotations

import re
from typing import Final

from exporter.accounting.culprits import HYPERVISOR, OTHER, OUTSIDE
from exporter.causes import largest_culprit
from exporter.chains.chain import Chain
from exporter.chains.remedies.commands import CPU, IO, MEMORY, Commands, Remedy, remedy
from exporter.chains.remedies.cpus import cpu_list
from exporter.chains.remedies.culprits import Act, CulpritActs, Way
from exporter.text.shell import shell_word

_CULPRIT_NAMES = {OUTSIDE: "A process outside this pod", OTHER: "Another program"}
_PLAIN_NAME: Final = re.compile(r"[\w.:@+/-]+(?: \([a-z]+\))*")
_MOST_CPU: Final = "ps -eo pid,lstart,psr,ni,pcpu,comm --sort=-pcpu | head -n 20"
_DEDICATED: Final = "or give the job dedicated CPUs."


def culprit_of(chain: Chain) -> str:
    """The largest culprit as the subject of a sentence. A name that is not plain is quoted: it may read like a command."""
    name = largest_culprit(chain.culprits) or OTHER
    return _CULPRIT_NAMES.get(name) or (name if _PLAIN_NAME.fullmatch(name) else shell_word(name))


def contention(chain: Chain, commands: Commands) -> Remedy:
    """The remedy for CPUs that others use."""
    if largest_culprit(chain.culprits) == HYPERVISOR:
        return remedy(
            "The hypervisor gives this machine's CPU time to other virtual machines (steal). Nothing inside this machine helps:"
            " move it to a host that is not overcommitted, or reserve CPUs for it there.",
            commands.line("vmstat", "vmstat 1 5"),
            commands.line("mpstat", "mpstat -P ALL 1 5"),
        )
    begin = f"{culprit_of(chain)} is using the job's CPUs."
    job = commands.context.job
    if job is None:
        return remedy(f"{begin} Pin it elsewhere, lower its priority, {_DEDICATED}")
    return _off_the_cpus(begin, chain, commands, CulpritActs(commands, job))


def exporter(_chain: Chain, commands: Commands) -> Remedy:
    """This program is the culprit."""
    begin = "gpu-stall-exporter itself is using the job's CPUs. Set its probes.launch to sampled, scrape it less often,"
    job = commands.context.job
    acts = CulpritActs(commands, job) if job else None
    if acts is None or not acts.living:
        return remedy(f"{begin} or pin it to other CPUs.")
    found = acts.off_the_cpus()
    end = "or pin it to CPUs that no GPU process uses." if _moves(found) else "or lower its priority."
    return remedy(f"{begin} {end}", acts.started(), *(act.line for act in found))


def _off_the_cpus(begin: str, chain: Chain, commands: Commands, acts: CulpritActs) -> Remedy:
    """Acts where there are some; else what to check."""
    most = commands.line("ps head", _MOST_CPU)
    unit = acts.unit_off_the_cpus(largest_culprit(chain.culprits))
    if not acts.living and unit.way:
        advice = _advice([unit], commands, "The unit starts programs that come and go. ")
        shown = f"systemctl show {shell_word(largest_culprit(chain.culprits))} -p ActiveState,MainPID,CPUUsageNSec"
        return remedy(f"{begin} {advice}", shown, unit.line)
    if not acts.living and commands.context.culprit_tgids and commands.node.has_machine_ids:
        return remedy(f"{begin} Its process has ended: check what started it, and what uses those CPUs now.", most)
    if not acts.living:
        return remedy(f"{begin} Its process is not known: check what uses those CPUs, {_DEDICATED}", most)
    if not acts.others:
        return _untouchable(begin, acts, commands)
    found = acts.off_the_cpus()
    if not found and not any(one.cpus & _job_cpus(commands) for one in acts.others):
        return remedy(
            f"{begin} Now it may run on other CPUs only: check what uses the job's CPUs.", acts.started(), most
        )
    if not found:
        return remedy(f"{begin} Stop it, move it to another node, {_DEDICATED}", acts.started())
    return remedy(f"{begin} {_advice(found, commands)}", acts.started(), *(act.line for act in found))


def _untouchable(begin: str, acts: CulpritActs, commands: Commands) -> Remedy:
    if any(one.is_of_a_job for one in acts.living):
        return remedy(f"{begin} It belongs to a GPU job as well: give each of them CPUs of its own.", acts.started())
    return remedy(
        f"{begin} It is a thread of the kernel and cannot be moved: check the interrupts, disks and networks that it works for.",
        acts.started(),
        commands.line("cat", "cat /proc/interrupts /proc/softirqs"),
    )


def _advice(found: list[Act], commands: Commands, before: str = "") -> str:
    if _moves(found):
        free = commands.context.free_cpus
        return f"{before}Move it to CPU{'s' if len(free) > 1 else ''} {cpu_list(free)}, which no GPU process uses."
    no_cpu = "" if commands.context.free_cpus else "No CPU is free of GPU processes: "
    if any(act.way is Way.LOWER for act in found):
        return f"{before}{no_cpu or 'It cannot be moved: '}lower its priority, {_DEDICATED}"
    return f"{before}{no_cpu or 'It cannot be moved: '}limit its CPU time, {_DEDICATED}"


def _moves(found: list[Act]) -> bool:
    return any(act.way is Way.MOVE for act in found)


def _job_cpus(commands: Commands) -> frozenset[int]:
    return commands.context.job.cpus if commands.context.job else frozenset()


def oversubscribed(_chain: Chain, commands: Commands) -> Remedy:
    return remedy(
        "The job has more busy threads than CPUs, so its own threads delay the one that feeds the GPU. Start fewer DataLoader"
        " workers (num_workers) and compute threads (OMP_NUM_THREADS), or allow more CPUs.",
        commands.of_job("ps", "ps -L -o tid,psr,pcpu,comm -p {} --sort=-pcpu"),
        commands.of_job("taskset", "taskset -acp {}"),
    )


def quota(_chain: Chain, commands: Commands) -> Remedy:
    return remedy(
        "The job has used up its CPU quota and is throttled. Raise the cgroup's CPU limit, or remove it.",
        commands.show(CPU),
        commands.limits(),
    )


def irq(_chain: Chain, commands: Commands) -> Remedy:
    return remedy(
        "Interrupts run on the job's CPUs. Move the interrupts (/proc/irq/*/smp_affinity_list) or the job to other CPUs.",
        commands.line("cat", "cat /proc/interrupts /proc/softirqs"),
        commands.of_job("taskset", "taskset -acp {}"),
        "systemctl show irqbalance -p ActiveState" if commands.has_unit("irqbalance.service") else "",
    )


def block_io(chain: Chain, commands: Commands) -> Remedy:
    disks = commands.line("iostat", "iostat -xz 1 3") or commands.line("cat", "cat /proc/diskstats")
    job = commands.context.job
    if not chain.culprits:
        return remedy(
            "The threads that feed the GPU wait for a disk. Put the data on a faster disk or in memory, or raise the I/O limit.",
            disks,
            commands.of_job("cat", "cat /proc/{}/io"),
            commands.show(IO),
            commands.pressure("io"),
        )
    acts = CulpritActs(commands, job) if job else None
    return remedy(
        f"{culprit_of(chain)} is using the disk that the job reads. Move one of them to another disk, or limit the other"
        " program's I/O.",
        commands.line("pidstat", "pidstat -d 1 3"),
        acts.started("pid,lstart,cgroup,args") if acts else "",
        *(acts.behind_on_disks() if acts else ()),
        disks,
    )


def reclaim(_chain: Chain, commands: Commands) -> Remedy:
    return remedy(
        "The job's cgroup or the machine is out of free memory, so each allocation first reclaims pages (direct reclaim). Raise"
        " the memory limit, or use less memory.",
        commands.show(MEMORY, only=2),
        commands.pressure("memory"),
        commands.line("grep", "grep -E 'MemAvailable|Swap' /proc/meminfo"),
    )


def major_fault(_chain: Chain, commands: Commands) -> Remedy:
    return remedy(
        "The job waits for major page faults: mapped files or swapped pages no longer fit in memory and are read from disk again."
        " Raise the memory limit, use less memory, or copy the files into memory.",
        commands.of_job("grep", "grep -E 'VmSwap|RssFile' /proc/{}/status"),
        commands.show(MEMORY, only=3),
    )


def network(_chain: Chain, commands: Commands) -> Remedy:
    return remedy(
        "The threads that feed the GPU wait for another machine, through a socket or a network file system. Check whether the"
        " peer is slow, and whether packets are retransmitted.",
        commands.of_job("nsenter ss sed", "nsenter --net=/proc/{}/ns/net ss -tinp | sed -n '/pid={},/{N;p}'"),
        commands.of_job("nsenter nstat", "nsenter --net=/proc/{}/ns/net nstat -asz TcpRetransSegs TcpExtTCPTimeouts"),
        commands.of_job("sed", "sed -n '/fstype nfs/,+12p' /proc/{}/mountstats"),
    )


def oom_killed(_chain: Chain, commands: Commands) -> Remedy:
    return remedy(
        "The OOM killer ended the process because its cgroup or the machine was out of memory. Raise the memory limit, start"
        " fewer workers, or prefetch less.",
        commands.show(MEMORY),
        commands.kernel_log("out of memory|oom-kill"),
        commands.limits(),
    )
