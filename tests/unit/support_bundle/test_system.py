"""system: what it says of this process, without names."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.support_bundle.machine import Machine
from exporter.support_bundle.system import cgroups, environment


class TestCgroups:
    @pytest.mark.parametrize(
        ("path", "shown"),
        [
            ("/system.slice/train.service", "/system.slice/….service"),
            ("/user.slice/user-1000.slice", "/user.slice/user-1000.slice"),
            (
                "/kubepods.slice/kubepods-pod01234567_89ab_cdef_0123_456789abcdef.slice",
                "/kubepods.slice/kubepods-pod<id>.slice",
            ),
            ("/alice", "/…"),
        ],
    )
    def test_only_words_of_container_runtimes_are_shown(self, path: str, shown: str, tmp_path: Path) -> None:
        (tmp_path / "proc/self").mkdir(parents=True)
        (tmp_path / "proc/self/mountinfo").write_text("")
        (tmp_path / "proc/self/cgroup").write_text(f"0::{path}\n")

        assert cgroups(Machine(tmp_path, {}))["own"] == [f"0::{shown}"]


class TestEnvironment:
    def test_only_values_that_cannot_be_secret_are_shown(self) -> None:
        assert environment({"LANG": "C.UTF-8", "API_KEY": "abc"}) == {"LANG": "C.UTF-8", "API_KEY": "set"}
