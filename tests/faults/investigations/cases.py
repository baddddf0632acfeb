"""Ten faults of different kinds in programs of tests/faults/shapes, and what is true of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tests.faults.shapes import SHAPES
from tests.faults.shapes.shape import InsideFault
from tests.faults.trials.extra import Extra
from tests.faults.trials.outside.registry import OUTSIDE
from tests.faults.trials.plan import PlannedFault, accepted


@dataclass(frozen=True)
class Case:
    """A fault. says: what is done to the job.

    culprits: with one of which the name of the culprit begins; none where no program is to blame. rank: of a job of several, that
    has the fault. lines: texts of lines of the job's program at one of which its time is lost; none where no line is to blame.
    share: by which part steps should become longer. job_weight: of its control group, 1 for that of a usual one; more than that
    keeps other work on the machine, which is no fault, from slowing it down.
    """

    name: str
    says: str
    shape: str
    fault: str
    culprits: tuple[str, ...] = ()
    rank: int = 0
    lines: tuple[str, ...] = ()
    share: float = 1.5
    job_weight: float = 4.0

    @property
    def planned(self) -> PlannedFault:
        return PlannedFault(self.fault, self.share, self.fault not in OUTSIDE, self.rank)

    @property
    def causes(self) -> frozenset[str]:
        """Those that are right."""
        return accepted([self.planned], OUTSIDE, SHAPES[self.shape].ranks)

    @property
    def extra(self) -> Extra:
        """What the job does in each step besides, so that it feels the fault."""
        outside = OUTSIDE.get(self.fault)
        return outside.extra or Extra.NONE if outside else Extra.NONE


CASES: Final = (
    Case(
        "compressor",
        "xz compresses files with many threads on the job's CPUs",
        "torch-loader-processes",
        "compressor",
        culprits=("xz",),
        share=4.0,
        job_weight=1.0,
    ),
    Case(
        "fio",
        "fio reads the disk from which the job reads its batches",
        "hf-trainer",
        "fio",
        culprits=("fio",),
        lines=("os.preadv(self._file, [self._batch], at)",),
    ),
    Case("cpulimit", "cpulimit stops and continues the job again and again", "gan", "cpulimit"),
    Case("quota", "the CPU quota of the job's control group is lowered", "torch-loader-threads", "own-quota"),
    Case(
        "log-reader",
        "the program that reads the job's log stops now and then",
        "lightning",
        "stopped-log-reader",
        culprits=("cat",),
        lines=('print(*LOG_LINES, sep="\\n", file=sys.stdout, flush=True)',),
    ),
    Case(
        "interpreter-lock",
        "a second thread of the job keeps the lock of the Python interpreter in a long call",
        "diffusion",
        InsideFault.GIL.value,
        culprits=("python",),
        lines=("self.begun.wait()", "sum(numbers)"),
    ),
    Case(
        "name-server",
        "the name server leaves a look-up unanswered now and then",
        "gradient-accumulation",
        "lost-look-ups",
        lines=("socket.getaddrinfo(host, int(port), socket.AF_INET, socket.SOCK_STREAM)",),
    ),
    Case(
        "full-memory",
        "a program in the job's container fills its memory with pages that wait to be written",
        "graph-neighbours",
        "full-group",
        lines=("fresh.write(_PAGES)", "with mmap.mmap(-1, TOUCHED_BYTES) as fresh:"),
    ),
    Case(
        "slow-rank",
        "rank 1 of 2 computes longer before each collective",
        "torch-ddp",
        InsideFault.STRAGGLER.value,
        rank=1,
        lines=("for number in range(200):", "total += number * number % 7", "while time.monotonic() < end:"),
    ),
    Case(
        "proxy",
        "a proxy between the job and the server of its batches holds answers back",
        "speech",
        "slow-proxy",
        lines=("left -= len(self._connection.recv(left))",),
    ),
)
