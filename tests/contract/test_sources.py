"""Licences: each source of bpf/ names its own, and the licence files are complete."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BPF_SOURCES = sorted((ROOT / "bpf").rglob("*.[ch]"))
DUAL = "SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause"


class TestLicences:
    """Apache-2.0 for the whole, GPL-2.0 or BSD-3-Clause at choice for what runs in the kernel."""

    @pytest.mark.parametrize("path", BPF_SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
    def test_bpf_source_names_its_licence_in_the_first_line(self, path: Path) -> None:
        """Like the kernel's own sources."""
        first = path.read_text(encoding="utf-8").splitlines()[0]

        assert first in (f"// {DUAL}", f"/* {DUAL} */")

    @pytest.mark.parametrize("path", sorted((ROOT / "bpf").glob("*.bpf.c")), ids=lambda path: path.name)
    def test_program_names_a_licence_that_the_kernel_accepts(self, path: Path) -> None:
        """Some helpers are for programs under the GPL only."""
        assert 'char LICENSE[] SEC("license") = "Dual BSD/GPL";' in path.read_text(encoding="utf-8")

    def test_top_licence_is_apache_2_in_full(self) -> None:
        """From the first heading to the appendix."""
        text = (ROOT / "LICENSE").read_text(encoding="utf-8")

        assert "Apache License\n                           Version 2.0, January 2004" in text
        assert all(f"\n   {number}. " in text for number in range(1, 10))
        assert "END OF TERMS AND CONDITIONS" in text

    def test_bpf_licence_has_both(self) -> None:
        """Both in full, so that a recipient of the objects can choose and read one without a network."""
        text = (ROOT / "bpf" / "LICENSE").read_text(encoding="utf-8")

        assert text.startswith(f"{DUAL}\n")
        assert "GNU GENERAL PUBLIC LICENSE Version 2, June 1991" in " ".join(text.split())
        assert all(f"\n  {number}. " in text for number in range(13))
        assert "END OF TERMS AND CONDITIONS" in text
        assert all(
            phrase in " ".join(text.split())
            for phrase in (
                "Redistributions of source code must retain the above copyright notice",
                "Redistributions in binary form must reproduce the above copyright notice",
                "Neither the name of the copyright holder nor the names of its contributors",
                "THIS SOFTWARE IS PROVIDED BY THE COPYRIGHT HOLDERS AND CONTRIBUTORS",
            )
        )
