"""The library files that are known: under which identities each was met, which are probed, and whose share each is part of.

In: files that were examined. Out: the same file again when it is met again. Those that no process maps any more are detached.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection

from exporter.host.leases import Lease
from exporter.host.libraries import SkippedLibrary
from exporter.kernel import probes
from exporter.kernel.abi import Api
from exporter.kernel.apis import API_LABEL
from exporter.kernel.mapped_files import FileStamp, RealFile
from exporter.probes.file_prober import API_OF, FileIdentity, Probed
from exporter.probes.file_shares import FILES_OF_ANY_OWNER, FileShares

log = logging.getLogger(__name__)

WALKS_UNUSED = 2
CHECK_SECONDS = 0.5
"""Between two checks whether files that are not guarded are still in use."""
WALKS_LEFT_ALONE = 8
"""Then a file without probes is read again where the kernel cannot say whether it has changed."""
EXPECTED_MAX = 128
PLACES_MAX = 64
"""Names of one file that are remembered."""

Place = tuple[int, bytes]
"""Inode and path of a mapping."""


class KnownFiles:
    """Its caller has a lock, but for `probed` and `attached`, which are replaced as a whole. walk_number: of the current walk.

    attached: device, inode and generation of every guarded file with probes, as the kernel names them.
    changed: files with probes that were written to, by library.
    """

    def __init__(self, shares: FileShares) -> None:
        self.shares = shares
        self.walk_number = 0
        self.surplus: Counter[tuple[str, ...]] = Counter()
        self.changed: Counter[tuple[str, ...]] = Counter()
        self.probed: tuple[Probed, ...] = ()
        self.attached: frozenset[tuple[int, int, int]] = frozenset()
        self._next_check_at = 0.0
        self._files: dict[tuple[FileIdentity, Api], Probed] = {}  # a file may contain more than one library
        self._by_place: dict[Place, set[Probed]] = {}

    def get(self, identity: FileIdentity, api: Api) -> Probed | None:
        """The file, as the library of an API."""
        return self._files.get((identity, api))

    def all(self) -> list[Probed]:
        """Each file once."""
        return list(dict.fromkeys(self._files.values()))

    def add(
        self, file: Probed, owner: str, identities: Collection[FileIdentity], stamp: FileStamp | None = None
    ) -> None:
        """A new file, which takes a place of its owner's share. stamp: from before it was read."""
        file.owner, file.stamp, file.read_at_walk = owner, stamp, self.walk_number
        self.shares.take(owner)
        self._add_place(file, file.first_met)
        self.meet(file, identities)

    def leave_alone(
        self, found: SkippedLibrary, owner: str, identity: FileIdentity, stamp: FileStamp | None = None
    ) -> None:
        """Remember a file that is not probed, so that it is not opened again at every walk."""
        mapping, api = found.library.mapping, API_OF[found.library.kind]
        self.add(Probed(mapping.shown_path, (mapping.inode, mapping.path), api, None), owner, {identity}, stamp)

    def forget_changed(self, file: Probed, stamp: FileStamp | None) -> bool:
        """Whether it was written to since it was read, so that it must be read again: it is not known any more then.

        stamp: as it is now, where the kernel says it.
        """
        if file.lease is not None:
            return False  # end_of() comes first
        if stamp is None or file.stamp is None:
            is_changed = file.attachment is None and self.walk_number - file.read_at_walk >= WALKS_LEFT_ALONE
        else:
            is_changed = stamp != file.stamp
        if is_changed:
            self._detach_changed(file, "it has been written to")
        return is_changed

    def end_of(self, lease: Lease) -> None:
        """A lease is broken: its file is about to be written to."""
        for file in self.probed:
            if file.lease is lease:
                self._detach_changed(file, "it is opened for writing; it is probed again when it is closed")

    def _detach_changed(self, file: Probed, reason: str) -> None:
        if file.attachment is not None:
            self.changed[(API_LABEL[file.api],)] += 1
        self._detach([file])  # gives the lease back, after which a program writes
        if file.attachment is not None:
            log.info("detached from %s: %s", file.path, reason)

    def meet(self, file: Probed, identities: Collection[FileIdentity]) -> None:
        """Registers more identities of a file."""
        file.last_used_walk = self.walk_number
        file.identities.update(identities)
        self._files |= dict.fromkeys(((identity, file.api) for identity in identities), file)
        self._publish()

    def use(self, file: Probed, place: Place, tgid: int) -> None:
        """A process has it mapped under this name."""
        file.last_used_walk = self.walk_number
        self._add_place(file, place)
        self.add_user(file, tgid)

    def add_user(self, file: Probed, tgid: int) -> None:
        """A process has it mapped."""
        if file.attachment is not None and file.lease is None:
            file.users.add(tgid)

    def note_use(self, places: Collection[Place]) -> None:
        """These are mapped, as far as names show it: a file that has one of them stays."""
        for place in places:
            for file in self._by_place.get(place, ()):
                file.last_used_walk = self.walk_number

    def _add_place(self, file: Probed, place: Place) -> None:
        if len(file.places) < PLACES_MAX:
            file.places.add(place)
            self._by_place.setdefault(place, set()).add(file)

    def note_surplus(self, number: int, first: int) -> None:
        """The attachment `number` sees calls that the attachment `first` has counted. Both stay.

        A program of any user can make a call of its own arrive through two files, whatever these hold.
        """
        by_number = {file.attachment.number: file for file in self.probed if file.attachment}
        file, other = by_number.get(number), by_number.get(first)
        if file is None or other is None:
            return  # already detached
        self.surplus[(API_LABEL[file.api],)] += 1
        log.info("calls to %s are forwarded to %s: each is counted once", other.path, file.path)

    def has_room_for_expected(self, owner: str) -> bool:
        """As for all files, an owner may have as many as are free."""
        owners = [file.owner for file in self.all() if file.expected_until > 0.0]
        return owners.count(owner) < max(EXPECTED_MAX - len(owners), FILES_OF_ANY_OWNER)

    def detach_unused(self, now: float, kept: Collection[str] = ()) -> None:
        """Files that no process mapped in two whole walks, and that are not expected any more.

        kept: owners of processes that the walk has not read; their files stay.
        """
        for file in self.all():
            if file.owner in kept:
                file.last_used_walk = self.walk_number
        unused = [
            file
            for file in self.all()
            if self.walk_number - file.last_used_walk >= WALKS_UNUSED and file.expected_until <= now
        ]
        self._detach_unused(unused)

    def detach_unguarded(self, now: float, is_alive: Callable[[int], bool]) -> None:
        """Files without a lease, as soon as no process maps them: what is written into them then, the next process runs.

        Later is too late: a probe that comes into code that was written over damages it, and its removal does not repair it.
        """
        if now < self._next_check_at:
            return
        self._next_check_at = now + CHECK_SECONDS
        unused = []
        for file in self.probed:
            if file.lease is None and file.expected_until <= now:
                file.users = set(filter(is_alive, file.users))
                if not file.users:
                    unused.append(file)
        self._detach_unused(unused)

    def _detach_unused(self, files: Collection[Probed]) -> None:
        self._detach(files)
        for file in files:
            if file.attachment:
                log.info("detached from %s: no process maps it any more", file.path)

    def detach_all(self) -> None:
        self._detach(self.all())

    def _detach(self, files: Collection[Probed]) -> None:
        probes.detach_all(file.attachment for file in files if file.attachment)
        for file in files:
            self.shares.give_back(file.owner)
            for identity in file.identities:
                del self._files[identity, file.api]
            for place in file.places:
                self._by_place[place].discard(file)
                if not self._by_place[place]:
                    del self._by_place[place]
        self._publish()
        for file in files:  # at last: after that a program may write to it
            if file.lease is not None:
                file.lease.give_back()

    def _publish(self) -> None:
        self.probed = tuple(file for file in self.all() if file.attachment)
        self.attached = frozenset(
            (one.device, one.inode, one.generation)
            for file in self.probed
            if file.lease is not None
            for one in file.identities
            if isinstance(one, RealFile)
        )
