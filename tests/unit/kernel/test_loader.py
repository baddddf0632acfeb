"""kernel.loader: which objects and programs are loaded for what. Loading itself is tested with a kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.config.probes import AttachKind
from exporter.errors import NotPossibleHere
from exporter.kernel import libbpf as bpf
from exporter.kernel import loader
from exporter.kernel.loader import call_programs, collector_of, subject_of, subjects_of
from tests.support.fake_libbpf import FakeLibbpf, kernel_of


class TestSubjects:
    def test_processes_and_their_files_are_always_there(self) -> None:
        assert subjects_of(()) == ("process", "mappings")

    def test_collector_may_need_several_objects(self) -> None:
        assert subjects_of(["sched"])[2:] == ("sched", "reclaim", "fault", "interrupt", "threads")

    def test_collector_without_an_entry_has_the_object_of_its_name(self) -> None:
        assert subjects_of(["nccl"])[2:] == ("nccl",)

    def test_collector_of_the_host_needs_none(self) -> None:
        assert subjects_of(["cpu"])[2:] == ()

    @pytest.mark.parametrize(("collectors", "loaded"), [(["memory"], ("memory", "pages")), (["cpu"], ())])
    def test_requested_object_is_loaded_with_its_collector(
        self, collectors: list[str], loaded: tuple[str, ...]
    ) -> None:
        assert subjects_of(collectors, ["pages"])[2:] == loaded

    @pytest.mark.parametrize(
        ("subject", "collector"), [("reclaim", "sched"), ("nccl", "nccl"), ("pages", "memory"), ("stacks", "chains")]
    )
    def test_failure_of_an_object_belongs_to_a_collector(self, subject: str, collector: str) -> None:
        assert collector_of(subject) == collector

    def test_failure_of_a_program_belongs_to_its_object(self) -> None:
        assert [subject_of(name) for name in ("sched", "sched_switch")] == ["sched", "sched"]


class TestCallPrograms:
    def test_return_comes_before_the_entry(self) -> None:
        """Otherwise a call could stay open."""
        assert list(call_programs("cuda", AttachKind.MULTI)) == ["cuda_exit", "cuda_enter"]

    def test_session_is_one_program(self) -> None:
        assert call_programs("nccl", AttachKind.SESSION) == {"nccl_session": bpf.TRACE_UPROBE_SESSION}

    def test_without_returns_calls_are_counted(self) -> None:
        assert call_programs("cuda", AttachKind.SINGLE, with_returns=False) == {"cuda_count": 0}


class TestKernel:
    def test_label_of_the_kind_says_that_only_entries_are_probed(self) -> None:
        libbpf = FakeLibbpf()

        assert kernel_of(libbpf, AttachKind.MULTI).kind_label == "multi"
        assert kernel_of(libbpf, AttachKind.MULTI, with_returns=False).kind_label == "entry"

    def test_iterator_that_is_not_loaded_writes_nothing(self) -> None:
        kernel = kernel_of(FakeLibbpf())

        assert (kernel.iterate("threads_read"), kernel.iterate_thread("stacks_read", 7)) == (b"", b"")

    def test_iterator_of_one_thread_is_attached_to_it(self) -> None:
        libbpf = FakeLibbpf()
        libbpf.iterator_output = lambda tid: b"of %d" % tid
        kernel = kernel_of(libbpf)
        kernel.programs["stacks_read"] = 99

        assert kernel.iterate_thread("stacks_read", 7) == b"of 7"


class TestLoad:
    def test_kernel_without_btf_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(NotPossibleHere) as raised:
            loader.load(btf=tmp_path / "vmlinux")

        assert raised.value.one_line() == (
            f"this kernel has no BTF at {tmp_path}/vmlinux; use a kernel built with CONFIG_DEBUG_INFO_BTF"
        )
