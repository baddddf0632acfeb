"""system: what it says of this process, without names."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.support_bundle.machine import Machine
from exporter.support_bundle.system import cgroups, environment, system


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

    def test_mounts_have_their_options_and_missing_controllers_a_reason(self, tmp_path: Path) -> None:
        (tmp_path / "proc/self").mkdir(parents=True)
        (tmp_path / "proc/self/mountinfo").write_text(
            "31 23 0:27 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
        )
        (tmp_path / "proc/self/cgroup").write_text("0::/\n")
        found = cgroups(Machine(tmp_path, {}))

        assert found["mounts"] == [{"at": "/sys/fs/cgroup", "type": "cgroup2", "options": "rw,nsdelegate"}]
        assert found["controllers"] == "cannot be read: No such file or directory"


class TestSystem:
    def test_capabilities_of_the_process_are_included(self, tmp_path: Path) -> None:
        (tmp_path / "proc/self").mkdir(parents=True)
        (tmp_path / "proc/self/status").write_text("Name:\tx\nCapEff:\t000000c000080004\nSeccomp:\t2\n")

        assert system(Machine(tmp_path, {}))["capabilities"]["CapEff"] == "000000c000080004"


class TestEnvironment:
    def test_only_values_that_cannot_be_secret_are_shown(self) -> None:
        assert environment({"LANG": "C.UTF-8", "API_KEY": "abc"}) == {"LANG": "C.UTF-8", "API_KEY": "set"}
