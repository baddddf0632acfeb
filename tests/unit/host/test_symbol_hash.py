"""symbol_hash: the two hash functions. Look-ups with them are in test_elf.py, over images of whole libraries."""

from __future__ import annotations

import pytest

from exporter.host.symbol_hash import gnu_hash, sysv_hash


@pytest.mark.parametrize(("name", "value"), [(b"", 5381), (b"ab", 5863208), (b"printf", 0x156B2BB8)])
def test_gnu_hash_follows_glibc(name: bytes, value: int) -> None:
    """`ab` is ((5381 * 33) + 97) * 33 + 98."""
    assert gnu_hash(name) == value


@pytest.mark.parametrize(("name", "value"), [(b"", 0), (b"ab", 0x672), (b"printf", 0x077905A6)])
def test_sysv_hash_follows_the_gabi(name: bytes, value: int) -> None:
    """`ab` is (97 << 4) + 98."""
    assert sysv_hash(name) == value
