"""Memory of an interpreter, changed as by a hostile process: bits flipped, pointers to any other piece, sizes at the edges."""

from __future__ import annotations

import random

from tests.support.python_memory import MadeMemory

SIZES = (0, 1, 7, 8, 0xFF, 0x7FFF_FFFF, 0xFFFF_FFFF, 1 << 62, 1 << 63, (1 << 64) - 1)


class ChangedMemory:
    """words: a pointer is to one of the first so many words of a piece."""

    def __init__(self, memory: MadeMemory, *, words: int) -> None:
        self._memory = memory
        self._words = words
        self._whole = {address: bytes(piece) for address, piece in memory.pieces.items()}
        self._used = {address: len(piece.rstrip(b"\0")) + 16 for address, piece in self._whole.items()}
        self.places = list(self._whole)

    def restore(self) -> None:
        """As it was, without pieces that were added."""
        for address in [address for address in self._memory.pieces if address not in self._whole]:
            del self._memory.pieces[address]
        for address, piece in self._memory.pieces.items():
            piece[:] = self._whole[address]

    def change(self, seed: random.Random) -> None:
        """One to six places, which are in use."""
        for _ in range(seed.randint(1, 6)):
            address = seed.choice(self.places)
            piece = self._memory.pieces[address]
            at = seed.randrange(min(self._used[address], len(piece) - 8))
            match seed.randrange(4):
                case 0:
                    piece[at] ^= 1 << seed.randrange(8)
                case 1:
                    self._memory.set_word(address + (at & ~7), seed.choice(SIZES))
                case 2:
                    pointer = seed.choice(self.places) + 8 * seed.randrange(self._words)
                    self._memory.set_word(address + (at & ~7), pointer)
                case _:
                    piece[at : at + 8] = seed.randbytes(8)
