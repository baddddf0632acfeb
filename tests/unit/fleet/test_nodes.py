"""nodes: which nodes --nodes names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from exporter.config.orchestrator import OrchestratorKind, OrchestratorSettings
from exporter.errors import BadInput
from exporter.fleet.access import AccessFiles
from exporter.fleet.headless_service import NodesNotFound
from exporter.fleet.node import Node
from exporter.fleet.nodes import Fleet, Lookup, find_nodes
from exporter.http_client.deadline import Deadline
from tests.support import kubernetes_api
from tests.support.kubernetes_api import Cluster
from tests.unit.fleet.test_serving_pods import serve_pod


def found(
    text: str, account: Path = Path("/nonexistent"), environment: Mapping[str, str] = {}, url: str | None = None
) -> Fleet:
    """account: folder of the service account."""
    settings = OrchestratorSettings(
        kind=OrchestratorKind.AUTO,
        url=url,
        ca_file=account / "ca.crt",
        token_file=account / "token",
        is_verified=True,
    )
    return find_nodes(text, Lookup(Deadline.after(60.0), settings, environment))


def names(text: str) -> list[str]:
    return [node.name for node in found(text).nodes]


def refusal(text: str) -> str:
    with pytest.raises(BadInput) as refused:
        found(text)
    return refused.value.one_line()


def fleet(folder: Path, content: str) -> Path:
    path = folder / "fleet.toml"
    path.write_text(content, encoding="utf-8")
    return path


class TestList:
    def test_addresses_may_have_ports_and_brackets(self) -> None:
        assert found("a:9000,b,[fd00::1]:9001,gpu[01-02]:9002").nodes == [
            Node("a", "a", 9000),
            Node("b", "b", 10479),
            Node("fd00::1", "fd00::1", 9001),
            Node("gpu01", "gpu01", 9002),
            Node("gpu02", "gpu02", 9002),
        ]

    def test_names_of_slurm_may_be_marked_as_such(self) -> None:
        assert names("slurm:gpu[01-02,20],login") == ["gpu01", "gpu02", "gpu20", "login"]

    def test_one_host_may_have_several_nodes(self) -> None:
        assert names("127.0.0.1:1,127.0.0.1:2") == ["127.0.0.1:1", "127.0.0.1:2"]

    @pytest.mark.parametrize(
        ("text", "line"),
        [
            ("a,A:10479", "--nodes: the node 'a:10479' is given twice; name each node once"),
            ("gpu[1-2],gpu2", "--nodes: the node 'gpu2:10479' is given twice; name each node once"),
            ("a,b:x", "--nodes: 'b:x' is not HOST or HOST:PORT; see docs/fleet.md#which-nodes"),
            ("slurm:", "--nodes: a name is empty in ''; see docs/fleet.md#which-nodes"),
            ("", "--nodes: a name is empty in ''; see docs/fleet.md#which-nodes"),
            ("@", "--nodes: '@' names no file; see docs/fleet.md#which-nodes"),
            ("dns:", "--nodes: '' is not HOST or HOST:PORT; see docs/fleet.md#which-nodes"),
            (
                "kubernetes:",
                "--nodes: want a label selector, as in kubernetes:app.kubernetes.io/name=gpu-stall-exporter; "
                "see docs/fleet.md#which-nodes",
            ),
            (
                "kubernetes:No:a=b",
                "--nodes: 'No' is not a Kubernetes namespace; see docs/fleet.md#which-nodes",
            ),
            (
                "kubernetes:a=b",
                "--nodes: kubernetes: KUBERNETES_SERVICE_HOST is not set, so this is not a pod; set --orchestrator.url",
            ),
        ],
    )
    def test_bad_input_is_one_line_that_names_it(self, text: str, line: str) -> None:
        assert refusal(text) == line


class TestFile:
    CONTENT = """
        default-group = "training"
        ca = "ca.crt"
        [nodes]
        gpu01 = "10.0.0.1:9000"
        spare = "10.0.0.9"
        [groups]
        training = "gpu[01-02]"
        inference = ["gpu[02-03]", "slurm:login"]
    """

    def test_without_a_group_it_is_the_default_one(self, tmp_path: Path) -> None:
        """A node with an address of its own in the file is there."""
        path = fleet(tmp_path, self.CONTENT)
        expected = Fleet(
            [Node("gpu01", "10.0.0.1", 9000), Node("gpu02", "gpu02")],
            AccessFiles(tmp_path / "ca.crt"),
            shown=f"--nodes: {path}",
        )

        assert found(f"@{path}") == found(str(path)) == found(f"@{path}#training") == expected

    def test_group_may_be_named(self, tmp_path: Path) -> None:
        assert names(f"@{fleet(tmp_path, self.CONTENT)}#inference") == ["gpu02", "gpu03", "login"]
        assert names(f"{fleet(tmp_path, self.CONTENT)}#inference") == ["gpu02", "gpu03", "login"]

    def test_without_a_default_group_it_is_every_node_once(self, tmp_path: Path) -> None:
        content = self.CONTENT.replace('default-group = "training"', "")

        assert names(f"@{fleet(tmp_path, content)}") == ["gpu01", "spare", "gpu02", "gpu03", "login"]

    def test_unknown_group_is_refused_with_the_nearest_one(self, tmp_path: Path) -> None:
        path = fleet(tmp_path, self.CONTENT)

        assert refusal(f"@{path}#train") == f"--nodes: {path} has no group 'train'; did you mean training?"

    def test_error_within_a_group_names_file_and_group(self, tmp_path: Path) -> None:
        path = fleet(tmp_path, '[groups]\nall = ["a", "gpu[3-1]"]')

        assert refusal(f"@{path}") == (
            f"--nodes: {path}: [groups] all: the range 3-1 in 'gpu[3-1]' is not ascending, or its widths differ; "
            "see docs/fleet.md#which-nodes"
        )

    def test_group_is_no_other_file(self, tmp_path: Path) -> None:
        path = fleet(tmp_path, '[groups]\nall = "@other.toml"')

        assert refusal(f"@{path}") == (
            f"--nodes: {path}: [groups] all: '@other.toml' is another file; name its nodes here"
        )


class TestDns:
    def test_nodes_are_named_by_their_addresses(self) -> None:
        assert found("dns:127.0.0.1:9000").nodes == [Node("127.0.0.1", "127.0.0.1", 9000)]

    def test_name_without_an_address_is_named(self) -> None:
        with pytest.raises(NodesNotFound, match=r"^dns:serve\.invalid:9: cannot resolve the host name: "):
            found("dns:serve.invalid:9")


class TestKubernetes:
    """Against an API server."""

    def test_namespace_is_that_of_the_service_account(self, tmp_path: Path) -> None:
        cluster = Cluster()
        cluster.put(serve_pod("serve", "gpu1", "10.0.0.1"))
        (tmp_path / "token").write_text(cluster.token)
        (tmp_path / "namespace").write_text("monitoring")
        with kubernetes_api.serving(cluster) as url:
            fleet = found("kubernetes:app=gpu-stall-exporter", tmp_path, url=url)

        assert fleet.nodes == [Node("gpu1", "10.0.0.1")]

    def test_namespace_may_be_named(self, tmp_path: Path) -> None:
        cluster = Cluster()
        cluster.put(serve_pod("serve", "gpu1", "10.0.0.1"))
        (tmp_path / "token").write_text(cluster.token)
        with kubernetes_api.serving(cluster) as url:
            fleet = found("kubernetes:monitoring:app=gpu-stall-exporter", tmp_path, url=url)

        assert fleet.nodes == [Node("gpu1", "10.0.0.1")]

    def test_two_pods_of_one_node_are_refused(self, tmp_path: Path) -> None:
        cluster = Cluster()
        for number in (1, 2):
            cluster.put(serve_pod(f"serve-{number}", "gpu1", f"10.0.0.{number}"))
        (tmp_path / "token").write_text(cluster.token)
        with kubernetes_api.serving(cluster) as url, pytest.raises(BadInput) as refused:
            found("kubernetes:monitoring:app=gpu-stall-exporter", tmp_path, url=url)

        assert str(refused.value) == "--nodes: the node 'gpu1' is given twice, at 10.0.0.1:10479 and 10.0.0.2:10479"

    def test_missing_namespace_is_refused_with_the_file(self, tmp_path: Path) -> None:
        with pytest.raises(BadInput) as refused:
            found("kubernetes:app=gpu-stall-exporter", tmp_path, url="http://127.0.0.1:1")

        assert str(refused.value) == (
            f"--nodes: cannot read {tmp_path}/namespace: No such file or directory: want kubernetes:NAMESPACE:SELECTOR"
        )
