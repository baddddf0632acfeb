"""kernel.probes: which functions of a library are probed, with which programs, and in which order probes go."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from exporter.config.probes import AttachKind
from exporter.errors import KernelRefused
from exporter.kernel.abi import Api, Cookie
from exporter.kernel.attachment_numbers import NO_NUMBER
from exporter.kernel.probes import DESCRIPTORS_KEPT, NoDescriptors, attach, detach_all
from tests.support.fake_libbpf import FakeLibbpf, kernel_of

MALLOC, FREE = "cudaMalloc", "cudaFree"


def programs(libbpf: FakeLibbpf) -> list[tuple[str, int]]:
    """(program, offset) of what is attached, in the order of attaching."""
    return [(one.program, one.offset) for one in libbpf.uprobes]


class TestAttach:
    def test_return_is_probed_before_the_entry(self) -> None:
        """Otherwise a call could stay open."""
        libbpf = FakeLibbpf()
        attachment = attach(kernel_of(libbpf), Api.RUNTIME, 3, {MALLOC: 0x100, FREE: 0x200})

        assert set(attachment.functions) == {MALLOC, FREE}
        assert [one.is_return for one in libbpf.uprobes] == [True, True, False, False]
        assert {one.program for one in libbpf.uprobes} == {"cuda_exit", "cuda_enter"}

    def test_nccl_has_programs_of_its_own(self) -> None:
        libbpf = FakeLibbpf()
        attach(kernel_of(libbpf), Api.NCCL, 3, {"ncclAllReduce": 0x100})

        assert programs(libbpf) == [("nccl_exit", 0x100), ("nccl_enter", 0x100)]

    def test_entries_alone_are_counted(self) -> None:
        """Where returns are not probed."""
        libbpf = FakeLibbpf()
        attach(kernel_of(libbpf, with_returns=False), Api.RUNTIME, 3, {MALLOC: 0x100})

        assert programs(libbpf) == [("cuda_count", 0x100)]

    def test_session_is_one_program_for_entry_and_return(self) -> None:
        libbpf = FakeLibbpf()
        attach(kernel_of(libbpf, AttachKind.SESSION), Api.RUNTIME, 3, {MALLOC: 0x100})

        assert programs(libbpf) == [("cuda_session", 0x100)]

    def test_two_symbols_at_one_address_are_one_function(self) -> None:
        """Under the first wanted name."""
        libbpf = FakeLibbpf()
        attachment = attach(kernel_of(libbpf), Api.RUNTIME, 3, {"cudaFree_ptsz": 0x100, FREE: 0x100})

        assert attachment.functions == (FREE,)
        assert len(libbpf.uprobes) == 2

    def test_unwanted_symbol_is_not_probed(self) -> None:
        libbpf = FakeLibbpf()
        attachment = attach(kernel_of(libbpf), Api.RUNTIME, 3, {"cudaGetErrorString": 0x100})

        assert (attachment.functions, attachment.number, libbpf.uprobes) == ((), NO_NUMBER, [])

    def test_cookie_carries_the_number_of_the_attachment(self) -> None:
        """It distinguishes the calls of two attachments."""
        libbpf = FakeLibbpf()
        kernel = kernel_of(libbpf)
        for library_fd in (3, 4):
            attach(kernel, Api.RUNTIME, library_fd, {MALLOC: 0x100})

        assert [one.cookie >> Cookie.ATTACHMENT for one in libbpf.uprobes] == [1, 1, 2, 2]

    def test_refusal_leaves_no_probe(self) -> None:
        """The second of two is refused."""
        libbpf = FakeLibbpf()
        libbpf.refused_after = 1
        with pytest.raises(KernelRefused, match="cannot attach"):
            attach(kernel_of(libbpf), Api.RUNTIME, 3, {MALLOC: 0x100})

        assert (libbpf.uprobes, len(libbpf.linked)) == ([], 1)

    def test_missing_program_is_a_refusal(self) -> None:
        kernel = kernel_of(FakeLibbpf())
        del kernel.programs["cuda_exit"]
        with pytest.raises(KernelRefused, match="the kernel program cuda_exit is not loaded"):
            attach(kernel, Api.RUNTIME, 3, {MALLOC: 0x100})


class TestRoom:
    """Descriptors for single probes."""

    def test_library_without_room_for_all_its_probes_is_refused_before_the_first(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Two functions, four probes; three descriptors are free, beside those that are kept for other uses."""
        libbpf = FakeLibbpf()
        limit = len(list(Path("/proc/self/fd").iterdir())) + DESCRIPTORS_KEPT + 3
        monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
        with pytest.raises(NoDescriptors, match=r"it takes 4 file descriptors, one for each probe, and [123] are free"):
            attach(kernel_of(libbpf), Api.RUNTIME, 3, {MALLOC: 0x100, FREE: 0x200})

        assert libbpf.linked == {}

    def test_links_over_many_functions_take_two_descriptors(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """So they are not counted."""
        monkeypatch.setattr(resource, "getrlimit", lambda _: (0, 0))
        libbpf = FakeLibbpf()
        attach(kernel_of(libbpf, AttachKind.MULTI), Api.RUNTIME, 3, {MALLOC: 0x100, FREE: 0x200})

        assert len(libbpf.linked) == 2


class TestDetach:
    def test_entries_of_all_attachments_go_before_any_return(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """An entry without its return would leave every call open."""
        libbpf, close = FakeLibbpf(), os.close
        closed: list[int] = []
        monkeypatch.setattr(os, "close", lambda fd: (closed.append(fd), close(fd)))
        kernel = kernel_of(libbpf)
        attachments = [attach(kernel, Api.RUNTIME, fd, {MALLOC: 0x100}) for fd in (3, 4)]
        closed.clear()
        detach_all(attachments)

        links = [libbpf.linked[fd][1] for fd in closed if fd in libbpf.linked]
        assert [probe.is_return for link in links for probe in link] == [False, False, True, True]

    def test_it_may_be_called_twice(self) -> None:
        libbpf = FakeLibbpf()
        attachment = attach(kernel_of(libbpf), Api.RUNTIME, 3, {MALLOC: 0x100})
        attachment.detach()
        attachment.detach()

        assert (libbpf.uprobes, len(libbpf.linked), attachment.number) == ([], 2, NO_NUMBER)
