"""Names from Kubernetes: a job in a cgroup as the kubelet makes it, and a stand-in API server that knows its pod."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support import held_calls
from tests.support.exporter_process import Exporter, running
from tests.support.held_calls import fresh_rank
from tests.support.kubernetes_api import Cluster, pod, serving, uid_of
from tests.support.named_cgroup import named_cgroup
from tests.support.requirements import need_tracing
from tests.support.traced import STANDIN_LIBRARIES, eventually

pytestmark = pytest.mark.end_to_end
IDENTIFIER = "5" * 64
INFO = "gpustall_workload_info"


@pytest.fixture(scope="module", autouse=True)
def _possible_here() -> None:
    """Skip, naming what is missing."""
    need_tracing()


@pytest.fixture
def cgroup() -> Iterator[Path]:
    """The cgroup of a container of the pod `job-0`, with the name that containerd gives it."""
    uid = uid_of("job-0").replace("-", "_")
    path = f"kubepods.slice/kubepods-pod{uid}.slice/cri-containerd-{IDENTIFIER}.scope"
    with named_cgroup("v1", path) as found:
        yield found


@contextmanager
def naming(cluster: Cluster, folder: Path) -> Iterator[Exporter]:
    """An exporter that polls this cluster."""
    (folder / "token").write_text(cluster.token)
    with serving(cluster) as url:
        flags = (
            "--orchestrator.kind=kubernetes",
            f"--orchestrator.url={url}",
            f"--orchestrator.token-file={folder}/token",
        )
        with running(*flags, "--node=gpu7") as found:
            yield found


@contextmanager
def working(exporter: Exporter, cgroup: Path, rank: str) -> Iterator[None]:
    """A process in the container, which has made its calls."""

    def enter() -> None:
        (cgroup / "cgroup.procs").write_text(str(os.getpid()))

    with held_calls.held_calls("ncclAllReduce:1:4096", rank=rank, preexec_fn=enter) as calls:
        eventually(lambda: exporter.logs.count("attached to") >= len(STANDIN_LIBRARIES), "the libraries are probed")
        calls.make()
        yield


def names(exporter: Exporter, rank: str) -> list[tuple[str, str, str]]:
    """(namespace, pod, container) of a rank; none while it is not exported."""
    found = exporter.scrape().matching(INFO, rank=rank)
    return [(one.labels["namespace"], one.labels["pod"], one.labels["container"]) for one in found]


class TestNames:
    """In the labels of every series."""

    def test_pod_s_name_from_the_first_scrape_on(self, cgroup: Path, tmp_path: Path) -> None:
        """The process is exported once it has its names."""
        cluster, rank = Cluster(), fresh_rank()
        cluster.put(pod("job-0", ("train", IDENTIFIER)))
        with naming(cluster, tmp_path) as exporter, working(exporter, cgroup, rank):
            first = eventually(lambda: names(exporter, rank), "it is exported")

        assert first == [("train", "job-0", "train")]

    @pytest.mark.parametrize("is_listed", [True, False])
    def test_id_in_an_unusual_place_counts_if_the_orchestrator_lists_it(
        self, tmp_path: Path, *, is_listed: bool
    ) -> None:
        """Any program may give a cgroup such a name."""
        cluster, rank = Cluster(), fresh_rank()
        cluster.put(pod("job-0", ("train", IDENTIFIER if is_listed else "6" * 64)))
        with (
            named_cgroup("v1", f"my-runtime/{IDENTIFIER}") as cgroup,
            naming(cluster, tmp_path) as exporter,
            working(exporter, cgroup, rank),
        ):
            eventually(lambda: names(exporter, rank), "it is exported")
            (info,) = exporter.scrape().matching(INFO, rank=rank)

        assert (info.labels["pod"], info.labels["container_id"], info.labels["pod_uid"]) == (
            ("job-0", IDENTIFIER, uid_of("job-0")) if is_listed else ("", "", "")
        )

    def test_id_for_a_name_without_permission(self, cgroup: Path, tmp_path: Path) -> None:
        """Everything else is exported."""
        cluster, rank = Cluster(is_forbidden=True), fresh_rank()
        with naming(cluster, tmp_path) as exporter:
            eventually(lambda: "grant list and watch of pods" in exporter.logs, "it may not ask")
            with working(exporter, cgroup, rank):
                first = eventually(lambda: names(exporter, rank), "it is exported")

        assert first == [("", "", "5" * 12)]
