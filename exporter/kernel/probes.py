"""Attaches the call programs to the functions of one library file, in the best way that the kernel supports.

In: a loaded Kernel, an open descriptor of the library, file offsets by symbol. Out: an Attachment that can be detached.
The file is named by its descriptor: the file that was examined is probed, even if its path is another file by now.
"""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from exporter.config.probes import AttachKind
from exporter.errors import KernelRefused
from exporter.kernel import libbpf as bpf
from exporter.kernel.abi import Api, Cookie
from exporter.kernel.apis import SUBJECT_OF
from exporter.kernel.attachment_numbers import NO_NUMBER
from exporter.kernel.loader import Kernel, call_programs
from exporter.kernel.operations import wanted_symbols
from exporter.kernel.uprobe_events import EVENTS_MAX

Removal = Callable[[], None]
_RETURN = "_exit"
"""End of the names of programs on returns."""
_NO_FILE = -1
DESCRIPTORS_KEPT = 320
"""For connections (256 by default), files and children, beside those of single probes."""
_LOCK = threading.Lock()
"""Held while links are added to an attachment or taken from it: a recording does so in a thread of its own."""


class NoDescriptors(KernelRefused):
    """Too few file descriptors are left for the single probes of a library."""


class _Once:
    """A removal that happens once: with the recording that wanted the link, or with the attachment, whichever ends first."""

    def __init__(self, removal: Removal) -> None:
        self._removal: Removal | None = removal

    def __call__(self) -> None:
        with _LOCK:
            removal, self._removal = self._removal, None
        if removal is not None:
            removal()


@dataclass(slots=True)
class Attachment:
    """The probes on one library file. functions: the probed symbols, one per address.

    number: distinguishes its calls from those of other attachments; NO_NUMBER if none was free. _file: a descriptor of the
    library, for observe(); the links hold on to the file as well. _cookies: by offset.
    """

    api: Api
    kind: AttachKind
    functions: tuple[str, ...]
    number: int
    _kernel: Kernel
    _entries: list[Removal] = field(default_factory=list)
    _returns: list[Removal] = field(default_factory=list)
    _cookies: Mapping[int, int] = field(default_factory=dict)
    _file: int = _NO_FILE

    @property
    def kind_label(self) -> str:
        """The attachment kind in metrics."""
        return self._kernel.kind_label

    def detach(self) -> None:
        """Remove every probe; may be called twice."""
        detach_all((self,))

    def observe(self, program: int) -> Removal | None:
        """Run another program at each entry of a probed function, before those that trace the call.

        It is removed with the attachment, or by the result, which may be called twice. None: the attachment has ended. Raises
        KernelRefused.
        """
        with _LOCK:
            if self._file == _NO_FILE:
                return None
            removals: list[Removal] = []
            try:
                _link_entries(self._kernel, program, self._file, self._cookies, removals)
            finally:
                removal = _Once(partial(_run_in_parallel, removals))
                self._entries.append(removal)
            return removal

    def _close_file(self) -> None:
        if self._file != _NO_FILE:
            os.close(self._file)
            self._file = _NO_FILE

    def _release_number(self) -> None:
        self._kernel.numbers.give_back(self.number, self._kernel.maps)
        self.number = NO_NUMBER

    def _keep_removal(self, program: str, removal: Removal) -> None:
        """Keep how to remove a new probe."""
        (self._returns if program.endswith(_RETURN) else self._entries).append(removal)


REMOVERS = 32


def detach_all(attachments: Iterable[Attachment]) -> None:
    """Remove the probes of all attachments in parallel: the kernel waits 0.05 s for each link, and the waits overlap.

    Entries first: an entry without its return would leave every call open. The waits for perf events (AttachKind.SINGLE), 0.1
    s each, do not overlap, because perf_uprobe_destroy() holds `event_mutex`. May be called twice.
    """
    entries: list[Removal] = []
    returns: list[Removal] = []
    attachments = list(attachments)
    with _LOCK:
        for attachment in attachments:
            entries += attachment._entries
            returns += attachment._returns
            attachment._entries, attachment._returns = [], []
            attachment._close_file()
    _run_in_parallel(entries)
    _run_in_parallel(returns)
    for attachment in attachments:
        attachment._release_number()


def _run_in_parallel(removals: Sequence[Removal]) -> None:
    if len(removals) < 2:
        for removal in removals:
            removal()
        return
    with ThreadPoolExecutor(min(len(removals), REMOVERS), thread_name_prefix="detach") as removers:
        for future in [removers.submit(removal) for removal in removals]:
            future.result()


def attach(kernel: Kernel, api: Api, library_fd: int, offsets: Mapping[str, int]) -> Attachment:
    """Probe every wanted function of `offsets` (symbol -> file offset). On KernelRefused no probe is left.

    Two symbols at one address (ncclAllReduce, pncclAllReduce) are one function and probed once, under the first wanted name.
    """
    cookies: dict[int, int] = {}
    functions: list[str] = []
    for symbol, cookie in wanted_symbols(api).items():
        offset = offsets.get(symbol)
        if offset is not None and offset not in cookies:
            cookies[offset] = cookie
            functions.append(symbol)
    if not cookies:
        return Attachment(api, kernel.attach_kind, (), NO_NUMBER, kernel)
    number = kernel.numbers.take(kernel.maps)
    cookies = {offset: cookie | number << Cookie.ATTACHMENT for offset, cookie in cookies.items()}
    attachment = Attachment(api, kernel.attach_kind, tuple(functions), number, kernel, _cookies=cookies)
    with suppress(OSError):  # too many are open: it cannot be observed
        attachment._file = os.dup(library_fd)
    try:
        if kernel.attach_kind is AttachKind.SINGLE:
            _attach_single(attachment, library_fd, cookies)
        else:
            _attach_linked(attachment, library_fd, cookies)
    except BaseException:
        attachment.detach()
        raise
    return attachment


def _attach_linked(attachment: Attachment, library_fd: int, cookies: dict[int, int]) -> None:
    kernel, subject = attachment._kernel, SUBJECT_OF[attachment.api]
    for name, attach_type in call_programs(subject, kernel.attach_kind, with_returns=kernel.with_returns).items():
        flags = bpf.UPROBE_MULTI_RETURN if name.endswith(_RETURN) else 0
        program_fd = kernel.libbpf.program_fd(_program(kernel, name))
        link_fd = kernel.libbpf.link_uprobes(
            program_fd, attach_type, _path(library_fd), list(cookies), list(cookies.values()), flags=flags
        )
        attachment._keep_removal(name, partial(os.close, link_fd))


def _attach_single(attachment: Attachment, library_fd: int, cookies: dict[int, int]) -> None:
    kernel, subject = attachment._kernel, SUBJECT_OF[attachment.api]
    names = call_programs(subject, kernel.attach_kind, with_returns=kernel.with_returns)
    _refuse_without_room(len(names) * len(cookies))
    for name in names:
        program = _program(kernel, name)
        for link_fd in _event_links(kernel, program, library_fd, cookies, is_return=name.endswith(_RETURN)):
            attachment._keep_removal(name, partial(os.close, link_fd))


def _event_links(
    kernel: Kernel, program: int, library_fd: int, cookies: Mapping[int, int], *, is_return: bool
) -> Iterator[int]:
    """A descriptor of a link for each offset: it holds the event. Raises KernelRefused."""
    program_fd, offsets = kernel.libbpf.program_fd(program), list(cookies)
    for first in range(0, len(offsets), EVENTS_MAX):
        some = offsets[first : first + EVENTS_MAX]
        events = kernel.event_source.uprobes(library_fd, some, is_return=is_return)
        try:
            for offset, event in zip(some, events, strict=True):
                yield kernel.libbpf.link_event(program_fd, event, cookies[offset])
        finally:
            for event in events:
                os.close(event)


def _refuse_without_room(wanted: int) -> None:
    """A library has hundreds of single probes. Without descriptors left, nothing could be read or served any more."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = limit - len(list(Path("/proc/self/fd").iterdir())) - DESCRIPTORS_KEPT
    if wanted > free:
        raise NoDescriptors(
            f"it takes {wanted} file descriptors, one for each probe, and {max(free, 0)} are free",
            remedy="raise the limit of open files, such as LimitNOFILE of the unit",
        )


def observing_type(kernel: Kernel) -> int:
    """The expected attach type of a program for Attachment.observe()."""
    return 0 if kernel.attach_kind is AttachKind.SINGLE else bpf.TRACE_UPROBE_MULTI


def _link_entries(
    kernel: Kernel, program: int, library_fd: int, cookies: Mapping[int, int], removals: list[Removal]
) -> None:
    libbpf = kernel.libbpf
    if kernel.attach_kind is AttachKind.SINGLE:
        _refuse_without_room(len(cookies))
        for link_fd in _event_links(kernel, program, library_fd, cookies, is_return=False):
            removals.append(partial(os.close, link_fd))
        return
    link_fd = libbpf.link_uprobes(
        libbpf.program_fd(program), bpf.TRACE_UPROBE_MULTI, _path(library_fd), list(cookies), list(cookies.values())
    )
    removals.append(partial(os.close, link_fd))


def _path(library_fd: int) -> str:
    return f"/proc/self/fd/{library_fd}"


def _program(kernel: Kernel, name: str) -> int:
    program = kernel.programs.get(name)
    if program is None:
        raise KernelRefused(f"the kernel program {name} is not loaded")
    return program
