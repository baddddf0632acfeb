"""NCCL as a Python program uses it: the entry points of libnccl.so.2, called through ctypes."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

_FLOAT32, _SUM = 7, 0


class UniqueId(ctypes.Structure):
    """128 bytes, passed by value."""

    _fields_ = (("internal", ctypes.c_char * 128),)


class NcclError(Exception):
    """A call that did not return 0."""


def unique_id() -> bytes:
    """A name for a new communicator, which rank 0 gives to the others."""
    made = UniqueId()
    _checked("ncclGetUniqueId", ctypes.CDLL("libnccl.so.2").ncclGetUniqueId(ctypes.byref(made)))
    return bytes(made)


def _checked(name: str, code: int) -> None:
    if code:
        raise NcclError(f"{name}: {code}")


class Communicator:
    """This rank's place among the others. Collectives are enqueued on a stream; sizes are counts of float32."""

    def __init__(self, name: bytes, world: int, rank: int) -> None:
        self._library = ctypes.CDLL("libnccl.so.2")
        self._comm = ctypes.c_void_p()
        self._call("ncclCommInitRank", ctypes.byref(self._comm), world, UniqueId.from_buffer_copy(name), rank)

    def _call(self, name: str, *arguments: object) -> None:
        _checked(name, getattr(self._library, name)(*arguments))

    def all_reduce(self, buffer: ctypes.c_void_p, count: int, stream: ctypes.c_void_p) -> None:
        """The sum over all ranks."""
        self._call("ncclAllReduce", buffer, buffer, ctypes.c_size_t(count), _FLOAT32, _SUM, self._comm, stream)

    def all_gather(self, buffer: ctypes.c_void_p, count: int, stream: ctypes.c_void_p) -> None:
        """The parts of all ranks. count: of one part."""
        self._call("ncclAllGather", buffer, buffer, ctypes.c_size_t(count), _FLOAT32, self._comm, stream)

    def reduce_scatter(self, buffer: ctypes.c_void_p, count: int, stream: ctypes.c_void_p) -> None:
        """A part of the sum. count: of one part."""
        self._call("ncclReduceScatter", buffer, buffer, ctypes.c_size_t(count), _FLOAT32, _SUM, self._comm, stream)

    def all_to_all(self, buffer: ctypes.c_void_p, count: int, stream: ctypes.c_void_p | None) -> None:
        """A part for each rank, and one from each. count: of one part."""
        self._call("ncclAlltoAll", buffer, buffer, ctypes.c_size_t(count), _FLOAT32, self._comm, stream)

    @contextmanager
    def group(self) -> Iterator[None]:
        """What the block enqueues starts together."""
        self._call("ncclGroupStart")
        yield
        self._call("ncclGroupEnd")

    def send(self, buffer: ctypes.c_void_p, count: int, peer: int, stream: ctypes.c_void_p | None) -> None:
        """To one other rank."""
        self._call("ncclSend", buffer, ctypes.c_size_t(count), _FLOAT32, peer, self._comm, stream)

    def receive(self, buffer: ctypes.c_void_p, count: int, peer: int, stream: ctypes.c_void_p | None) -> None:
        """From one other rank."""
        self._call("ncclRecv", buffer, ctypes.c_size_t(count), _FLOAT32, peer, self._comm, stream)
