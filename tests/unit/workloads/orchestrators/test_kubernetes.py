"""orchestrators: the API server and the kubelet, asked over the loopback interface, whatever they do."""

from __future__ import annotations

import itertools
import json
import logging
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from exporter.workloads.container import Container
from exporter.workloads.container_names import ContainerNames
from exporter.workloads.orchestrators import poller as enquirers
from exporter.workloads.orchestrators.http_json import Endpoint, RequestFailed
from exporter.workloads.orchestrators.kubernetes import ApiServer, Bounds, Kubelet
from exporter.workloads.orchestrators.pod_cache import PodCache
from exporter.workloads.orchestrators.poller import OrchestratorPoller
from tests.support.certificates import issue
from tests.support.kubernetes_api import Cluster, pod, serving, uid_of
from tests.support.traced import eventually

ONE, TWO, THREE = "1" * 64, "2" * 64, "3" * 64
NOW = enquirers.PollDelays(
    first_retry_seconds=0.01, last_retry_seconds=0.05, denied_retry_seconds=0.05, long_seconds=60.0
)

PATIENT = Bounds(page_seconds=10.0)


@pytest.fixture
def token(tmp_path: Path) -> Path:
    """The file of a service account."""
    path = tmp_path / "token"
    path.write_text("first\n")
    return path


def place(directory: PodCache, identifier: str, pod_uid: str = "") -> ContainerNames | None:
    """What a container is called."""
    return directory.names_of(Container(id=identifier, pod_uid=pod_uid))


@contextmanager
def asking(
    cluster: Cluster,
    token: Path,
    *,
    is_kubelet: bool = False,
    bounds: Bounds = PATIENT,
    tls: ssl.SSLContext | None = None,
    ca_file: Path | None = None,
) -> Iterator[PodCache]:
    """The directory that fills. tls: of the cluster."""
    with serving(cluster, tls) as url:
        directory, endpoint = PodCache(), Endpoint(url, ca_file, token)
        source = Kubelet(endpoint, directory, 0.02) if is_kubelet else ApiServer(endpoint, "gpu7", directory, bounds)
        enquirer = OrchestratorPoller(source, directory, lambda _: None, NOW)
        enquirer.start()
        try:
            yield directory
        finally:
            enquirer.stop()
            cluster.is_over.set()
            enquirer.join(5)


def round_in_a_thread(cluster: Cluster, token: Path, stopping: threading.Event, url: str) -> threading.Thread:
    """One round of the API server, until it ends or is stopped."""
    source = ApiServer(Endpoint(url, None, token), "gpu7", PodCache())
    thread = threading.Thread(target=source.round, args=(stopping, lambda: None), daemon=True)
    thread.start()
    return thread


def limits(cluster: Cluster) -> list[int]:
    """Of the pages of lists, in the order in which they were asked for."""
    queries = [parse_qs(urlsplit(request).query) for request in cluster.requests if "watch" not in request]
    return [int(query["limit"][0]) for query in queries]


def is_called(directory: PodCache, identifier: str, wanted: ContainerNames | None) -> None:
    """Sooner or later."""
    eventually(lambda: place(directory, identifier) == wanted, f"{identifier[:3]} is {wanted}", 10)


class TestApiServer:
    """List and watch."""

    def test_pods_of_a_list_in_pages(self, token: Path) -> None:
        """Five pods in pages of two; those of another node are none of ours."""
        cluster = Cluster()
        for n in range(5):
            cluster.put(pod(f"job-{n}", ("train", f"{n}" * 64)))
        cluster.put(pod("elsewhere", ("train", "9" * 64), node="gpu8"))
        with asking(cluster, token) as directory:
            is_called(directory, "4" * 64, ContainerNames("train", "job-4", "train"))

            assert place(directory, "0" * 64) == ContainerNames("train", "job-0", "train")
            assert place(directory, "9" * 64) is None
            assert len(directory) == 5

    def test_watch_tells_what_is_new_what_has_changed_and_what_is_gone(self, token: Path) -> None:
        """Without another list."""
        cluster = Cluster()
        with asking(cluster, token) as directory:
            eventually(lambda: cluster.watches, "it watches")
            cluster.put(pod("job-0"))
            eventually(
                lambda: place(directory, "", uid_of("job-0")) == ContainerNames("train", "job-0"), "the pod is known"
            )
            cluster.put(pod("job-0", ("train", ONE)))
            is_called(directory, ONE, ContainerNames("train", "job-0", "train"))
            cluster.delete("job-0")
            is_called(directory, ONE, None)

        assert [("watch" in request) for request in cluster.requests] == [False, True]

    def test_watch_is_taken_up_where_it_ended(self, token: Path) -> None:
        """By the version of the last event, bookmarks included."""
        cluster = Cluster(watch_lasts_seconds=0.1)
        with asking(cluster, token) as directory:
            cluster.put(pod("job-0", ("train", ONE)))
            is_called(directory, ONE, ContainerNames("train", "job-0", "train"))
            cluster.bookmark()
            eventually(lambda: f"resourceVersion={cluster.version}" in cluster.requests[-1], "it goes on from there")

        assert sum("watch" not in request for request in cluster.requests) == 1

    def test_forgotten_version_means_a_new_list(self, token: Path) -> None:
        """410, as an event; what had gone meanwhile is gone."""
        cluster = Cluster(watch_lasts_seconds=0.1)
        cluster.put(pod("old", ("train", ONE)))
        with asking(cluster, token) as directory:
            is_called(directory, ONE, ContainerNames("train", "old", "train"))
            del cluster.pods[uid_of("old")]
            cluster.put(pod("new", ("train", TWO)))
            cluster.events.clear()
            cluster.forgets_before = cluster.version
            is_called(directory, TWO, ContainerNames("train", "new", "train"))

            assert place(directory, ONE) is None

    def test_pod_that_moves_to_another_node_is_gone(self, token: Path) -> None:
        """As far as we are concerned."""
        cluster = Cluster()
        cluster.put(pod("job-0", ("train", ONE)))
        with asking(cluster, token) as directory:
            is_called(directory, ONE, ContainerNames("train", "job-0", "train"))
            cluster.put(pod("job-0", ("train", ONE), node="gpu8"))
            is_called(directory, ONE, None)

    def test_token_is_read_anew(self, token: Path) -> None:
        """It is rotated every hour."""
        cluster = Cluster(watch_lasts_seconds=0.1)
        with asking(cluster, token) as directory:
            eventually(lambda: cluster.watches, "it watches")
            cluster.token = "second"  # noqa: S105 - of a test
            token.write_text("second")
            cluster.put(pod("job-0", ("train", ONE)))
            is_called(directory, ONE, ContainerNames("train", "job-0", "train"))

    def test_over_tls(self, token: Path, tmp_path: Path) -> None:
        """By the authority of the service account."""
        made = issue(tmp_path)
        cluster = Cluster()
        cluster.put(pod("job-0", ("train", ONE)))
        with asking(cluster, token, tls=made.server_context(), ca_file=made.authority) as directory:
            is_called(directory, ONE, ContainerNames("train", "job-0", "train"))

    def test_server_of_another_authority_is_told_no_token(self, token: Path, tmp_path: Path) -> None:
        """It is not spoken to."""
        made = issue(tmp_path)
        cluster = Cluster()
        with asking(cluster, token, tls=made.server_context(), ca_file=made.other_authority) as directory:
            eventually(lambda: not directory.is_worth_waiting_for, "it is not trusted")

        assert cluster.requests == []


class TestEnds:
    """Of a list, and of what was begun when we stop."""

    def listed(self, cluster: Cluster, token: Path, bounds: Bounds) -> PodCache:
        """What a round finds."""
        with serving(cluster) as url:
            directory = PodCache()
            ApiServer(Endpoint(url, None, token), "gpu7", directory, bounds).round(threading.Event(), lambda: None)
            return directory

    def test_list_that_goes_on_where_it_has_been_is_refused(self, token: Path) -> None:
        """After the third page, whose token is that of the first."""
        cluster = Cluster(endless_pages=itertools.cycle(["a", "b"]))
        with pytest.raises(RequestFailed, match="goes on where it has been"):
            self.listed(cluster, token, Bounds(list_pages=10))

        assert len(cluster.requests) == 3

    def test_list_with_a_token_that_is_too_long_is_refused(self, token: Path) -> None:
        """It would have to be sent, and remembered."""
        cluster = Cluster(endless_pages=iter(["a" * 4096, "b" * 4097]))
        with pytest.raises(RequestFailed, match="or nowhere"):
            self.listed(cluster, token, Bounds(list_pages=10))

        assert len(cluster.requests) == 2

    def test_pages_of_a_list_are_bounded(self, token: Path) -> None:
        """Also if each has another token."""
        cluster = Cluster(endless_pages=map(str, itertools.count(1)))
        with pytest.raises(RequestFailed, match="more than 7 pages"):
            self.listed(cluster, token, Bounds(list_pages=7))

        assert len(cluster.requests) == 7

    def test_time_of_a_list_is_bounded(self, token: Path) -> None:
        """Not only that of a page."""
        cluster = Cluster(endless_pages=map(str, itertools.count(1)))
        with pytest.raises(RequestFailed, match=r"not whole within 0\.2 s"):
            self.listed(cluster, token, Bounds(list_seconds=0.2, list_pages=1_000_000))

    def test_list_ends_when_we_stop(self, token: Path) -> None:
        """Between two pages; there is no watch then."""
        tokens, stopping = itertools.count(1), threading.Event()

        def told() -> Iterator[str]:
            for number in tokens:
                if number == 3:
                    stopping.set()
                yield str(number)

        cluster = Cluster(endless_pages=told())
        with serving(cluster) as url:
            round_in_a_thread(cluster, token, stopping, url).join(10)

        assert len(cluster.requests) == 3

    def test_flood_of_blank_lines_ends_when_we_stop(self, token: Path) -> None:
        """They are no events, and count."""
        cluster, stopping = Cluster(raw_flood=b"\n" * 65536), threading.Event()
        with serving(cluster) as url:
            thread = round_in_a_thread(cluster, token, stopping, url)
            eventually(lambda: cluster.watches, "it watches")
            stopping.set()
            thread.join(10)

            assert not thread.is_alive()

    @pytest.mark.parametrize("flood", [b"\n" * 65_536, b'{"type": "BOOKMARK"}\n' * 1_000], ids=["blank", "events"])
    def test_flood_costs_a_tenth_of_a_cpu(self, token: Path, flood: bytes) -> None:
        """What comes faster waits with its sender. Half as much again is let pass: what connects is not waited for."""
        cluster, stopping = Cluster(raw_flood=flood), Waits(until_seconds=2.0)
        with serving(cluster) as url:
            source = ApiServer(Endpoint(url, None, token), "gpu7", PodCache())
            before_seconds = time.thread_time()
            source.round(stopping, lambda: None)
            spent_seconds = time.thread_time() - before_seconds

        assert spent_seconds < 0.1 * (spent_seconds + stopping.waited_seconds) * 1.5


class Waits(threading.Event):
    """Waits take no time and are added up; it is set when they are long enough."""

    def __init__(self, until_seconds: float) -> None:
        super().__init__()
        self.waited_seconds = 0.0
        self._until_seconds = until_seconds

    def wait(self, timeout: float | None = None) -> bool:
        """As if it had been waited for."""
        self.waited_seconds += timeout or 0.0
        if self.waited_seconds >= self._until_seconds:
            self.set()
        return self.is_set()


class TestSizes:
    """Of pages, which are made smaller."""

    def test_page_that_is_too_large_is_asked_for_in_smaller_ones(self, token: Path) -> None:
        """Thirty pods of 200 KiB: 25 are 5 MB, and 12 are less than 4 MiB. The list begins anew each time."""
        cluster = Cluster(page_pods=50)
        for n in range(30):
            cluster.put(pod(f"job-{n}", annotations={"of": "a" * 204_800}))
        cluster.events.clear()
        with asking(cluster, token) as directory:
            eventually(lambda: len(directory) == 30, "all are known")

        assert limits(cluster) == [50, 25, 12, 12, 12]

    def test_pod_that_is_larger_than_a_page_is_read_alone(self, token: Path) -> None:
        """Of 5 MiB; it hides no other."""
        cluster = Cluster(page_pods=50)
        cluster.put(pod("large", annotations={"of": "a" * (5 << 20)}))
        cluster.put(pod("job-0", ("train", ONE)))
        cluster.events.clear()
        with asking(cluster, token) as directory:
            is_called(directory, ONE, ContainerNames("train", "job-0", "train"))

        assert limits(cluster) == [50, 25, 12, 6, 3, 1, 1]

    def test_line_of_a_watch_that_is_too_large_means_a_new_list(self, token: Path) -> None:
        """The watch would come to the same line again and again."""
        cluster = Cluster(page_pods=50)
        with asking(cluster, token) as directory:
            eventually(lambda: cluster.watches, "it watches")
            cluster.put(pod("job-0", ("train", ONE), annotations={"of": "a" * (5 << 20)}))
            is_called(directory, ONE, ContainerNames("train", "job-0", "train"))

        assert sum("watch" not in request for request in cluster.requests) > 1


class TestKubelet:
    """Asked again and again."""

    def test_pods(self, token: Path) -> None:
        """All of them each time."""
        cluster = Cluster()
        cluster.put(pod("job-0", ("train", ONE)))
        with asking(cluster, token, is_kubelet=True) as directory:
            is_called(directory, ONE, ContainerNames("train", "job-0", "train"))
            cluster.delete("job-0")
            is_called(directory, ONE, None)

    def test_without_permission(self, token: Path, caplog: pytest.LogCaptureFixture) -> None:
        """One line, with what to grant, which is another right than that of the API server."""
        cluster = Cluster(is_forbidden=True)
        cluster.put(pod("job-0", ("train", ONE)))
        with asking(cluster, token, is_kubelet=True) as directory:
            eventually(lambda: len(cluster.requests) >= 3, "it tries again")
            cluster.is_forbidden = False
            is_called(directory, ONE, ContainerNames("train", "job-0", "train"))

        (line,) = [record.getMessage() for record in caplog.records]
        assert line.endswith("; grant get of nodes/proxy to its service account")

    @pytest.mark.parametrize("answer", [b"<html>", b"[]", b'{"items": 5}', b'{"items": [5, {}]}'])
    def test_lies(self, token: Path, answer: bytes) -> None:
        """Nothing of it is taken, and what was known stays where it was no list."""
        cluster = Cluster()
        cluster.put(pod("job-0", ("train", ONE)))
        with asking(cluster, token, is_kubelet=True) as directory:
            is_called(directory, ONE, ContainerNames("train", "job-0", "train"))
            cluster.raw_answer = answer
            asked = len(cluster.requests)
            eventually(lambda: len(cluster.requests) >= asked + 3, "it tries again")

            assert len(directory) == (0 if b"[5" in answer else 1)


class TestTrouble:
    """Said once, survived, and over when it is over."""

    def test_without_permission(self, token: Path, caplog: pytest.LogCaptureFixture) -> None:
        """One line, with what to grant; names come when it is."""
        caplog.set_level(logging.INFO)
        cluster = Cluster(is_forbidden=True)
        cluster.put(pod("job-0", ("train", ONE)))
        with asking(cluster, token) as directory:
            eventually(lambda: len(cluster.requests) >= 5, "it tries again")
            assert not directory.is_worth_waiting_for
            cluster.is_forbidden = False
            is_called(directory, ONE, ContainerNames("train", "job-0", "train"))
            eventually(lambda: directory.is_worth_waiting_for, "it is over")

        lines = [record.getMessage() for record in caplog.records]
        assert len(lines) == 2
        assert "403 Forbidden: pods is forbidden" in lines[0]
        assert "grant list and watch of pods to its service account" in lines[0]
        assert lines[1] == "pods have their names again"

    @pytest.mark.parametrize(
        ("answer", "said"),
        [
            (b"<html>", "is not JSON"),
            (b"[" * 100_000, "is not JSON"),
            (b"[]", "what was said to be a list of pods is none"),
            (b'{"items": 5, "metadata": {}}', "what was said to be a list of pods is none"),
            (b'{"items": []}', "what was said to be a list of pods is none"),
        ],
    )
    def test_lies(self, token: Path, caplog: pytest.LogCaptureFixture, answer: bytes, said: str) -> None:
        """What is no list."""
        cluster = Cluster(raw_answer=answer)
        with asking(cluster, token) as directory:
            eventually(lambda: len(cluster.requests) >= 3, "it tries again")
            assert len(directory) == 0

        assert said in caplog.text
        assert len(caplog.records) == 1

    def test_server_that_hangs(self, token: Path) -> None:
        """Is given up after a while, and asked again."""
        cluster = Cluster(is_hanging=True)
        cluster.put(pod("job-0", ("train", ONE)))
        with asking(cluster, token, bounds=Bounds(page_seconds=0.1)) as directory:
            eventually(lambda: len(cluster.requests) >= 2, "it tries again")
            cluster.is_hanging = False
            is_called(directory, ONE, ContainerNames("train", "job-0", "train"))

    def test_watch_of_rubbish(self, token: Path, caplog: pytest.LogCaptureFixture) -> None:
        """Events that are none are passed over; a line that is not JSON ends the watch."""
        rubbish = [{}, [], 5, {"type": "ADDED"}, {"type": "ADDED", "object": {"metadata": {"resourceVersion": []}}}]
        events = b"".join(json.dumps(one).encode() + b"\n" for one in rubbish) + b"\n" + b"{\n"
        cluster = Cluster(raw_events=events)
        cluster.put(pod("job-0", ("train", ONE)))
        with asking(cluster, token) as directory:
            is_called(directory, ONE, ContainerNames("train", "job-0", "train"))
            eventually(lambda: cluster.watches >= 3, "it watches again")
            cluster.raw_events = b""
            cluster.put(pod("job-1", ("train", TWO)))
            is_called(directory, TWO, ContainerNames("train", "job-1", "train"))

        assert "is not JSON" in caplog.records[0].getMessage()

    def test_flood_of_pods_is_bounded(self, token: Path) -> None:
        """Of more than a node can have the first ones count."""
        cluster = Cluster(page_pods=50)
        for n in range(2100):
            cluster.put(pod(f"job-{n}"))
        cluster.events.clear()
        with asking(cluster, token) as directory:
            eventually(lambda: len(directory) == 2000, "it is full")

    def test_line_that_does_not_end(self, token: Path, caplog: pytest.LogCaptureFixture) -> None:
        """Is given up at four megabytes."""
        cluster = Cluster(raw_events=b" " * (5 << 20))
        with asking(cluster, token):
            eventually(lambda: caplog.records, "it is said")

        assert "a line is larger than 4194304 bytes" in caplog.text

    def test_watch_that_is_not_answered_is_no_success(self, token: Path, caplog: pytest.LogCaptureFixture) -> None:
        """It was said once that there are no names; that we try again is not said to be the end of it."""
        caplog.set_level(logging.INFO)
        cluster = Cluster(watch_lasts_seconds=0.1)
        with asking(cluster, token) as directory:
            eventually(lambda: cluster.watches, "it watches")
            cluster.is_forbidden = True
            eventually(lambda: not directory.is_worth_waiting_for, "it may not watch any more")
            asked = len(cluster.requests)
            eventually(lambda: len(cluster.requests) >= asked + 3, "it tries again")

        assert [record.levelname for record in caplog.records] == ["WARNING"]

    def test_nobody_there(self, token: Path, caplog: pytest.LogCaptureFixture) -> None:
        """One line."""
        directory = PodCache()
        source = ApiServer(Endpoint("http://127.0.0.1:1", None, token), "gpu7", directory)
        enquirer = OrchestratorPoller(source, directory, lambda _: None, NOW)
        enquirer.start()
        eventually(lambda: not directory.is_worth_waiting_for, "it is said")
        enquirer.stop()
        enquirer.join(5)

        assert [record.levelname for record in caplog.records] == ["WARNING"]
        assert "connection refused" in caplog.text
