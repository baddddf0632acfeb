"""A job under a strict seccomp filter makes hundreds of thousands of calls while probes come and go, and is not affected."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from exporter.config.probes import AttachKind
from exporter.errors import KernelRefused
from exporter.kernel import filtered_child, hazards
from exporter.kernel.abi import Api
from exporter.kernel.hazards import Fate
from exporter.kernel.loader import ENTRY_LABEL
from exporter.kernel.probes import Attachment
from tests.support.accounts import compiled
from tests.support.filtered_job import FUNCTIONS, FilteredJob, filtered_job
from tests.support.traced import Run, Tracer, tracer

COMINGS_AND_GOINGS = 3


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled job."""
    return compiled(Path(__file__).with_name("filtered.c"), tmp_path_factory.mktemp("filtered"))


@pytest.fixture(scope="module")
def fate() -> Fate:
    """The result of the experiment on this kernel."""
    return hazards.fate_by_experiment()


@pytest.fixture(params=[*AttachKind, ENTRY_LABEL])
def traced(request: pytest.FixtureRequest, fate: Fate) -> Iterator[Tracer]:
    """Programs of each attachment kind of this kernel, and of entries only, attached to nothing yet."""
    with_returns = request.param != ENTRY_LABEL
    if with_returns and fate is Fate.DIES:
        pytest.skip("this kernel ends a job under a filter at a return probe: entries alone are probed here")
    with ExitStack() as resources:
        try:
            found = resources.enter_context(
                tracer(AttachKind(request.param) if with_returns else None, with_returns=with_returns)
            )
        except KernelRefused as error:
            if request.param in (AttachKind.SINGLE, ENTRY_LABEL):  # every kernel has these
                raise
            pytest.skip(str(error))
        yield found


def _attach(traced: Tracer, program: Path) -> Attachment:
    return traced.attach(Api.RUNTIME, program, FUNCTIONS)


def _counts(traced: Tracer) -> dict[str, int]:
    return Run([], traced.tables.read(), {}).counts()


def _counted(traced: Tracer, job: FilteredJob, calls: int) -> dict[str, int]:
    """Growth of the counts while the job makes its calls."""
    before = _counts(traced)
    assert job.do(calls)
    return {name: count - before.get(name, 0) for name, count in _counts(traced).items()}


class TestJob:
    """For every attachment kind, and with entries only."""

    def test_calls_while_probes_come_and_go(self, traced: Tracer, program: Path) -> None:
        """10,000 calls of each function probed, 10,000 not, 100,000 while probes come and go, 10,000 probed."""
        with filtered_job(program) as job:
            assert job.do("f")
            attachment = _attach(traced, program)
            first = _counted(traced, job, 40_000)
            attachment.detach()
            without = _counted(traced, job, 40_000)
            job.begin(400_000)
            for _ in range(COMINGS_AND_GOINGS):
                _attach(traced, program).detach()
            assert job.finish()
            _attach(traced, program)
            last = _counted(traced, job, 40_000)
            exit_code = job.end()

        assert exit_code == 0
        assert first == dict.fromkeys(FUNCTIONS, 10_000)
        assert without == dict.fromkeys(FUNCTIONS, 0)
        assert last == dict.fromkeys(FUNCTIONS, 10_000)

    def test_a_filter_set_under_probes(self, traced: Tracer, program: Path) -> None:
        """As in a sandbox: 40 calls before, 40 after, all counted."""
        _attach(traced, program)
        with filtered_job(program) as job:
            before = _counted(traced, job, 40)
            assert job.do("f")
            after = _counted(traced, job, 40)
            exit_code = job.end()

        assert exit_code == 0
        assert before == after == dict.fromkeys(FUNCTIONS, 10)

    def test_denied_call_kills_the_job(self, program: Path) -> None:
        """The other tests rely on it."""
        with filtered_job(program) as job:
            assert job.do("f")
            assert not job.do("x")
            assert job.end() == -signal.SIGSYS


class TestExperiment:
    """The experiment that decides whether returns are probed."""

    def test_experiment_predicts_the_fate_of_a_job(self, program: Path, fate: Fate) -> None:
        """On this kernel: a job under a filter at its first return probe."""
        with tracer() as traced, filtered_job(program) as job:
            _attach(traced, program)
            assert job.do("f")
            has_survived = job.do(4)

        assert fate is (Fate.SURVIVES if has_survived else Fate.DIES)

    def test_filter_of_the_experiment_denies_unknown_calls(self) -> None:
        """A call number that no kernel has kills the process."""
        script = f"""
            import ctypes, runpy
            libc = ctypes.CDLL(None)
            runpy.run_path({filtered_child.__file__!r})["_set_filter"](libc)
            print("set", flush=True)
            libc.syscall(400)
        """
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", "\n".join(line.strip() for line in script.splitlines())],
            capture_output=True,
            check=False,
        )

        assert (done.returncode, done.stdout) == (-signal.SIGSYS, b"set\n")
