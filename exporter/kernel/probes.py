"""Attaches the call programs to the functions of one library file, by the best means the kernel has.

In: a loaded Kernel, an open descriptor of the library, file offsets by symbol. Out: an Attachment that can be detached.
The file is named by the descriptor, so what was examined is what is probed, wherever its path leads by now.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from exporter.config.probes import AttachKind, LaunchMode
from exporter.errors import KernelRefused
from exporter.kernel import libbpf as bpf
from exporter.kernel.abi import Api, Cookie
from exporter.kernel.attachment_numbers import NO_NUMBER
from exporter.kernel.loader import Kernel, call_programs
from exporter.kernel.operations import wanted_symbols

Removal = Callable[[], None]
_RETURN = "_exit"
"""How the names of programs end that see returns."""
SUBJECT_OF = {Api.RUNTIME: "cuda", Api.DRIVER: "cuda", Api.NCCL: "nccl"}


@dataclass(slots=True)
class Attachment:
    """The probes on one library file. functions: the exported symbols that are probed, one per address.

    number: by which the programs tell its calls from those of another attachment; NO_NUMBER when none was free.
    """

    api: Api
    kind: AttachKind
    functions: tuple[str, ...]
    number: int
    _kernel: Kernel
    _entries: list[Removal] = field(default_factory=list)
    _returns: list[Removal] = field(default_factory=list)

    @property
    def kind_label(self) -> str:
        """How it is attached, as it is shown."""
        return self._kernel.kind_label

    def detach(self) -> None:
        """Remove every probe; twice is harmless."""
        detach_all((self,))

    def _give_number_back(self) -> None:
        self._kernel.numbers.give_back(self.number, self._kernel.maps)
        self.number = NO_NUMBER

    def _note(self, program: str, removal: Removal) -> None:
        """How a probe that was just made is removed."""
        (self._returns if program.endswith(_RETURN) else self._entries).append(removal)


REMOVERS = 32


def detach_all(attachments: Iterable[Attachment]) -> None:
    """Remove the probes of them all, at the same time: the kernel waits 0.05 s for each link, and for all of them at once.

    Entries first: one without its return would leave every call open. For perf events (AttachKind.SINGLE) the kernel waits 0.1 s
    each and lets nobody else wait meanwhile: `event_mutex` is held in perf_uprobe_destroy(). Twice is harmless.
    """
    entries: list[Removal] = []
    returns: list[Removal] = []
    attachments = list(attachments)
    for attachment in attachments:
        entries += attachment._entries
        returns += attachment._returns
        attachment._entries, attachment._returns = [], []
    _do_at_once(entries)
    _do_at_once(returns)
    for attachment in attachments:
        attachment._give_number_back()


def _do_at_once(removals: Sequence[Removal]) -> None:
    if len(removals) < 2:
        for removal in removals:
            removal()
        return
    with ThreadPoolExecutor(min(len(removals), REMOVERS), thread_name_prefix="detach") as removers:
        for future in [removers.submit(removal) for removal in removals]:
            future.result()


def attach(
    kernel: Kernel, api: Api, library_fd: int, offsets: Mapping[str, int], *, launch_mode: LaunchMode = LaunchMode.FULL
) -> Attachment:
    """Probe every wanted function of `offsets` (symbol -> file offset). Raises KernelRefused, leaving no probe behind.

    Two symbols at one address (ncclAllReduce, pncclAllReduce) are one function and probed once, under the first name wanted.
    """
    path = f"/proc/self/fd/{library_fd}"
    cookies: dict[int, int] = {}
    functions: list[str] = []
    for symbol, cookie in wanted_symbols(api, launch_mode=launch_mode).items():
        offset = offsets.get(symbol)
        if offset is not None and offset not in cookies:
            cookies[offset] = cookie
            functions.append(symbol)
    if not cookies:
        return Attachment(api, kernel.attach_kind, (), NO_NUMBER, kernel)
    number = kernel.numbers.take(kernel.maps)
    cookies = {offset: cookie | number << Cookie.ATTACHMENT for offset, cookie in cookies.items()}
    attachment = Attachment(api, kernel.attach_kind, tuple(functions), number, kernel)
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
    for name, attach_type in call_programs(subject, kernel.attach_kind, with_returns=kernel.with_returns).items():
        flags = bpf.UPROBE_MULTI_RETURN if name.endswith(_RETURN) else 0
        program_fd = kernel.libbpf.program_fd(_program(kernel, name))
        link_fd = kernel.libbpf.link_uprobes(
            program_fd, attach_type, path, list(cookies), list(cookies.values()), flags=flags
        )
        attachment._note(name, partial(os.close, link_fd))


def _attach_single(attachment: Attachment, path: str, cookies: dict[int, int]) -> None:
    kernel, subject = attachment._kernel, SUBJECT_OF[attachment.api]
    for name in call_programs(subject, kernel.attach_kind, with_returns=kernel.with_returns):
        program, is_return = _program(kernel, name), name.endswith(_RETURN)
        for offset, cookie in cookies.items():
            link = kernel.libbpf.attach_uprobe(program, path, offset, cookie, is_return=is_return)
            attachment._note(name, partial(kernel.libbpf.destroy_link, link))


def _program(kernel: Kernel, name: str) -> int:
    program = kernel.programs.get(name)
    if program is None:
        raise KernelRefused(f"the kernel program {name} is not loaded")
    return program
