"""Steps of a stand-in job, found without its help."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

import gpustall_standin as standin
from exporter.accounting.cadence import Cadence
from tests.support.priority import before_others
from tests.support.traced import STANDIN_LIBRARIES, Tracer, only

STEPS = 80


@pytest.fixture(scope="module")
def own_trainer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in job and its libraries, as files that no other process maps."""
    folder = tmp_path_factory.mktemp("trainer")
    for name in (*STANDIN_LIBRARIES.values(), "trainer"):
        subprocess.run(["cp", standin.build_dir() / name, folder], check=True)
    return folder / "trainer"


def test_each_collective_and_each_copy_to_the_gpu_is_a_step_mark(best_traced: Tracer) -> None:
    """Equal ones have equal signatures, and none has the time of another one. Copies to the host are no marks."""
    before_ns = time.monotonic_ns()
    best_traced.run("ncclAllReduce:23:65536", "cudaMemcpyAsync:5:4096:h2d", "cudaMemcpyAsync:7:4096:d2h")
    marks, is_complete = only(best_traced.tables.read_waits([1]).cadence.values()).since(0)
    times_ns = [mark.at_ns for mark in marks]

    assert is_complete
    assert [*Counter(mark.signature for mark in marks).values()] == [23, 5]
    assert before_ns < times_ns[0]
    assert times_ns == sorted(set(times_ns))
    assert times_ns[-1] < time.monotonic_ns()


@pytest.mark.acceptance
def test_steps_are_those_of_the_job(account_tracer: Tracer, own_trainer: Path) -> None:
    """Number and duration, except the first few until the period is found; one evaluation in between."""
    for api, name in STANDIN_LIBRARIES.items():
        account_tracer.attach(api, own_trainer.parent / name)
    flags = ["--ranks=1", f"--steps={STEPS}", "--pace-us=40000", "--evaluate-every=30", "--sync=block"]
    cadence = Cadence()
    environment = {**os.environ, "LD_LIBRARY_PATH": str(own_trainer.parent)}
    with (
        before_others(),  # the reader as well: what it reads is overwritten soon
        subprocess.Popen([own_trainer, *flags], env=environment, stdout=subprocess.PIPE, text=True) as job,
    ):
        while job.poll() is None:
            time.sleep(0.1)
            for row in account_tracer.tables.read_waits([1]).cadence.values():
                cadence.update(row)
        assert job.stdout is not None
        lines = [json.loads(line) for line in job.stdout]
    starts_ns = [line["start_ns"] for line in lines if line["type"] == "step"]
    mean_ns = (starts_ns[-1] - starts_ns[0]) / (len(starts_ns) - 1)
    found = cadence.steps()

    assert found is not None
    assert STEPS - 12 <= sum(found.counts) <= STEPS
    assert found.sum_ns / sum(found.counts) == pytest.approx(mean_ns, rel=0.2)
