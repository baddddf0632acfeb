"""container: names of cgroups that a tenant may choose."""

from __future__ import annotations

import pytest

from exporter.workloads.container import container_label, seen_from
from tests.unit.workloads.test_container import ALLOCATION, BURSTABLE, ID, STATIC, UID, at

VICTIM = "beef" * 16
VICTIM_UID = "99999999-1111-4222-8333-444455556666"
POD_SLICE = f"kubepods-burstable-pod{VICTIM_UID.replace('-', '_')}.slice"
CLAIMS = (
    f"docker/{VICTIM}",
    f"docker-{VICTIM}.scope",
    f"system.slice/docker-{VICTIM}.scope",
    f"cri-containerd-{VICTIM}.scope",
    f"crio-{VICTIM}",
    f"libpod-{VICTIM}",
    f"system.slice:docker:{VICTIM}",
    f"{POD_SLICE}:cri-containerd:{VICTIM}",
    f"kubepods/pod{VICTIM_UID}/{VICTIM}",
    f"kubepods/burstable/pod{VICTIM_UID}",
    f"a/kubepods/besteffort/pod{VICTIM_UID}/crio-{VICTIM}",
    f"kubepods.slice/kubepods-burstable.slice/{POD_SLICE}/cri-containerd-{VICTIM}.scope",
    f"kubelet/kubepods/pod{VICTIM_UID}/{VICTIM}",
    f"kubelet.slice/kubelet-kubepods.slice/kubelet-{POD_SLICE}/cri-containerd-{VICTIM}.scope",
    f"{POD_SLICE}/{VICTIM}",
    f"pod{VICTIM_UID}/{VICTIM}",
    f"ecs/{VICTIM[:32]}/{VICTIM}",
    f"ecs/cluster/task/{VICTIM[:32]}-1234567890",
    "lxc/victim",
    "lxc.payload.victim",
    "slurm/uid_0/job_666/step_0",
    "slurmstepd.scope/job_666/step_0",
    "system.slice/slurmstepd.scope/job_666",
    "system.slice/slurmstepd.scope/sEKNKTV3WPV500",
    "nomad/99999999-1111-4222-8333-444455556666.victim",
    "nomad.slice/share.slice/99999999-1111-4222-8333-444455556666.victim.scope",
    "system.slice/htcondor/condor_execute_slot6@node",
    "pbs_jobs.service/jobid/666.server",
    "lsf/cluster/job.666.1.2",
    "torque/666.server",
    "hadoop-yarn/container_1_0666_01_000001",
    "oar/victim_666",
    "oar.slice/oar-u0.slice/oar-u0-j666.slice",
    f"../docker/{VICTIM}",
    VICTIM,
    f"k8s.io/{VICTIM}",
    f"default/{VICTIM}",
    f"besteffort/pod{VICTIM_UID}/{VICTIM}",
)
PLACES = (
    f"/docker/{ID}",
    f"/system.slice/docker-{ID}.scope",
    f"/kubepods/burstable/pod{UID}/{ID}",
    f"{BURSTABLE}/cri-containerd-{ID}.scope",
    f"/../../pod{UID}/{ID}",
    f"/../../../besteffort/pod{UID}/{ID}",
    f"/k8s.io/{ID}",
    f"/default/{ID}",
    f"/my-runtime/{ID}",
    f"/../cri-containerd-{ID}.scope",
    f"/machine.slice/libpod-{ID}.scope",
    "/lxc/web1",
    "/lxc.payload.web1",
    f"/ecs/my-cluster/{STATIC}/{ID}",
    "/slurm/uid_1000/job_123/step_0/task_0",
    "/system.slice/slurmstepd.scope/job_123/step_0/user/task_0",
    "/system.slice/slurmstepd.scope/s5K1KKYAYG5D00/step_0/user/task_0",
    f"/nomad.slice/share.slice/{ALLOCATION}.trainer.scope",
    f"/nomad/{ALLOCATION}.trainer",
    "/system.slice/htcondor/condor_execute_slot1_2@node7",
    "/pbs_jobs.service/jobid/4711.server",
    "/lsf/euler/job.4711.1.2",
    "/torque/4711.server",
    "/hadoop-yarn/container_1_0013_01_000002",
    "/oar.slice/oar-u1000.slice/oar-u1000-j4711.slice",
    "/system.slice/vllm.service",
    "/user.slice/user-1000.slice/user@1000.service",
    "/user.slice/user-1000.slice/user@1000.service/app.slice/jupyter.service",
    "/user.slice/user-1000.slice/session-3.scope",
    "/tenants/a",
)


class TestClaims:
    """A tenant makes cgroups with the names of another container, pod or job below its own."""

    @pytest.mark.parametrize("place", PLACES)
    @pytest.mark.parametrize("claim", CLAIMS)
    def test_tenant_does_not_become_another_one(self, place: str, claim: str) -> None:
        """Its label is its own, or ends with its own name in parentheses."""
        own = seen_from(at(place), "")
        path = f"{place}/a/{claim}" if claim.startswith("..") else f"{place}/{claim}"
        found = seen_from(at(path), "")
        label = container_label(found)

        assert found.pod_uid == own.pod_uid
        assert found.unconfirmed_id == own.unconfirmed_id
        assert (found.manager, found.job) == (own.manager, own.job)
        if own.id:
            assert (found.id, found.runtime, label) == (own.id, own.runtime, container_label(own))
        elif label not in (container_label(own), ""):
            assert found.owner
            assert label.endswith(f" ({found.owner})")

    @pytest.mark.parametrize("place", PLACES)
    def test_unit_in_a_tenant_s_cgroup_is_no_service_of_the_machine(self, place: str) -> None:
        own, found = at(place), at(f"{place}/sshd.service")

        assert container_label(found) in (container_label(own), "sshd.service (uid 1000)")
