"""Which Slurm job a process belongs to, and what of its own word is taken."""

from __future__ import annotations

from exporter.workloads.slurm import SlurmJob, slurm_job

ENVIRONMENT = {
    "SLURM_JOB_ID": "4711",
    "SLURM_JOB_NAME": "pretraining",
    "SLURM_JOB_PARTITION": "h100",
    "SLURM_JOB_ACCOUNT": "vision",
}


class TestJob:
    """slurm_job()."""

    def test_environment_tells_the_names(self) -> None:
        """Of the job that the cgroup names."""
        assert slurm_job(ENVIRONMENT, "4711") == SlurmJob("4711", "pretraining", "h100", "vision")

    def test_environment_is_enough_where_the_cgroup_is_none_of_slurm_s(self) -> None:
        """As in a container, or with cgroups switched off."""
        assert slurm_job(ENVIRONMENT, "") == SlurmJob("4711", "pretraining", "h100", "vision")

    def test_cgroup_is_enough(self) -> None:
        """For the id."""
        assert slurm_job({}, "4711") == SlurmJob("4711")

    def test_names_of_another_job_are_not_taken(self) -> None:
        """A process may have inherited them, or made them up."""
        assert slurm_job(ENVIRONMENT, "12") == SlurmJob("12")

    def test_older_name_of_the_id_is_known(self) -> None:
        """SLURM_JOBID."""
        assert slurm_job({"SLURM_JOBID": "123"}, "") == SlurmJob("123")

    def test_malformed_id_is_none(self) -> None:
        """And the next variable is asked."""
        assert slurm_job({"SLURM_JOB_ID": "12;rm", "SLURM_JOBID": "12"}, "") == SlurmJob("12")

    def test_names_without_an_id_are_not_taken(self) -> None:
        """They would belong to no job."""
        assert slurm_job({"SLURM_JOB_NAME": "pretraining"}, "") == SlurmJob()

    def test_what_cannot_be_printed_is_replaced(self) -> None:
        """A name is text of whoever submitted the job."""
        assert slurm_job({"SLURM_JOB_ID": "1", "SLURM_JOB_NAME": "a\nb"}, "").name == "a\ufffdb"
