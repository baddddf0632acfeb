"""Attaches the call programs to the functions of one library file, by the best means the kernel has.

In: a loaded Kernel, an open descriptor of the library, file offsets by symbol. Out: an Attachment that can be detached.
The file is named by the descriptor, so what was examined is what is probed, wherever its path leads by now.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from exporter.errors import KernelRefused
from exporter.kernel import libbpf as bpf
from exporter.kernel.abi import Api
from exporter.kernel.loader import AttachKind, Kernel
from exporter.kernel.operations import wanted_symbols

SUBJECT_OF = {Api.RUNTIME: "cuda", Api.DRIVER: "cuda", Api.NCCL: "nccl"}


@dataclass(slots=True)
class Attachment:
    """The probes on one library file. functions: the exported symbols that are probed, one per address."""

    api: Api
    kind: AttachKind
    functions: tuple[str, ...]
    _kernel: Kernel
    _descriptors: list[int] = field(default_factory=list)
    _handles: list[int] = field(default_factory=list)

    def detach(self) -> None:
        """Remove every probe; twice is harmless."""
        while self._descriptors:
            os.close(self._descriptors.pop())
        while (
            self._handles
        ):  # kernel 6.18 waits 0.1 s for each, one after the other; a link over many functions waits once
            self._kernel.libbpf.destroy_link(self._handles.pop())


def attach(kernel: Kernel, api: Api, library_fd: int, offsets: Mapping[str, int]) -> Attachment:
    """Probe every wanted function of `offsets` (symbol -> file offset). Raises KernelRefused, leaving no probe behind.

    Two symbols at one address (ncclAllReduce, pncclAllReduce) are one function and probed once, under the first name wanted.
    """
    path = f"/proc/self/fd/{library_fd}"
    cookies: dict[int, int] = {}
    functions: list[str] = []
    for symbol, cookie in wanted_symbols(api).items():
        offset = offsets.get(symbol)
        if offset is not None and offset not in cookies:
            cookies[offset] = cookie
            functions.append(symbol)
    attachment = Attachment(api, kernel.attach_kind, tuple(functions), kernel)
    if not cookies:
        return attachment
    try:
        if kernel.attach_kind is AttachKind.SINGLE:
            _attach_single(attachment, path, cookies)
        else:
            _attach_linked(attachment, path, cookies)
    except KernelRefused:
        attachment.detach()
        raise
    return attachment


def _attach_linked(attachment: Attachment, path: str, cookies: dict[int, int]) -> None:
    kernel, subject = attachment._kernel, SUBJECT_OF[attachment.api]
    programs = (
        ((f"{subject}_session", bpf.TRACE_UPROBE_SESSION, 0),)
        if kernel.attach_kind is AttachKind.SESSION
        # The return first: an entry without its return would leave a call open.
        else (
            (f"{subject}_exit", bpf.TRACE_UPROBE_MULTI, bpf.UPROBE_MULTI_RETURN),
            (f"{subject}_enter", bpf.TRACE_UPROBE_MULTI, 0),
        )
    )
    for name, attach_type, flags in programs:
        program_fd = kernel.libbpf.program_fd(_program(kernel, name))
        attachment._descriptors.append(
            kernel.libbpf.link_uprobes(
                program_fd, attach_type, path, list(cookies), list(cookies.values()), flags=flags
            )
        )


def _attach_single(attachment: Attachment, path: str, cookies: dict[int, int]) -> None:
    kernel, subject = attachment._kernel, SUBJECT_OF[attachment.api]
    for name, is_return in ((f"{subject}_exit", True), (f"{subject}_enter", False)):
        program = _program(kernel, name)
        for offset, cookie in cookies.items():
            attachment._handles.append(kernel.libbpf.attach_uprobe(program, path, offset, cookie, is_return=is_return))


def _program(kernel: Kernel, name: str) -> int:
    program = kernel.programs.get(name)
    if program is None:
        raise KernelRefused(f"the kernel program {name} is not loaded")
    return program
