"""slurm: the job of a process, and when its environment counts."""

from __future__ import annotations

from exporter.workloads.slurm import SlurmJob, slurm_job

ENVIRONMENT = {
    "SLURM_JOB_ID": "4711",
    "SLURM_JOB_NAME": "pretraining",
    "SLURM_JOB_PARTITION": "h100",
    "SLURM_JOB_ACCOUNT": "vision",
}


class TestJob:
    def test_names_are_read_from_the_environment(self) -> None:
        """When it has the job of the cgroup."""
        assert slurm_job(ENVIRONMENT, "4711") == SlurmJob("4711", "pretraining", "h100", "vision")

    def test_environment_is_enough_without_a_cgroup_of_slurm(self) -> None:
        """As in a container, or with cgroups disabled."""
        assert slurm_job(ENVIRONMENT, "") == SlurmJob("4711", "pretraining", "h100", "vision")

    def test_cgroup_is_enough_for_the_id(self) -> None:
        assert slurm_job({}, "4711") == SlurmJob("4711")

    def test_names_of_another_job_do_not_count(self) -> None:
        """A process may have inherited or invented them."""
        assert slurm_job(ENVIRONMENT, "12") == SlurmJob("12")

    def test_older_variable_of_the_id_counts(self) -> None:
        """SLURM_JOBID."""
        assert slurm_job({"SLURM_JOBID": "123"}, "") == SlurmJob("123")

    def test_sluid_of_the_cgroup_is_the_id(self) -> None:
        """Since Slurm 26.05; any process may claim a number."""
        own = {**ENVIRONMENT, "SLURM_JOB_SLUID": "sEKNKTV3WPV500"}

        assert slurm_job(own, "sEKNKTV3WPV500") == SlurmJob("sEKNKTV3WPV500", "pretraining", "h100", "vision")
        assert slurm_job(ENVIRONMENT, "sEKNKTV3WPV500").name == "pretraining"
        assert slurm_job(own, "s5K1KKYAYG5D00") == SlurmJob("s5K1KKYAYG5D00")

    def test_malformed_id_does_not_count(self) -> None:
        """The next variable is read."""
        assert slurm_job({"SLURM_JOB_ID": "12;rm", "SLURM_JOBID": "12"}, "") == SlurmJob("12")

    def test_names_without_an_id_do_not_count(self) -> None:
        assert slurm_job({"SLURM_JOB_NAME": "pretraining"}, "") == SlurmJob()

    def test_names_are_made_printable(self) -> None:
        """The user chooses them."""
        assert slurm_job({"SLURM_JOB_ID": "1", "SLURM_JOB_NAME": "a\nb"}, "").name == "a\ufffdb"
