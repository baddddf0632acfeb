"""reserved: no program, container or cgroup gets a name that means something else."""

from __future__ import annotations

import pytest

from exporter.text.reserved import RESERVED, NameOf, marked, marked_word


class TestMarked:
    @pytest.mark.parametrize("name", sorted(RESERVED))
    def test_reserved_name_has_a_mark(self, name: str) -> None:
        assert marked(name, NameOf.CONTAINER) == f"{name} (container)"
        assert marked_word(name, NameOf.PROGRAM) == f"{name} (program)"

    @pytest.mark.parametrize("name", ["Hypervisor", "OTHER", "other ", " outside", "\uff4fther", "\ufffdhypervisor"])
    def test_case_spaces_and_other_forms_of_letters_make_no_difference(self, name: str) -> None:
        assert marked(name, NameOf.CGROUP) == f"{name} (cgroup)"

    @pytest.mark.parametrize("name", ["stress-ng", "others", "kernel-build", "python3", ""])
    def test_any_other_name_is_unchanged(self, name: str) -> None:
        assert marked(name, NameOf.PROGRAM) == marked_word(name, NameOf.PROGRAM) == name

    @pytest.mark.parametrize(
        "name",
        [
            *("sshd.service", "a.scope", "0123456789ab", "train/job-0", "make (children)", "other (program)"),
            *("job_4711", "job_4711[3]", "sEKNKTV3WPV500", "4711.server", "5ccda8d0.trainer", "slot1_2@node7"),
        ],
    )
    def test_word_in_the_form_of_another_kind_has_a_mark(self, name: str) -> None:
        """That is a unit, a container, a batch job, a pod, or another mark."""
        assert marked_word(name, NameOf.PROGRAM) == f"{name} (program)"
