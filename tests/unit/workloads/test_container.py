"""container: every form of cgroup path that runtimes write."""

from __future__ import annotations

import pytest

from exporter.workloads.container import Container, confirmed, container_label, parse_cgroup, seen_from

ID = "3f1b" + "0123456789abcdef" * 3 + "cafe" * 3
OTHER = "77aa" * 16
UID = "0a1b2c3d-1111-4222-8333-444455556666"
UID_ = UID.replace("-", "_")
STATIC = "0123456789abcdef0123456789abcdef"
BURSTABLE = f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID_}.slice"


def at(path: str) -> Container:
    return parse_cgroup(f"0::{path}\n")


class TestDocker:
    """Docker with both cgroup drivers, and containers in containers."""

    def test_cgroupfs_driver(self) -> None:
        """/docker/<id>."""
        assert at(f"/docker/{ID}") == Container(id=ID, runtime="docker")

    def test_systemd_driver(self) -> None:
        """A scope in system.slice."""
        assert at(f"/system.slice/docker-{ID}.scope") == Container(id=ID, runtime="docker", unit=f"docker-{ID}.scope")

    def test_rootless(self) -> None:
        """A scope below the user's service manager."""
        found = at(f"/user.slice/user-1000.slice/user@1000.service/user.slice/docker-{ID}.scope")

        assert (found.id, found.runtime) == (ID, "docker")

    def test_slice_and_id_in_one_segment(self) -> None:
        """What runc writes when a systemd name reaches the cgroupfs driver."""
        assert at(f"/system.slice:docker:{ID}") == Container(id=ID, runtime="docker")

    def test_service_inside_of_a_container(self) -> None:
        """A container that runs systemd: it names the workload, and the unit is known as well."""
        found = at(f"/docker/{ID}/system.slice/foo.service")

        assert found == Container(id=ID, runtime="docker", unit="foo.service")

    def test_docker_in_docker_gives_the_outer_container(self) -> None:
        """Whatever runs in the outer one can give a cgroup the name of any container."""
        assert at(f"/docker/{OTHER}/docker/{ID}").id == OTHER
        assert at(f"/system.slice/docker-{OTHER}.scope/system.slice/docker-{ID}.scope").id == OTHER

    def test_build_is_no_container(self) -> None:
        """BuildKit's names have 25 other characters."""
        assert at("/docker/buildkit/xt5j3h0p9ri1o4aqhypxf5bca") == Container()

    def test_ecs_task(self) -> None:
        """Old and new task paths of the ECS agent, and Fargate's own ids."""
        fargate = f"{STATIC}-1234567890"

        assert at(f"/ecs/55091c13-b8cf-4801-b527-f4601742204d/{ID}") == Container(id=ID, runtime="docker")
        assert at(f"/ecs/my-cluster/{STATIC}/{ID}") == Container(id=ID, runtime="docker")
        assert at(f"/ecs/{STATIC}/{fargate}") == Container(id=fargate, runtime="containerd")


class TestKubernetes:
    """Pods, with both drivers and each runtime."""

    @pytest.mark.parametrize(
        "quality", ["burstable/", "besteffort/", ""], ids=["burstable", "besteffort", "guaranteed"]
    )
    def test_cgroupfs_driver(self, quality: str) -> None:
        """The runtime is not in the path."""
        assert at(f"/kubepods/{quality}pod{UID}/{ID}") == Container(id=ID, runtime="kubernetes", pod_uid=UID)

    @pytest.mark.parametrize(
        ("prefix", "runtime"), [("cri-containerd", "containerd"), ("crio", "crio"), ("docker", "docker")]
    )
    def test_systemd_driver(self, prefix: str, runtime: str) -> None:
        """Underscores stand for the dashes of the uid."""
        scope = f"{prefix}-{ID}.scope"

        assert at(f"{BURSTABLE}/{scope}") == Container(id=ID, runtime=runtime, pod_uid=UID, unit=scope)

    def test_guaranteed_pod_is_directly_in_kubepods(self) -> None:
        """Without a slice of its quality class."""
        assert at(f"/kubepods.slice/kubepods-pod{UID_}.slice/cri-containerd-{ID}.scope").pod_uid == UID

    def test_static_pod_keeps_its_32_digits(self) -> None:
        """A pod from a file has a hash as uid."""
        assert at(f"/kubepods/burstable/pod{STATIC}/{ID}").pod_uid == STATIC
        assert at(f"/kubepods.slice/kubepods-burstable-pod{STATIC}.slice/crio-{ID}.scope").pod_uid == STATIC

    def test_containerd_without_systemd_support(self) -> None:
        """Slice, runtime and id in one segment, below containerd's own service."""
        found = at(f"/system.slice/containerd.service/kubepods-burstable-pod{UID_}.slice:cri-containerd:{ID}")

        assert (found.id, found.runtime, found.pod_uid) == (ID, "containerd", UID)

    def test_crio_cgroupfs_driver(self) -> None:
        """CRI-O keeps its prefix."""
        assert at(f"/kubepods/burstable/pod{UID}/crio-{ID}") == Container(id=ID, runtime="crio", pod_uid=UID)

    def test_conmon_of_crio_is_no_container(self) -> None:
        """It runs outside of the container, and belongs to the pod."""
        found = at(f"{BURSTABLE}/crio-conmon-{ID}.scope")

        assert (found.id, found.pod_uid) == ("", UID)

    def test_pod_without_container(self) -> None:
        """The pod's own cgroup."""
        assert at(f"/kubepods/burstable/pod{UID}") == Container(runtime="kubernetes", pod_uid=UID)

    @pytest.mark.parametrize(
        "path",
        [
            f"/docker/{OTHER}/kubelet/kubepods/besteffort/pod{UID}/{ID}",
            f"/docker/{OTHER}/kubepods/burstable/pod{UID}/{ID}",
            f"/system.slice/docker-{OTHER}.scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice"
            f"/kubelet-kubepods-burstable-pod{UID_}.slice/cri-containerd-{ID}.scope",
        ],
        ids=["kubelet", "old kind", "systemd"],
    )
    def test_kind_gives_the_inner_container(self, path: str) -> None:
        """The node of a kind cluster is itself a container: the exporter runs in it."""
        found = seen_from(at(path), OTHER)

        assert (found.id, found.pod_uid, found.node) == (ID, UID, None)

    @pytest.mark.parametrize("machine_id", ["", ID])
    def test_pod_in_a_container_does_not_count_elsewhere(self, machine_id: str) -> None:
        """Any container could have these cgroups."""
        found = seen_from(at(f"/docker/{OTHER}/kubelet/kubepods/besteffort/pod{UID}/{ID}"), machine_id)

        assert found == Container(id=OTHER, runtime="docker")

    def test_docker_inside_of_a_pod_keeps_the_pod(self) -> None:
        """A build in a CI pod."""
        found = at(f"/kubepods/burstable/pod{UID}/{OTHER}/docker/{ID}")

        assert found == Container(id=OTHER, runtime="kubernetes", pod_uid=UID)

    @pytest.mark.parametrize(
        "path",
        [
            f"/../../kubepods-burstable-pod{UID_}.slice/cri-containerd-{ID}.scope",
            f"/../../pod{UID}/{ID}",
            f"/../../../besteffort/../kubepods/pod{UID}/{ID}",
            f"/../../../besteffort/pod{UID}/{ID}",
            f"/../../burstable/pod{UID}/{ID}",
            f"/../../burstable/pod{UID}/crio-{ID}",
            f"/../../../kubepods-besteffort.slice/kubepods-besteffort-pod{UID_}.slice/cri-containerd-{ID}.scope",
        ],
    )
    def test_path_in_a_cgroup_namespace(self, path: str) -> None:
        """Its upper part is only dots."""
        assert (at(path).id, at(path).pod_uid) == (ID, UID)

    def test_neighbour_in_the_same_pod(self) -> None:
        """The prefix is sufficient; a bare id is not."""
        assert at(f"/../cri-containerd-{ID}.scope").id == ID
        assert at(f"/../{ID}") == Container()

    @pytest.mark.parametrize(
        "path",
        [f"/../burstable/besteffort/pod{UID}/{ID}", f"/../a/burstable/pod{UID}/{ID}", f"/burstable/pod{UID}/{ID}"],
    )
    def test_folder_of_a_quality_class_counts_in_its_place_only(self, path: str) -> None:
        """Beside a folder of ours; pods have no other one in between."""
        assert at(path) == Container()

    def test_escaped_dashes(self) -> None:
        r"""systemd writes a dash inside of a name as \x2d."""
        assert at(rf"/kubepods.slice/kubepods\x2dpod{UID_}.slice/crio\x2d{ID}.scope").id == ID


class TestPodman:
    """As root and rootless."""

    @pytest.mark.parametrize(
        "path",
        [
            f"/machine.slice/libpod-{ID}.scope",
            f"/machine.slice/libpod-{ID}.scope/container",
            f"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope/container",
            f"/machine.slice/machine-libpod_pod_{OTHER}.slice/libpod-{ID}.scope",
            f"/libpod_parent/libpod-{ID}",
            f"/system.slice/foo.service/libpod-payload-{ID}",
        ],
        ids=["root", "crun", "rootless", "pod", "cgroupfs", "quadlet"],
    )
    def test_container(self, path: str) -> None:
        """Every place Podman puts a container."""
        assert (at(path).id, at(path).runtime) == (ID, "podman")

    @pytest.mark.parametrize("path", [f"/machine.slice/libpod-conmon-{ID}.scope", "/libpod_parent/conmon"])
    def test_conmon_is_no_container(self, path: str) -> None:
        """It runs outside of the container."""
        assert at(path).id == ""


class TestOthers:
    """nerdctl, LXC and systemd."""

    def test_nerdctl(self) -> None:
        """containerd without Kubernetes."""
        assert at(f"/system.slice/nerdctl-{ID}.scope").runtime == "containerd"

    @pytest.mark.parametrize("namespace", ["default", "k8s.io"])
    def test_namespace_of_containerd_at_the_root(self, namespace: str) -> None:
        """Without systemd: nerdctl's, and that of pods that have no cgroup of their own."""
        assert at(f"/{namespace}/{ID}") == Container(id=ID, runtime="containerd")
        assert at(f"/a/{namespace}/{ID}") == Container()

    @pytest.mark.parametrize("path", [f"/{ID}", f"/my-runtime/{ID}", f"/my-runtime/{ID}/a", f"/../{ID}", f"/../a/{ID}"])
    def test_bare_id_in_another_place_of_root_is_unconfirmed(self, path: str) -> None:
        """Only root makes cgroups there; what the digits are the orchestrator knows."""
        assert (at(path).id, at(path).unconfirmed_id) == ("", ID)
        assert confirmed(at(path), UID) == Container(id=ID, runtime="kubernetes", pod_uid=UID)

    def test_unconfirmed_id_beside_a_unit(self) -> None:
        """Version 2 has the units, version 1 the controllers."""
        text = f"4:memory:/my-runtime/{ID}\n0::/system.slice/containerd.service\n"

        assert parse_cgroup(text).unconfirmed_id == ID

    @pytest.mark.parametrize(
        "path",
        [
            f"/tenants/a/{ID}",
            f"/user.slice/{ID}",
            f"/system.slice/foo.service/{ID}",
            f"/docker/{OTHER}/{ID}",
            f"/../pod{UID}/{OTHER}/{ID}",
            f"/my-runtime/{OTHER}/{ID}",
            "/my-runtime/container-1",
        ],
    )
    def test_id_that_a_tenant_may_have_chosen_is_not_even_unconfirmed(self, path: str) -> None:
        assert at(path).unconfirmed_id != ID

    @pytest.mark.parametrize(
        ("path", "name"),
        [
            ("/lxc/web1", "web1"),
            ("/lxc/101/ns", "101"),
            ("/lxc.payload/web1", "web1"),
            ("/lxc.payload.c1/system.slice/ssh.service", "c1"),
            ("/lxc.payload.project_c1", "project_c1"),
        ],
    )
    def test_lxc(self, path: str, name: str) -> None:
        """LXC and Incus give a container a name, Proxmox a number."""
        assert (at(path).id, at(path).runtime) == (name, "lxc")

    def test_lxc_monitor_is_no_container(self) -> None:
        """It runs outside of the container."""
        assert at("/lxc.monitor.web1") == Container()
        assert at("/lxc.monitor/web1") == Container()

    @pytest.mark.parametrize(
        ("path", "unit"),
        [
            ("/system.slice/vllm.service", "vllm.service"),
            ("/system.slice/vllm.service/workers/3", "vllm.service"),
            ("/system.slice/system-getty.slice/getty@tty1.service", "getty@tty1.service"),
            (r"/system.slice/my\x2dapp.service", r"my\x2dapp.service"),
            ("/user.slice/user-1000.slice/session-3.scope", "session-3.scope"),
            ("/user.slice/user-1000.slice/user@1000.service/app.slice/jupyter.service", "jupyter.service"),
            ("/init.scope", "init.scope"),
            ("/user.slice", "user.slice"),
        ],
    )
    def test_systemd(self, path: str, unit: str) -> None:
        """The innermost unit, by its name in systemctl."""
        assert at(path) == Container(runtime="systemd", unit=unit)


ALLOCATION = "5ccda8d0-1111-4222-8333-444455556666"


class TestBatchJobs:
    """Jobs by the cgroups that batch managers make."""

    @pytest.mark.parametrize(
        "path",
        [
            "/slurm/uid_1000/job_123/step_0/task_0",
            "/slurm_node7/uid_1000/job_123/step_batch",
            "/slurm/uid_1000/job_123",
            "/slurm/uid_1000/job_123/step_0+1/task_0",
            "/system.slice/slurmstepd.scope/job_123/step_0/user/task_0",
            "/system.slice/slurmstepd.scope/job_123/step_interactive/user/task_0",
            "/system.slice/node7_slurmstepd.scope/job_123/step_extern/user/task_special",
            "/batch.slice/batch-gpu.slice/batch-gpu-a.slice/slurmstepd.scope/job_123/step_0/user/task_0",
            "/../../system.slice/slurmstepd.scope/job_123/step_0/user/task_0",
        ],
    )
    def test_slurm(self, path: str) -> None:
        """The job, whatever the step. Versions 1 and 2 of cgroups, several nodes on one machine, a CgroupSlice."""
        assert at(path) == Container(runtime="slurm", manager="slurm", job="job_123")
        assert (container_label(at(path)), at(path).slurm_job_id) == ("job_123", "123")

    @pytest.mark.parametrize("scope", ["slurmstepd.scope", "node1_slurmstepd.scope"])
    def test_slurm_since_26_05_names_a_job_by_its_sluid(self, scope: str) -> None:
        """The examples of cgroup.conf(5)."""
        found = at(f"/system.slice/{scope}/sEKNKTV3WPV500/step_0/user/task_0")

        assert (container_label(found), found.slurm_job_id) == ("sEKNKTV3WPV500", "sEKNKTV3WPV500")

    def test_waiting_area_of_slurm_is_no_job(self) -> None:
        assert at("/system.slice/slurmstepd.scope/system") == Container(runtime="systemd", unit="slurmstepd.scope")

    @pytest.mark.parametrize(
        ("path", "manager", "label"),
        [
            (f"/nomad.slice/reserve.slice/{ALLOCATION}.trainer.scope/a", "nomad", "5ccda8d0.trainer"),
            ("/pbs_jobs.service/jobid/12345[7].pbs-server/child", "pbs", "12345[7].pbs-server"),
            ("/oar.slice/oar-u1000.slice/oar-u1000-j4711.slice/oar-u1000-j4711-s1.scope", "oar", "job_4711"),
        ],
    )
    def test_job_is_the_label_and_no_unit(self, path: str, manager: str, label: str) -> None:
        """Its cgroup may be named as a scope that systemctl does not know."""
        assert at(path) == Container(runtime=manager, manager=manager, job=label)
        assert (container_label(at(path)), at(path).slurm_job_id) == (label, "")

    @pytest.mark.parametrize(
        "path",
        [
            f"/system.slice/docker-{ID}.scope",
            f"/nomad.slice/docker-{ID}.scope",
            f"/nomad.slice/share.slice/docker-{ID}.scope",
            f"/nomad.slice/libpod-{ID}.scope/container",
        ],
    )
    def test_container_of_nomad_is_one_of_its_runtime(self, path: str) -> None:
        """Its drivers for Docker and Podman let the runtime make the cgroup."""
        assert (container_label(at(path)), at(path).owner) == (ID[:12], "")

    @pytest.mark.parametrize(
        ("job", "owner"),
        [
            ("/system.slice/slurmstepd.scope/job_123/step_0/user/task_0", "job_123"),
            ("/system.slice/slurmstepd.scope/sEKNKTV3WPV500/step_0/user/task_0", "sEKNKTV3WPV500"),
            (f"/nomad.slice/share.slice/{ALLOCATION}.trainer.scope", "5ccda8d0.trainer"),
        ],
    )
    def test_container_in_a_batch_job_is_both(self, job: str, owner: str) -> None:
        """The container names the workload, and the job is known as well."""
        found = at(f"{job}/libpod-{ID}")

        assert (found.id, found.runtime, found.job) == (ID, "podman", owner)
        assert container_label(found) == f"{ID[:12]} ({owner})"

    def test_job_of_flux_is_a_service_of_its_user(self) -> None:
        """Any user may start a service of that name."""
        manager = "/user.slice/user-500.slice/user@500.service"
        first, second = (at(f"{manager}/app.slice/imp-shell-0-{job}.service") for job in ("fTE9HHdZvi3", "fTE9J2aBc1d"))

        assert container_label(first) == "imp-shell-0-fTE9HHdZvi3.service (uid 500)"
        assert container_label(second) == "imp-shell-0-fTE9J2aBc1d.service (uid 500)"

    @pytest.mark.parametrize(
        ("path", "label"),
        [
            ("/user.slice/user-7.slice/user@7.service/user.slice/apptainer-4032.scope", ""),
            ("/system.slice/apptainer-4032.scope", ""),
            ("/apptainer/4032", ""),
            ("/slurm/uid_7/job_123/step_0/task_0/apptainer-4032.scope", "job_123"),
        ],
    )
    def test_container_of_apptainer_has_no_name_of_its_own(self, path: str, label: str) -> None:
        """Its scope is named by a process id."""
        assert container_label(at(path)) == label

    @pytest.mark.parametrize(
        ("text", "label"),
        [
            ("4:memory:/pbs_jobs.service/jobid/1.pbs\n1:name=systemd:/system.slice/pbs.service\n0::/\n", "1.pbs"),
            ("4:memory:/htcondor/condor_x_slot1_1@n\n1:name=systemd:/system.slice/condor.service\n", "slot1_1@n"),
            (f"4:cpuset:/nomad/share\n3:memory:/nomad/{ALLOCATION}.a\n0::/system.slice/nomad.service\n", "5ccda8d0.a"),
        ],
    )
    def test_job_is_preferred_to_the_manager_s_service(self, text: str, label: str) -> None:
        """In version 1 some controllers stay with the manager."""
        assert container_label(parse_cgroup(text)) == label


class TestLines:
    """Which of several lines counts."""

    def test_controller_with_a_container_is_preferred(self) -> None:
        """Controllers of version 1 may have different paths."""
        text = f"12:rdma:/\n11:pids:/system.slice/docker.service\n4:memory:/docker/{ID}\n1:name=systemd:/x\n0::/\n"

        assert parse_cgroup(text).id == ID

    def test_hybrid_hierarchy(self) -> None:
        """Version 2 has the units, version 1 the controllers."""
        text = f"2:cpu,cpuacct:/kubepods/pod{UID}/{ID}\n0::/system.slice/containerd.service\n"

        assert (parse_cgroup(text).id, parse_cgroup(text).pod_uid) == (ID, UID)

    def test_slurm_job_is_preferred_to_the_daemon_s_service(self) -> None:
        """Some controllers stay with slurmd."""
        text = "4:memory:/slurm/uid_0/job_9/step_0\n1:name=systemd:/system.slice/slurmd.service\n"

        assert parse_cgroup(text).job == "job_9"

    def test_deleted_cgroup(self) -> None:
        """Version 2 marks the cgroup of a zombie whose cgroup was removed."""
        assert at(f"/docker/{ID} (deleted)").id == ID

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "\n\n",
            "0::/",
            "0::",
            "garbage",
            f"0::/{ID}",
            f"0::/foo/{ID}",
            "4:memory:/process_api/fd90b7e1e944ca345283fc5f5b5082bf",
            f"0::/docker/{ID[:63]}",
            f"0::/docker/{ID}0",
            f"0::/docker/{ID.upper()}",
            f"0::/docker-{ID}",
            f"0::/pod{UID}/{ID}",
            f"x::/docker/{ID}",
            f"0::docker/{ID}",
            f"/docker/{ID}",
        ],
    )
    def test_unknown_forms_give_no_container(self, text: str) -> None:
        """Digits in an unknown form are not an id."""
        assert parse_cgroup(text) == Container()

    def test_text_cut_at_the_limit_loses_its_last_line(self) -> None:
        """Half a path may look like another one."""
        first = "1:cpu:/system.slice/a.service\n"
        text = first + "0::/system.slice/" + "x/" * 40_000

        assert parse_cgroup(text) == Container(runtime="systemd", unit="a.service")


class TestLabel:
    """The value of the `container` label."""

    @pytest.mark.parametrize(
        ("container", "label"),
        [
            (Container(id=ID, runtime="docker", unit="foo.service"), ID[:12]),
            (Container(id=ID, manager="slurm", job="job_123"), ID[:12]),
            (Container(id="web1", runtime="lxc"), "web1"),
            (Container(id="a-name-of-20-letters", runtime="lxc"), "a-name-of-20-letters"),
            (Container(manager="slurm", job="job_123", unit="slurmstepd.scope"), "job_123"),
            (Container(manager="nomad", job="5ccda8d0.trainer"), "5ccda8d0.trainer"),
            (Container(unit="vllm.service"), "vllm.service"),
            (Container(unit="session-3.scope"), ""),
            (Container(unit="user-1000.slice"), ""),
            (Container(unit="user@1000.service"), ""),
            (Container(pod_uid=UID, runtime="kubernetes"), ""),
            (Container(), ""),
        ],
    )
    def test_label(self, container: Container, label: str) -> None:
        """Container, else job, else service."""
        assert container_label(container) == label

    @pytest.mark.parametrize(
        ("path", "label"),
        [
            (f"/user.slice/user-1000.slice/user@1000.service/user.slice/docker-{ID}.scope", f"{ID[:12]} (uid 1000)"),
            (f"/user.slice/user-7.slice/user@7.service/user.slice/libpod-{ID}.scope/container", f"{ID[:12]} (uid 7)"),
            ("/user.slice/user-7.slice/user@7.service/app.slice/sshd.service", "sshd.service (uid 7)"),
            (f"/system.slice/foo.service/libpod-payload-{ID}", f"{ID[:12]} (foo.service)"),
            (f"/slurm/uid_7/job_123/step_0/task_0/libpod-{ID}", f"{ID[:12]} (job_123)"),
            ("/lxc/other", "other (container)"),
            ("/user.slice/user-7.slice/user@7.service/lxc.payload.web1", "web1 (uid 7)"),
        ],
    )
    def test_name_that_its_owner_chose_has_the_owner(self, path: str, label: str) -> None:
        """It could be the id of another container, or the name of a service of the machine."""
        assert container_label(at(path)) == label
