"""workloads with hostile text: an answer of the documented form, never an exception."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.model import Identity
from exporter.workloads.batch_jobs import MANAGERS
from exporter.workloads.container import container_label, parse_cgroup
from exporter.workloads.rank import ENVIRONMENT_NAMES, rank_from_communicators, rank_from_environment

HEX64 = "0123456789abcdef" * 4
UID = "0a1b2c3d-1111-4222-8333-444455556666"
PIECES = (
    f"/ docker {HEX64} {HEX64[:63]} docker-{HEX64}.scope kubepods burstable kubepods.slice pod{UID} slurm uid_0 job_1"
    f" step_0 step_x .. lxc lxc.payload. libpod-{HEX64} crio-conmon-{HEX64}.scope user@1.service a.service ecs : 0::"
    f" \\x2f \\x2d \\x00 \n (deleted) kubepods-pod{UID.replace('-', '_')}.slice system.slice:docker:{HEX64}"
    " slurmstepd.scope sEKNKTV3WPV500 nomad nomad.slice share.slice 5ccda8d0-1111-4222-8333-444455556666.\u202ea"
    " htcondor condor_x_slot1@n pbs_jobs.service jobid 7.pbs lsf c job.7.1 oar u_7 user.slice"
).split(" ")

paths = st.lists(st.sampled_from(PIECES), max_size=25).map("/".join)
texts = st.one_of(st.text(st.characters(), max_size=300), paths.map("0::/".__add__), paths)
values = st.one_of(
    st.text(st.characters(), max_size=12), st.integers(-5, 2 * 10**7).map(str), st.sampled_from(["0", "1", "8", "none"])
)


class TestHostileText:
    """Text that a process chooses."""

    @settings(max_examples=300, deadline=None)
    @given(texts)
    def test_container_of_any_text_has_the_documented_form(self, text: str) -> None:
        """Each part is empty or of its own form."""
        found = parse_cgroup(text)

        runtimes = ("", "docker", "containerd", "crio", "podman", "kubernetes", "lxc", "systemd")
        assert found.runtime in runtimes or found.runtime == found.manager in MANAGERS
        if found.runtime != "lxc":
            assert re.fullmatch(r"|[0-9a-f]{64}|[0-9a-f]{32}-[0-9]{1,12}", found.id)
        assert re.fullmatch(r"|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}", found.pod_uid)
        assert re.fullmatch(r"|[0-9]{1,10}|s[0-9A-Z]{13}", found.slurm_job_id)
        assert bool(found.manager) == bool(found.job)
        assert found.runtime or found == parse_cgroup("")
        assert container_label(found).isprintable()

    def test_megabytes_of_cgroup_are_read_quickly(self) -> None:
        """Text, segments of a path, and so the time are limited."""
        for piece in ("/", "a/", "kubepods-", "-kubepods-pod", "lxc/", "slurm/job_1/", "\\x2d", "0::/a\n", ":"):
            parse_cgroup("0::/" + piece * 10**6)

    @settings(max_examples=250, deadline=None)
    @given(st.dictionaries(st.sampled_from(sorted(ENVIRONMENT_NAMES)), values))
    def test_rank_of_any_environment_is_a_number_below_its_size(self, environment: dict[str, str]) -> None:
        """Or empty."""
        found = rank_from_environment(environment)

        for number in (found.rank, found.local_rank, found.world_size):
            assert re.fullmatch(r"|0|[1-9][0-9]{0,7}", number)
        assert not (found.rank and found.world_size) or int(found.rank) < int(found.world_size)
        assert bool(found.rank) == bool(found.source)

    @settings(max_examples=200, deadline=None)
    @given(
        st.lists(st.tuples(st.integers(0, 3), st.integers(-1, 5), st.integers(-1, 5), st.integers(0, 3)), max_size=6)
    )
    def test_rank_of_any_communicators_is_one_of_theirs(self, rows: list[tuple[int, int, int, int]]) -> None:
        """Or empty."""
        assert rank_from_communicators(rows) in {"", *(str(rank) for _, rank, _, _ in rows)}

    @settings(max_examples=200, deadline=None)
    @given(st.text(st.characters(), max_size=200))
    def test_label_of_any_text_is_printable(self, text: str) -> None:
        """And can be encoded as UTF-8."""
        value = Identity(node=text).node

        assert value.isprintable()
        assert len(value.encode()) <= 128 * 4
