"""A call that arrives through two attachments is counted once, and the surplus attachment is found."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpustall_standin as standin
from exporter.config.probes import AttachKind
from exporter.host.elf import read_elf
from exporter.kernel.abi import Api, EventKind
from exporter.kernel.events import KernelEvent
from tests.support import forwarding_library
from tests.support.discovering import Scene, copied, discovering
from tests.support.held_calls import held_calls
from tests.support.mounts import mount_namespace
from tests.support.traced import STANDIN_LIBRARIES, Run, Tracer, new_events, tracer

HERE = Path(__file__).parent
WITHOUT_MAPPINGS = ("process", "cuda", "nccl", "sched")
CALLED = {
    Api.RUNTIME: ("cudaEventRecord", "cudaLaunchKernel"),
    Api.DRIVER: ("cuEventRecord", "cuLaunchKernel"),
    Api.NCCL: ("ncclAllReduce",),
}


@pytest.fixture
def traced(attach_kind: AttachKind) -> Iterator[Tracer]:
    """All programs, attached to nothing yet, for each attachment kind."""
    with tracer(attach_kind) as found:
        yield found


@pytest.fixture(scope="module")
def odd_calls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled program."""
    program = tmp_path_factory.mktemp("odd") / "odd_calls"
    subprocess.run(["cc", "-O2", "-Wall", "-Werror", "-rdynamic", HERE / "odd_calls.c", "-o", program], check=True)
    return program


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The libraries of tests/support/forwarding_library.py."""
    return forwarding_library.compiled(tmp_path_factory.mktemp("passed"))


def _attach_standin(traced: Tracer, times: int) -> dict[Api, list[int]]:
    """Attaches every library of the stand-in this often; returns the numbers of the attachments."""
    return {
        api: [traced.attach(api, standin.build_dir() / name, CALLED[api]).number for _ in range(times)]
        for api, name in STANDIN_LIBRARIES.items()
    }


def _attach_as_two_libraries(traced: Tracer, program: Path, function: str) -> None:
    """A function of the program and its copy, each attached as a library of its own."""
    fd = os.open(program, os.O_RDONLY | os.O_CLOEXEC)
    try:
        offsets = read_elf(fd).symbol_offsets([function, f"other_{function}"])
    finally:
        os.close(fd)
    for offset in offsets.values():
        traced.attach_at(Api.RUNTIME, program, {function: offset})


def _number_of(traced: Tracer, tgid: int) -> int:
    """The number of a process."""
    (number,) = (number for number, row in traced.tables.read().processes.items() if row.tgid == tgid)
    return number


def _surplus(traced: Tracer) -> list[tuple[int, int]]:
    """(second number, first number) of the event of every surplus attachment, sorted."""
    events = [event for event in new_events(traced.kernel) if event.kind is EventKind.ATTACHMENT_SURPLUS]
    return sorted((event.attachment, event.first) for event in events)


class TestCountedOnce:
    """The same file attached several times."""

    def test_timed_and_nested_calls(self, traced: Tracer) -> None:
        """Calls of the runtime, of the driver inside it, and of NCCL; one event for each surplus attachment."""
        numbers = _attach_standin(traced, 2)
        run = traced.run("cudaEventRecord:23", "cudaLaunchKernel:29", "ncclAllReduce:31")

        assert run.row("cudaEventRecord").calls == 23 + run.prepared("cudaEventRecord")
        assert run.row("cuEventRecord").calls == run.row("cudaEventRecord").calls
        assert run.row("cuEventRecord").timed == 0
        assert run.row("ncclAllReduce").timed == 31
        assert run.drops == {}
        assert sorted(map(sorted, _surplus(traced))) == sorted(map(sorted, numbers.values()))

    def test_entries_alone(self, attach_kind: AttachKind) -> None:
        """Without returns, how long a call is open is unknown. A session is then replaced by a multi link."""
        with tracer(attach_kind, with_returns=False) as traced:
            _attach_standin(traced, 3)
            run = traced.run("cudaEventRecord:23", "ncclAllReduce:31")

            assert run.row("cudaEventRecord").calls == 23 + run.prepared("cudaEventRecord")
            assert run.row("cuEventRecord").calls == run.row("cudaEventRecord").calls
            assert run.row("ncclAllReduce").calls == 31
            assert run.drops == {}

    def test_launches_of_which_most_are_only_counted(self, traced: Tracer) -> None:
        """One in 64 is timed: a second attachment neither counts nor times any."""
        _attach_standin(traced, 2)
        with held_calls("cudaLaunchKernel:256") as calls:
            process = _number_of(traced, calls.tgids[0])
            traced.tables.sample_launches(process, 63)
            before = self._launches(traced)
            calls.make()
            after = self._launches(traced)

        assert [late - early for early, late in zip(before, after, strict=True)] == [256, 4, 256]

    @staticmethod
    def _launches(traced: Tracer) -> tuple[int, int, int]:
        """Launches of the runtime, those of them that were timed, and of the driver."""
        run = Run([], traced.tables.read(), {})
        launch = run.row("cudaLaunchKernel")
        return launch.calls, launch.timed, run.row("cuLaunchKernel").calls

    def test_four_attachments(self, traced: Tracer) -> None:
        """One counts, three are surplus."""
        numbers = _attach_standin(traced, 4)[Api.RUNTIME]
        run = traced.run("cudaEventRecord:23")
        surplus = [(second, first) for second, first in _surplus(traced) if second in numbers]

        assert run.row("cudaEventRecord").calls == 23 + run.prepared("cudaEventRecord")
        assert run.row("cuEventRecord").calls == run.row("cudaEventRecord").calls
        assert len(surplus) == 3
        assert len({first for _, first in surplus}) == 1

    def test_calls_that_are_left_by_longjmp(self, traced: Tracer, odd_calls: Path) -> None:
        """A call at the same stack pointer is a new one, also with two attachments."""
        for _ in range(2):
            traced.attach(Api.RUNTIME, odd_calls, ("cudaEventRecord", "cudaStreamSynchronize"))
        subprocess.run([odd_calls, "longjmp", "23"], check=True, timeout=60)

        assert Run([], traced.tables.read(), {}).counts() == {"cudaEventRecord": 23}
        assert traced.drops() == {"cuda abandoned": 23}

    def test_calls_in_a_signal_handler_inside_a_call(self, traced: Tracer, odd_calls: Path) -> None:
        """The inner call is another operation further down the stack."""
        for _ in range(2):
            traced.attach(Api.RUNTIME, odd_calls, ("cudaEventRecord", "cudaMemcpy"))
        subprocess.run([odd_calls, "signal", "23"], check=True, timeout=60)

        assert Run([], traced.tables.read(), {}).counts() == {"cudaMemcpy": 23, "cudaEventRecord": 23}
        assert traced.drops() == {}

    def test_call_that_jumps_into_another_library(self, traced: Tracer, program: Path) -> None:
        """It has two entries and two returns, of which the inner one comes first."""
        for name in (forwarding_library.FIRST, forwarding_library.SECOND):
            traced.attach(Api.RUNTIME, program.parent / name)
        with forwarding_library.caller(program, 23) as caller:
            caller.make()

        assert Run([], traced.tables.read(), {}).counts() == {"cudaEventRecord": 23}
        assert traced.drops() == {}
        assert len(_surplus(traced)) == 1


class TestNoEcho:
    """Different calls at one stack pointer, through two attachments."""

    def test_a_call_that_was_open_when_its_attachment_was_replaced(self, traced: Tracer, odd_calls: Path) -> None:
        """The next 22 at the same stack pointer are calls of their own; the open one is abandoned, unless the kernel shows its
        return to the new attachment: it does so where both are links of two programs."""
        function = ("cudaStreamSynchronize",)
        old = traced.attach(Api.RUNTIME, odd_calls, function)
        process = subprocess.Popen([odd_calls, "hold", "23"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdout is not None
        with process:
            assert process.stdout.read(1) == b"x"
            old.detach()
            new = traced.attach(Api.RUNTIME, odd_calls, function)
            process.communicate(b"y", timeout=60)

        assert new.number != old.number
        counted = Run([], traced.tables.read(), {}).counts()["cudaStreamSynchronize"]

        assert (counted, traced.drops()) in [(22, {"cuda abandoned": 1}), (23, {})]
        assert _surplus(traced) == []

    def test_calls_of_another_library_after_one_that_was_jumped_out_of(self, traced: Tracer, odd_calls: Path) -> None:
        """23 at its stack pointer: at most the first counts as the same call."""
        _attach_as_two_libraries(traced, odd_calls, "cudaStreamSynchronize")
        subprocess.run([odd_calls, "longjmp-other", "23"], check=True, timeout=60)
        counted = Run([], traced.tables.read(), {}).counts()["cudaStreamSynchronize"]

        assert (counted, traced.drops()) in [(22, {"cuda abandoned": 1}), (23, {})]

    def test_launches_of_two_libraries_in_turn(self, traced: Tracer, odd_calls: Path) -> None:
        """At one stack pointer, most of them only counted: 23 of each are 46."""
        _attach_as_two_libraries(traced, odd_calls, "cudaLaunchKernel")
        traced.attach(Api.RUNTIME, odd_calls, ("cudaEventRecord",))
        process = subprocess.Popen([odd_calls, "launch-other", "23"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdout is not None
        with process:
            assert process.stdout.read(1) == b"x"
            traced.tables.sample_launches(_number_of(traced, process.pid), 63)
            process.communicate(b"y", timeout=60)

        assert Run([], traced.tables.read(), {}).counts() == {"cudaLaunchKernel": 46, "cudaEventRecord": 46}
        assert traced.drops() == {}


class TestBothStay:
    """User space."""

    def test_file_under_two_names_without_the_program_on_mappings(self, tmp_path: Path) -> None:
        """A layer and an overlay over it are both attached."""
        with (
            discovering(apis=frozenset({Api.RUNTIME}), subjects=WITHOUT_MAPPINGS) as scene,
            mount_namespace() as inside,
        ):
            layer = copied(tmp_path / "layer")
            merged = inside.overlay("merged", layer, tmp_path)
            with (
                held_calls("cudaEventRecord:23", libraries=layer) as first,
                held_calls("cudaEventRecord:29", libraries=merged, before=inside.enter) as second,
            ):
                scene.walk_all()
                first.make()
                self._note(scene)
                second.make()
                scene.walk_all()

                assert scene.calls(first.tgids[0]) == {"cudaEventRecord": 23}
                assert scene.calls(second.tgids[0]) == {"cudaEventRecord": 29}
                assert scene.probed_below(tmp_path) == ["libcudart.so.12", "libcudart.so.12"]
                assert scene.discovery.surplus["runtime",] == 1
                assert scene.drops() == {}

    @staticmethod
    def _note(scene: Scene) -> list[KernelEvent]:
        """Handles events as the daemon does."""
        events = [event for event in new_events(scene.kernel) if event.kind is EventKind.ATTACHMENT_SURPLUS]
        for event in events:
            scene.discovery.note_surplus(event.attachment, event.first)
        return events

    def test_two_files_of_which_one_forwards_calls(self, program: Path) -> None:
        """The call arrives through both: it counts once, and both stay attached."""
        with discovering() as scene, forwarding_library.caller(program, 23) as caller:
            scene.walk_all()
            caller.make()
            events = self._note(scene)

            assert scene.calls(caller.process.pid) == {"cudaEventRecord": 23}
            assert scene.probed(program.parent) == sorted([forwarding_library.FIRST, forwarding_library.SECOND])
            assert len(events) == 1
            assert scene.drops() == {}
