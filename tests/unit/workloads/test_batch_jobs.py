"""batch_jobs: the paths that managers give the cgroups of jobs."""

from __future__ import annotations

import pytest

from exporter.workloads.batch_jobs import BatchJob, batch_job

ALLOCATION = "5ccda8d0-1111-4222-8333-444455556666"


class TestBatchJob:
    @pytest.mark.parametrize(
        ("path", "manager", "name"),
        [
            ("slurm/uid_1000/job_123", "slurm", "job_123"),
            ("slurm_node7/uid_1000/job_123", "slurm", "job_123"),
            ("system.slice/slurmstepd.scope/job_123", "slurm", "job_123"),
            ("batch.slice/batch-gpu.slice/node7_slurmstepd.scope/job_123", "slurm", "job_123"),
            ("system.slice/slurmstepd.scope/sEKNKTV3WPV500", "slurm", "sEKNKTV3WPV500"),
            (f"nomad.slice/share.slice/{ALLOCATION}.trainer.scope", "nomad", "5ccda8d0.trainer"),
            (f"nomad.slice/reserve.slice/{ALLOCATION}.trainer.scope", "nomad", "5ccda8d0.trainer"),
            (f"nomad.slice/{ALLOCATION}.v1.5.scope", "nomad", "5ccda8d0.v1.5"),
            (f"nomad/{ALLOCATION}.trainer", "nomad", "5ccda8d0.trainer"),
            (f"nomad/reserve/{ALLOCATION}.trainer", "nomad", "5ccda8d0.trainer"),
            (f"nomad/{ALLOCATION}.a\u202eb", "nomad", "5ccda8d0.a\ufffdb"),
            ("htcondor/condor_var_lib_condor_execute_slot1", "htcondor", "slot1"),
            ("htcondor/condor_var_lib_condor_execute_slot1_2@node7.lan", "htcondor", "slot1_2@node7.lan"),
            ("system.slice/htcondor/condor_scratch_gpu_gpu2_11@my_node", "htcondor", "gpu2_11@my_node"),
            ("pbs_jobs.service/jobid/2404743.opbs", "pbs", "2404743.opbs"),
            ("pbs_jobs.service/jobid/12345[7].pbs-server", "pbs", "12345[7].pbs-server"),
            ("pbs_jobs.service/jobs/12345.2", "pbs", "12345.2"),
            ("pbspro.service/jobid/2761065.ehz100", "pbs", "2761065.ehz100"),
            ("torque/2125569.cluster.lan", "torque", "2125569.cluster.lan"),
            ("torque/2125569[4]", "torque", "2125569[4]"),
            ("hadoop-yarn/container_1_0013_01_000002", "yarn", "container_1_0013_01_000002"),
            ("hadoop-yarn/container_e17_1_0013_01_000002", "yarn", "container_e17_1_0013_01_000002"),
            ("lsf/euler/job.4711.12345.1700000000", "lsf", "job_4711"),
            ("lsf/euler/job.4711[3].12345.1700000000", "lsf", "job_4711[3]"),
            ("oar/alice_4711", "oar", "job_4711"),
            ("oar.slice/oar-u1000.slice/oar-u1000-j4711.slice", "oar", "job_4711"),
        ],
    )
    def test_job_has_the_name_that_its_manager_gives_it(self, path: str, manager: str, name: str) -> None:
        assert batch_job(path) == BatchJob(manager, name)

    @pytest.mark.parametrize(
        "path",
        [
            "",
            "jobs/job_123",
            "slurm/job_x",
            "slurm/uid_1000",
            "myslurm/job_12",
            "a/slurm/uid_0/job_12",
            "user.slice/slurm/uid_0/job_12",
            "user.slice/user-7.slice/slurmstepd.scope/job_12",
            "system.slice/slurmstepd.scope/sEKNKTV3WPVI00",
            "system.slice/slurmstepd.scope/system",
            "system.slice/slurmstepd.scope/a/job_12",
            f"nomad/{ALLOCATION[:8]}.trainer",
            f"nomad/{ALLOCATION}",
            f"a/nomad/{ALLOCATION}.trainer",
            f"a.slice/nomad.slice/{ALLOCATION}.trainer.scope",
            "htcondor/condor_var_lib_condor_execute",
            "a/htcondor/condor_x_slot1@n",
            "pbs_jobs.service/jobid",
            "a/pbs_jobs.service/jobid/7.server",
            "torque/alice",
            "hadoop-yarn/container_1",
            "lsf/euler/4711",
            "oar/4711",
        ],
    )
    def test_name_of_a_job_counts_in_its_place_only(self, path: str) -> None:
        """Any user may create a cgroup job_123 somewhere."""
        assert batch_job(path) is None

    def test_cgroup_below_a_job_is_none(self) -> None:
        """The job may have made it."""
        assert batch_job("slurm/uid_1000/job_123/step_0") is None
        assert batch_job(f"nomad/{ALLOCATION}.trainer/nomad/{ALLOCATION}.other") is None
