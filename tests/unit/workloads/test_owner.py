"""owner: who answers for a process."""

from __future__ import annotations

from exporter.workloads.owner import Owner, owner_of

DOCKER = "a" * 64
INNER = "b" * 64
POD_UID = "11111111-2222-3333-4444-555555555555"
USER = Owner("uid 1000", "uid 1000")


class TestOwner:
    def test_container_is_the_owner_whatever_the_user(self) -> None:
        text = f"0::/system.slice/docker-{DOCKER}.scope\n"

        assert owner_of(text, 0) == owner_of(text, 1000) == Owner(f"container {DOCKER}", "a" * 12)

    def test_user_is_the_owner_outside_containers(self) -> None:
        """A service, a session, no cgroup at all."""
        assert owner_of("0::/system.slice/ssh.service\n", 1000) == USER
        assert owner_of("0::/user.slice/user-1000.slice/session-3.scope\n", 1000) == USER
        assert owner_of("", 1000) == USER

    def test_outermost_container_counts(self) -> None:
        """A program may make containers in its own."""
        text = f"0::/docker/{DOCKER}/docker/{INNER}\n"

        assert owner_of(text, 0).key == f"container {DOCKER}"

    def test_cgroup_of_a_user_is_no_container(self) -> None:
        """A user may create cgroups of any name below its own."""
        text = f"0::/user.slice/user-1000.slice/user@1000.service/docker-{DOCKER}.scope\n"

        assert owner_of(text, 1000) == USER

    def test_cgroup_of_a_service_is_no_container(self) -> None:
        """A service that may create cgroups chooses their names."""
        assert owner_of(f"0::/system.slice/foo.service/libpod-payload-{DOCKER}\n", 1000) == USER

    def test_pod_is_the_owner_while_its_container_is_unknown(self) -> None:
        assert owner_of(f"0::/kubepods/pod{POD_UID}\n", 0) == Owner(f"container {POD_UID}", f"pod {POD_UID}")

    def test_container_of_a_pod_is_the_owner(self) -> None:
        assert owner_of(f"0::/kubepods/pod{POD_UID}/{DOCKER}/nested/deeper\n", 0).key == f"container {DOCKER}"

    def test_container_in_one_hierarchy_of_version_1_is_found(self) -> None:
        """The others may show the root."""
        assert owner_of(f"3:memory:/docker/{DOCKER}\n0::/\n", 0).key == f"container {DOCKER}"

    def test_text_without_cgroups_is_ignored(self) -> None:
        """Written by a process: lines of other forms, a path of thousands of segments."""
        assert owner_of("nothing\n0::" + "/x" * 20_000, 1000) == USER
