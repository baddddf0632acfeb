"""All episodes, by name."""

from __future__ import annotations

from exporter.causes import Cause
from gpustall_standin.scenarios import GPU_BOUND, HOST_BOUND
from tests.faults import scenes
from tests.faults.episode import FETCHING, LOADER_BOUND, End, Episode
from tests.faults.injectors.cpu import HOG
from tests.faults.injectors.disk import READER
from tests.faults.injectors.gpu import NEIGHBOUR
from tests.faults.job import COMM, Window

WORKER = "pt_data_worker"
SLOW_LOADER = (*LOADER_BOUND, "--prefetch=2")
LOADER_STEP_SECONDS = 0.0045
FETCHING_STEP_SECONDS = 0.0065

_CPU = (
    Episode(
        name="cpu-neighbour",
        says="hogs of another control group take the CPU from a step thread that launches all the time",
        cause=Cause.CPU_CONTENTION,
        culprit=HOG,
        flags=HOST_BOUND,
        scene=scenes.neighbours,
    ),
    Episode(
        name="own-quota",
        says="the job's own control group may use 40 % of a CPU",
        cause=Cause.CPU_QUOTA,
        flags=HOST_BOUND,
        scene=scenes.own_quota,
    ),
    Episode(
        name="quota-and-neighbour",
        says="the job's own quota and hogs of another control group at once",
        cause=Cause.CPU_QUOTA,
        also=(Cause.CPU_CONTENTION,),
        culprit=HOG,
        flags=HOST_BOUND,
        scene=scenes.quota_and_neighbours,
    ),
    Episode(
        name="own-threads",
        says="four busy threads of the job's own process take the CPU from its step thread",
        cause=Cause.CPU_OVERSUBSCRIBED,
        culprit="pt_spinner",
        flags=HOST_BOUND,
        fault=("--fault=spinners", "--fault-threads=4"),
    ),
    Episode(
        name="irq-storm",
        says="packets that are dear to receive take half of the job's CPU in soft interrupts",
        cause=Cause.IRQ,
        flags=HOST_BOUND,
        scene=scenes.irq_storm,
    ),
)

_MEMORY_AND_DISK = (
    Episode(
        name="slow-disk",
        says="the loader waits for a disk whose reads are throttled",
        cause=Cause.BLOCK_IO,
        also=(Cause.DATALOADER,),
        culprit=WORKER,
        flags=LOADER_BOUND,
        step_seconds=LOADER_STEP_SECONDS,
        scene=scenes.slow_disk,
    ),
    Episode(
        name="flooded-disk",
        says="the loader waits for a disk that other programs read all the time",
        cause=Cause.BLOCK_IO,
        also=(Cause.DATALOADER,),
        culprit=READER,
        flags=LOADER_BOUND,
        step_seconds=LOADER_STEP_SECONDS,
        scene=scenes.flooded_disk,
    ),
    Episode(
        name="reclaim",
        says="each new page of the step thread needs another one's place in a full control group",
        cause=Cause.MEMORY_RECLAIM,
        flags=GPU_BOUND,
        scene=scenes.full_group,
    ),
    Episode(
        name="major-faults",
        says="the step thread reads mapped pages that its control group can no longer hold",
        cause=Cause.MAJOR_FAULT,
        flags=GPU_BOUND,
        scene=scenes.pages_gone,
    ),
)

_INSIDE = (
    Episode(
        name="lock-holder-sleeps",
        says="another thread holds the step thread's mutex and sleeps, 20 ms in each step",
        cause=Cause.LOCK,
        culprit="pt_holder",
        flags=GPU_BOUND,
        fault=("--fault=lock", "--fault-us=20000"),
    ),
    Episode(
        name="lock-holder-computes",
        says="another thread holds the step thread's mutex and computes, 20 ms in each step",
        cause=Cause.LOCK,
        culprit="pt_holder",
        flags=GPU_BOUND,
        fault=("--fault=lock", "--fault-us=20000", "--fault-holder=burn"),
    ),
    Episode(
        name="loader-computes",
        says="the only worker computes 20 ms longer for each batch",
        cause=Cause.DATALOADER,
        culprit=WORKER,
        flags=SLOW_LOADER,
        step_seconds=LOADER_STEP_SECONDS,
        fault=("--fault=loader-compute", "--fault-us=20000"),
    ),
    Episode(
        name="loader-sleeps",
        says="the only worker waits 20 ms for each batch, as for remote storage",
        cause=Cause.DATALOADER,
        culprit=WORKER,
        flags=SLOW_LOADER,
        step_seconds=LOADER_STEP_SECONDS,
        fault=("--fault=loader-sleep", "--fault-us=20000"),
    ),
    Episode(
        name="loader-reads",
        says="the only worker reads 96 MiB more from the page cache for each batch",
        cause=Cause.DATALOADER,
        culprit=WORKER,
        flags=SLOW_LOADER,
        step_seconds=LOADER_STEP_SECONDS,
        fault=("--fault=loader-read", f"--fault-bytes={96 << 20}"),
        scene=scenes.loader_file,
    ),
    Episode(
        name="stopped",
        says="SIGSTOP, and SIGCONT half a second later",
        cause=Cause.PAUSED,
        flags=GPU_BOUND,
        scene=scenes.stop,
    ),
)

_NETWORK = (
    Episode(
        name="slow-peer",
        says="the server that the step thread fetches each batch from answers 20 ms later",
        cause=Cause.NETWORK,
        flags=FETCHING,
        step_seconds=FETCHING_STEP_SECONDS,
        scene=scenes.slow_peer,
    ),
    Episode(
        name="slow-peer-of-worker",
        says="the server that the only worker fetches each batch from answers 20 ms later",
        cause=Cause.NETWORK,
        also=(Cause.DATALOADER,),
        culprit=WORKER,
        flags=LOADER_BOUND,
        step_seconds=LOADER_STEP_SECONDS,
        scene=scenes.slow_peer,
    ),
    Episode(
        name="tool-call",
        says="one answer of that server takes 2 s",
        cause=Cause.NETWORK,
        flags=FETCHING,
        step_seconds=FETCHING_STEP_SECONDS,
        scene=scenes.tool_call,
    ),
    Episode(
        name="tcp-loss",
        says="the wire between two network namespaces, through which each batch comes, loses one packet of 15",
        cause=Cause.NETWORK,
        flags=FETCHING,
        step_seconds=FETCHING_STEP_SECONDS,
        scene=scenes.tcp_loss,
    ),
)

_RANKS = (
    Episode(
        name="slow-rank",
        says="rank 1 of 2 comes 20 ms late to each backward pass",
        cause=Cause.SLOW_RANK,
        culprit=COMM,
        culprit_rank=1,
        flags=GPU_BOUND,
        fault=("--fault=straggler", "--fault-rank=1", "--fault-us=20000"),
        ranks=2,
    ),
    Episode(
        name="hung-rank",
        says="rank 1 of 2 never comes to a backward pass",
        cause=Cause.NCCL_HANG,
        culprit=COMM,
        culprit_rank=1,
        flags=GPU_BOUND,
        fault=("--fault=hang", "--fault-rank=1"),
        ranks=2,
        end=End.HANGS,
    ),
)

_GPU = (
    Episode(
        name="slow-gpu",
        says="the GPU itself takes twice as long",
        cause=Cause.GPU,
        flags=GPU_BOUND,
        fault=("--fault=gpu", "--fault-factor=2"),
    ),
    Episode(
        name="throttled-gpu",
        says="the GPU takes twice as long, and its driver reports clocks held down by the power limit",
        cause=Cause.GPU_THROTTLED,
        flags=GPU_BOUND,
        fault=("--fault=gpu", "--fault-factor=2"),
        scene=scenes.throttled_gpu,
    ),
    Episode(
        name="gpu-neighbour",
        says="the GPU takes twice as long, since another program launches kernels on it as well",
        cause=Cause.GPU_CONTENTION,
        culprit=NEIGHBOUR,
        flags=GPU_BOUND,
        fault=("--fault=gpu", "--fault-factor=2"),
        scene=scenes.shared_gpu,
    ),
    Episode(
        name="slow-copy",
        says="a synchronous copy of 256 MiB of pageable memory in each step",
        cause=Cause.PAGEABLE_COPY,
        flags=GPU_BOUND,
        fault=("--fault=copy", f"--fault-bytes={256 << 20}"),
    ),
    Episode(
        name="churn",
        says="twenty blocks of the GPU's memory are allocated and freed in each step, which takes the driver 0.4 ms each",
        cause=Cause.ALLOCATION_CHURN,
        flags=GPU_BOUND,
        fault=("--fault=churn", "--fault-threads=20", "--fault-us=400", f"--fault-bytes={1 << 20}"),
    ),
    Episode(
        name="recapture",
        says="the graph of 40 kernels that each step replays is captured again in each, and making it executable takes 10 ms",
        cause=Cause.GRAPH_RECAPTURE,
        flags=GPU_BOUND,
        fault=("--fault=recapture", "--fault-threads=40", "--fault-us=10000"),
    ),
    Episode(
        name="leak",
        says="each step allocates 4 MiB of the GPU's memory that is never freed",
        cause=Cause.MEMORY_LEAK,
        flags=GPU_BOUND,
        fault=("--fault=leak", f"--fault-bytes={4 << 20}"),
        costs_nothing=True,
    ),
    Episode(
        name="abandoned-capture",
        says="a capture begins on a stream of its own and does not end; the job goes on without it",
        cause=Cause.GRAPH_ABANDONED,
        flags=GPU_BOUND,
        fault=("--fault=abandon",),
        costs_nothing=True,
    ),
    Episode(
        name="cold-start",
        says="in the first twenty steps each launch takes 1 ms, as while code is loaded",
        cause=Cause.COLD_START,
        flags=GPU_BOUND,
        fault=("--fault=cold", "--fault-us=1000"),
        window=Window(1, 21),
        costs_nothing=True,
        grace_seconds=15,
    ),
    Episode(
        name="out-of-memory",
        says="an allocation fails and the job exits",
        cause=Cause.CUDA_OOM,
        flags=GPU_BOUND,
        fault=("--fault=oom",),
        end=End.DIES,
    ),
)

_ENDS = (
    Episode(
        name="crash",
        says="a CUDA call fails, and the job aborts",
        cause=Cause.CRASH,
        flags=GPU_BOUND,
        fault=("--fault=crash",),
        end=End.DIES,
    ),
    Episode(
        name="oom-killed",
        says="the job's control group has no memory left, and the kernel ends the job",
        cause=Cause.OOM_KILLED,
        flags=GPU_BOUND,
        scene=scenes.killed_by_limit,
        end=End.DIES,
    ),
)

_DECOYS = (
    Episode(
        name="out-of-memory-survived",
        says="an allocation fails once and a smaller one does not",
        cause=None,
        flags=GPU_BOUND,
        fault=("--fault=oom-retry",),
        is_decoy=True,
    ),
    Episode(
        name="quiet",
        says="nothing at all",
        cause=None,
        flags=GPU_BOUND,
        is_decoy=True,
    ),
    Episode(
        name="phase-change",
        says="the job launches twice as many kernels, because it is meant to",
        cause=None,
        flags=GPU_BOUND,
        fault=("--fault=phase", "--fault-factor=2"),
        is_decoy=True,
    ),
    Episode(
        name="warm-up",
        says="the first steps compute on the host: there is nothing yet to be slower than",
        cause=None,
        flags=GPU_BOUND,
        fault=("--fault=host", "--fault-us=20000"),
        window=Window(1, 21),
        is_decoy=True,
    ),
    Episode(
        name="hogs-elsewhere",
        says="hogs on CPUs that the job does not use",
        cause=None,
        flags=GPU_BOUND,
        scene=scenes.hogs_elsewhere,
        is_decoy=True,
    ),
    Episode(
        name="unrelated-reads",
        says="a neighbour reads a disk that the job does not",
        cause=None,
        flags=GPU_BOUND,
        scene=scenes.unrelated_reads,
        is_decoy=True,
    ),
    Episode(
        name="hidden-preemption",
        says="weak hogs on the job's CPU run while it waits for the GPU anyway",
        cause=None,
        flags=(*GPU_BOUND, "--sync-every=4"),
        scene=scenes.weak_hogs,
        period=4,
        is_decoy=True,
    ),
    Episode(
        name="many-switches",
        says="two threads of the job sleep 50 us, again and again: thousands of voluntary switches in a second",
        cause=None,
        flags=GPU_BOUND,
        fault=("--fault=switches", "--fault-threads=2", "--fault-us=50"),
        is_decoy=True,
    ),
    Episode(
        name="idle-thread",
        says="hogs everywhere, and a job that does little and then sleeps for most of a step",
        cause=None,
        flags=(*LOADER_BOUND, "--pace-us=60000"),
        scene=scenes.crowd,
        steps=60,
        step_seconds=0.06,
        window=Window(20, 45),
        is_decoy=True,
    ),
)

EPISODES = {
    episode.name: episode
    for episode in (*_CPU, *_MEMORY_AND_DISK, *_INSIDE, *_NETWORK, *_RANKS, *_GPU, *_ENDS, *_DECOYS)
}
