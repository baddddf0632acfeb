"""orchestrators.kubernetes: pods from an API server and a kubelet over the loopback interface, whatever those do."""

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
from exporter.workloads.orchestrators.http_json import Endpoint, RequestFailed
from exporter.workloads.orchestrators.kubernetes import ApiServer, Bounds, Kubelet
from exporter.workloads.orchestrators.pod_cache import MAX_PODS, PodCache
from exporter.workloads.orchestrators.poller import OrchestratorPoller, PollDelays
from tests.support.certificates import issue
from tests.support.kubernetes_api import Cluster, pod, serving, uid_of
from tests.support.patience import PATIENCE_SECONDS
from tests.support.traced import eventually

ONE, TWO, THREE = "1" * 64, "2" * 64, "3" * 64
NOW = PollDelays(first_retry_seconds=0.01, last_retry_seconds=0.05, denied_retry_seconds=0.05, long_seconds=60.0)

PATIENT = Bounds(page_seconds=10.0)


@pytest.fixture
def token(tmp_path: Path) -> Path:
    """The token file of a service account."""
    path = tmp_path / "token"
    path.write_text("first\n")
    return path


def names_of(cache: PodCache, identifier: str, pod_uid: str = "") -> ContainerNames | None:
    """The names of a container."""
    return cache.names_of(Container(id=identifier, pod_uid=pod_uid))


@contextmanager
def polling(
    cluster: Cluster,
    token: Path,
    *,
    is_kubelet: bool = False,
    bounds: Bounds = PATIENT,
    tls: ssl.SSLContext | None = None,
    ca_file: Path | None = None,
) -> Iterator[PodCache]:
    """The cache that a running poller fills. tls: of the cluster."""
    with serving(cluster, tls) as url:
        cache, endpoint = PodCache(), Endpoint(url, ca_file, token)
        source = Kubelet(endpoint, cache, 0.02) if is_kubelet else ApiServer(endpoint, "gpu7", cache, bounds)
        poller = OrchestratorPoller(source, cache, lambda _: None, NOW)
        poller.start()
        try:
            yield cache
        finally:
            poller.stop()
            cluster.is_over.set()
            poller.join(PATIENCE_SECONDS)


def sync_in_a_thread(cluster: Cluster, token: Path, stopping: threading.Event, url: str) -> threading.Thread:
    """One sync from the API server, until it ends or is stopped."""
    source = ApiServer(Endpoint(url, None, token), "gpu7", PodCache())
    thread = threading.Thread(target=source.sync, args=(stopping, lambda: None), daemon=True)
    thread.start()
    return thread


def limits(cluster: Cluster) -> list[int]:
    """The limits in the requests for pages of lists, in order."""
    queries = [parse_qs(urlsplit(request).query) for request in cluster.requests if "watch" not in request]
    return [int(query["limit"][0]) for query in queries]


def await_names(cache: PodCache, identifier: str, wanted: ContainerNames | None) -> None:
    """Wait until a container has these names."""
    eventually(lambda: names_of(cache, identifier) == wanted, f"{identifier[:3]} is {wanted}")


class TestApiServer:
    """Lists and watches."""

    def test_pods_of_a_list_in_pages(self, token: Path) -> None:
        """Five pods in pages of two; those of another node are left out."""
        cluster = Cluster()
        for n in range(5):
            cluster.put(pod(f"job-{n}", ("train", f"{n}" * 64)))
        cluster.put(pod("elsewhere", ("train", "9" * 64), node="gpu8"))
        with polling(cluster, token) as cache:
            await_names(cache, "4" * 64, ContainerNames("train", "job-4", "train"))

            assert names_of(cache, "0" * 64) == ContainerNames("train", "job-0", "train")
            assert names_of(cache, "9" * 64) is None
            assert len(cache) == 5

    def test_pod_behind_thousands_of_finished_ones_is_known(self, token: Path) -> None:
        """Pods are listed by name."""
        cluster = Cluster(page_pods=50)
        for n in range(2 * MAX_PODS + 100):
            finished = pod(f"a-{n}", uid=f"{n:08x}-1111-4222-8333-444455556666")
            finished["status"]["phase"] = "Succeeded"
            cluster.put(finished)
        cluster.put(pod("z", ("train", "9" * 64)))
        with polling(cluster, token) as cache:
            await_names(cache, "9" * 64, ContainerNames("train", "z", "train"))

            assert len(cache) == MAX_PODS

    def test_watch_adds_changes_and_deletes_pods(self, token: Path) -> None:
        """Without another list."""
        cluster = Cluster()
        with polling(cluster, token) as cache:
            eventually(lambda: cluster.watches, "it watches")
            cluster.put(pod("job-0"))
            eventually(
                lambda: names_of(cache, "", uid_of("job-0")) == ContainerNames("train", "job-0"), "the pod is known"
            )
            cluster.put(pod("job-0", ("train", ONE)))
            await_names(cache, ONE, ContainerNames("train", "job-0", "train"))
            cluster.delete("job-0")
            await_names(cache, ONE, None)

        assert [("watch" in request) for request in cluster.requests] == [False, True]

    def test_watch_is_resumed_where_it_ended(self, token: Path) -> None:
        """At the version of the last event, bookmarks included."""
        cluster = Cluster(watch_lasts_seconds=0.1)
        with polling(cluster, token) as cache:
            cluster.put(pod("job-0", ("train", ONE)))
            await_names(cache, ONE, ContainerNames("train", "job-0", "train"))
            cluster.bookmark()
            eventually(lambda: f"resourceVersion={cluster.version}" in cluster.requests[-1], "it is resumed there")

        assert sum("watch" not in request for request in cluster.requests) == 1

    def test_expired_version_means_a_new_list(self, token: Path) -> None:
        """The server sends 410 as an event; pods that were deleted in between are removed."""
        cluster = Cluster(watch_lasts_seconds=0.1)
        cluster.put(pod("old", ("train", ONE)))
        with polling(cluster, token) as cache:
            await_names(cache, ONE, ContainerNames("train", "old", "train"))
            del cluster.pods[uid_of("old")]
            cluster.put(pod("new", ("train", TWO)))
            cluster.events.clear()
            cluster.forgets_before = cluster.version
            await_names(cache, TWO, ContainerNames("train", "new", "train"))

            assert names_of(cache, ONE) is None

    def test_pod_that_moves_to_another_node_is_removed(self, token: Path) -> None:
        cluster = Cluster()
        cluster.put(pod("job-0", ("train", ONE)))
        with polling(cluster, token) as cache:
            await_names(cache, ONE, ContainerNames("train", "job-0", "train"))
            cluster.put(pod("job-0", ("train", ONE), node="gpu8"))
            await_names(cache, ONE, None)

    def test_token_is_read_for_each_request(self, token: Path) -> None:
        """Kubernetes rotates it every hour."""
        cluster = Cluster(watch_lasts_seconds=0.1)
        with polling(cluster, token) as cache:
            eventually(lambda: cluster.watches, "it watches")
            cluster.token = "second"  # noqa: S105 - of a test
            token.write_text("second")
            cluster.put(pod("job-0", ("train", ONE)))
            await_names(cache, ONE, ContainerNames("train", "job-0", "train"))

    def test_over_tls(self, token: Path, tmp_path: Path) -> None:
        """With the authority of the service account."""
        made = issue(tmp_path)
        cluster = Cluster()
        cluster.put(pod("job-0", ("train", ONE)))
        with polling(cluster, token, tls=made.server_context(), ca_file=made.authority) as cache:
            await_names(cache, ONE, ContainerNames("train", "job-0", "train"))

    def test_server_of_another_authority_receives_no_token(self, token: Path, tmp_path: Path) -> None:
        """It receives no request at all."""
        made = issue(tmp_path)
        cluster = Cluster()
        with polling(cluster, token, tls=made.server_context(), ca_file=made.other_authority) as cache:
            eventually(lambda: not cache.is_worth_waiting_for, "it is not trusted")

        assert cluster.requests == []


class TestEnds:
    """Limits of a list, and requests in flight at a stop."""

    def listed(self, cluster: Cluster, token: Path, bounds: Bounds) -> PodCache:
        """The cache after one sync."""
        with serving(cluster) as url:
            cache = PodCache()
            ApiServer(Endpoint(url, None, token), "gpu7", cache, bounds).sync(threading.Event(), lambda: None)
            return cache

    def test_list_that_repeats_a_token_is_refused(self, token: Path) -> None:
        """The third page has the token of the first."""
        cluster = Cluster(endless_pages=itertools.cycle(["a", "b"]))
        with pytest.raises(RequestFailed, match="repeats a continue token"):
            self.listed(cluster, token, Bounds(list_pages=10))

        assert len(cluster.requests) == 3

    def test_list_with_a_token_that_is_too_long_is_refused(self, token: Path) -> None:
        """It would have to be sent and kept in memory."""
        cluster = Cluster(endless_pages=iter(["a" * 4096, "b" * 4097]))
        with pytest.raises(RequestFailed, match="one that is too long"):
            self.listed(cluster, token, Bounds(list_pages=10))

        assert len(cluster.requests) == 2

    def test_pages_of_a_list_are_bounded(self, token: Path) -> None:
        """Also if each has a different token."""
        cluster = Cluster(endless_pages=map(str, itertools.count(1)))
        with pytest.raises(RequestFailed, match="more than 7 pages"):
            self.listed(cluster, token, Bounds(list_pages=7))

        assert len(cluster.requests) == 7

    def test_time_of_a_list_is_bounded(self, token: Path) -> None:
        """Not only the time of a page."""
        cluster = Cluster(endless_pages=map(str, itertools.count(1)))
        with pytest.raises(RequestFailed, match=r"not complete within 0\.2 s"):
            self.listed(cluster, token, Bounds(list_seconds=0.2, list_pages=1_000_000))

    def test_list_ends_at_a_stop(self, token: Path) -> None:
        """Between two pages; no watch follows."""
        tokens, stopping = itertools.count(1), threading.Event()

        def pages() -> Iterator[str]:
            for number in tokens:
                if number == 3:
                    stopping.set()
                yield str(number)

        cluster = Cluster(endless_pages=pages())
        with serving(cluster) as url:
            sync_in_a_thread(cluster, token, stopping, url).join(PATIENCE_SECONDS)

        assert len(cluster.requests) == 3

    def test_endless_blank_lines_end_at_a_stop(self, token: Path) -> None:
        """Though none of them is an event."""
        cluster, stopping = Cluster(raw_flood=b"\n" * 65536), threading.Event()
        with serving(cluster) as url:
            thread = sync_in_a_thread(cluster, token, stopping, url)
            eventually(lambda: cluster.watches, "it watches")
            stopping.set()
            thread.join(PATIENCE_SECONDS)

            assert not thread.is_alive()

    @pytest.mark.parametrize("flood", [b"\n" * 65_536, b'{"type": "BOOKMARK"}\n' * 1_000], ids=["blank", "events"])
    def test_endless_watch_costs_a_tenth_of_a_cpu(
        self, token: Path, flood: bytes, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The rest waits in the sender's socket. Each reading of the clock, after one for the list, finds 0.25 s more."""
        cluster, stopping, readings = Cluster(raw_flood=flood), Waits(until_seconds=20.0), itertools.count()
        monkeypatch.setattr(time, "thread_time", lambda: next(readings) / 4)
        with serving(cluster) as url:
            ApiServer(Endpoint(url, None, token), "gpu7", PodCache()).sync(stopping, lambda: None)
            spent_seconds = (next(readings) - 2) / 4

        assert spent_seconds == pytest.approx(0.1 * (spent_seconds + stopping.waited_seconds))


class Waits(threading.Event):
    """Waits take no time and are added up; it is set when they are long enough."""

    def __init__(self, until_seconds: float) -> None:
        super().__init__()
        self.waited_seconds = 0.0
        self._until_seconds = until_seconds

    def wait(self, timeout: float | None = None) -> bool:
        """Record the wait."""
        self.waited_seconds += timeout or 0.0
        if self.waited_seconds >= self._until_seconds:
            self.set()
        return self.is_set()


class TestSizes:
    """Pages of fewer pods."""

    def test_page_that_is_too_large_means_a_list_in_smaller_pages(self, token: Path) -> None:
        """Thirty pods of 200 KiB: 25 are 5 MB, and 12 are less than 4 MiB. The list starts again each time."""
        cluster = Cluster(page_pods=50)
        for n in range(30):
            cluster.put(pod(f"job-{n}", annotations={"of": "a" * 204_800}))
        cluster.events.clear()
        with polling(cluster, token) as cache:
            eventually(lambda: len(cache) == 30, "all are known")

        assert limits(cluster) == [50, 25, 12, 12, 12]

    def test_pod_that_is_larger_than_a_page_is_read_alone(self, token: Path) -> None:
        """It has 5 MiB and must not hide the other pods."""
        cluster = Cluster(page_pods=50)
        cluster.put(pod("large", annotations={"of": "a" * (5 << 20)}))
        cluster.put(pod("job-0", ("train", ONE)))
        cluster.events.clear()
        with polling(cluster, token) as cache:
            await_names(cache, ONE, ContainerNames("train", "job-0", "train"))

        assert limits(cluster) == [50, 25, 12, 6, 3, 1, 1]

    def test_line_of_a_watch_that_is_too_large_means_a_new_list(self, token: Path) -> None:
        """The watch would get the same line again and again."""
        cluster = Cluster(page_pods=50)
        with polling(cluster, token) as cache:
            eventually(lambda: cluster.watches, "it watches")
            cluster.put(pod("job-0", ("train", ONE), annotations={"of": "a" * (5 << 20)}))
            await_names(cache, ONE, ContainerNames("train", "job-0", "train"))

        assert sum("watch" not in request for request in cluster.requests) > 1


class TestKubelet:
    """A list every few seconds."""

    def test_pods(self, token: Path) -> None:
        """All pods are read each time."""
        cluster = Cluster()
        cluster.put(pod("job-0", ("train", ONE)))
        with polling(cluster, token, is_kubelet=True) as cache:
            await_names(cache, ONE, ContainerNames("train", "job-0", "train"))
            cluster.delete("job-0")
            await_names(cache, ONE, None)

    def test_without_permission(self, token: Path, caplog: pytest.LogCaptureFixture) -> None:
        """One log line, which names another permission than that of the API server."""
        cluster = Cluster(is_forbidden=True)
        cluster.put(pod("job-0", ("train", ONE)))
        with polling(cluster, token, is_kubelet=True) as cache:
            eventually(lambda: len(cluster.requests) >= 3, "it tries again")
            cluster.is_forbidden = False
            await_names(cache, ONE, ContainerNames("train", "job-0", "train"))

        (line,) = [record.getMessage() for record in caplog.records]
        assert line.endswith("; grant get of nodes/proxy to the exporter's service account")

    @pytest.mark.parametrize("answer", [b"<html>", b"[]", b'{"items": 5}', b'{"items": [5, {}]}'])
    def test_malformed_list(self, token: Path, answer: bytes) -> None:
        """Malformed pods are left out; a document that is not a list changes nothing."""
        cluster = Cluster()
        cluster.put(pod("job-0", ("train", ONE)))
        with polling(cluster, token, is_kubelet=True) as cache:
            await_names(cache, ONE, ContainerNames("train", "job-0", "train"))
            cluster.raw_answer = answer
            asked = len(cluster.requests)
            eventually(lambda: len(cluster.requests) >= asked + 3, "it tries again")

            assert len(cache) == (0 if b"[5" in answer else 1)


class TestFailures:
    """Logged once, and retried."""

    def test_without_permission(self, token: Path, caplog: pytest.LogCaptureFixture) -> None:
        """One log line with the permission to grant; names appear once it is granted."""
        caplog.set_level(logging.INFO)
        cluster = Cluster(is_forbidden=True)
        cluster.put(pod("job-0", ("train", ONE)))
        with polling(cluster, token) as cache:
            eventually(lambda: len(cluster.requests) >= 5, "it tries again")
            assert not cache.is_worth_waiting_for
            cluster.is_forbidden = False
            await_names(cache, ONE, ContainerNames("train", "job-0", "train"))
            eventually(lambda: cache.is_worth_waiting_for, "it is over")

        lines = [record.getMessage() for record in caplog.records]
        assert len(lines) == 2
        assert "403 Forbidden: pods is forbidden" in lines[0]
        assert "grant list and watch of pods to the exporter's service account" in lines[0]
        assert lines[1] == "pod lookup recovered; container names restored"

    @pytest.mark.parametrize(
        ("answer", "reason"),
        [
            (b"<html>", "is not JSON"),
            (b"[" * 100_000, "is not JSON"),
            (b"[]", "/api/v1/pods: not a list of pods"),
            (b'{"items": 5, "metadata": {}}', "/api/v1/pods: not a list of pods"),
            (b'{"items": []}', "/api/v1/pods: not a list of pods"),
        ],
    )
    def test_malformed_list(self, token: Path, caplog: pytest.LogCaptureFixture, answer: bytes, reason: str) -> None:
        cluster = Cluster(raw_answer=answer)
        with polling(cluster, token) as cache:
            eventually(lambda: len(cluster.requests) >= 3, "it tries again")
            assert len(cache) == 0

        assert reason in caplog.text
        assert len(caplog.records) == 1

    def test_server_that_hangs(self, token: Path) -> None:
        """The request fails at its deadline and is retried."""
        cluster = Cluster(is_hanging=True)
        cluster.put(pod("job-0", ("train", ONE)))
        with polling(cluster, token, bounds=Bounds(page_seconds=0.1)) as cache:
            eventually(lambda: len(cluster.requests) >= 2, "it tries again")
            cluster.is_hanging = False
            await_names(cache, ONE, ContainerNames("train", "job-0", "train"))

    def test_malformed_events(self, token: Path, caplog: pytest.LogCaptureFixture) -> None:
        """Malformed events are skipped; a line that is not JSON ends the watch."""
        malformed = [{}, [], 5, {"type": "ADDED"}, {"type": "ADDED", "object": {"metadata": {"resourceVersion": []}}}]
        events = b"".join(json.dumps(one).encode() + b"\n" for one in malformed) + b"\n" + b"{\n"
        cluster = Cluster(raw_events=events)
        cluster.put(pod("job-0", ("train", ONE)))
        with polling(cluster, token) as cache:
            await_names(cache, ONE, ContainerNames("train", "job-0", "train"))
            eventually(lambda: cluster.watches >= 3, "it watches again")
            cluster.raw_events = b""
            cluster.put(pod("job-1", ("train", TWO)))
            await_names(cache, TWO, ContainerNames("train", "job-1", "train"))

        assert "is not JSON" in caplog.records[0].getMessage()

    def test_number_of_pods_is_bounded(self, token: Path) -> None:
        """More than a node can have: the first ones are kept."""
        cluster = Cluster(page_pods=50)
        for n in range(2100):
            cluster.put(pod(f"job-{n}"))
        cluster.events.clear()
        with polling(cluster, token) as cache:
            eventually(lambda: len(cache) == 2000, "it is full")

    def test_line_that_does_not_end(self, token: Path, caplog: pytest.LogCaptureFixture) -> None:
        """It is refused at four mebibytes."""
        cluster = Cluster(raw_events=b" " * (5 << 20))
        with polling(cluster, token):
            eventually(lambda: caplog.records, "it is logged")

        assert "a line is larger than 4194304 bytes" in caplog.text

    def test_refused_watch_is_no_recovery(self, token: Path, caplog: pytest.LogCaptureFixture) -> None:
        """The failure is logged once, and a retry is not logged as a recovery."""
        caplog.set_level(logging.INFO)
        cluster = Cluster(watch_lasts_seconds=0.1)
        with polling(cluster, token) as cache:
            eventually(lambda: cluster.watches, "it watches")
            cluster.is_forbidden = True
            eventually(lambda: not cache.is_worth_waiting_for, "it may not watch any more")
            asked = len(cluster.requests)
            eventually(lambda: len(cluster.requests) >= asked + 3, "it tries again")

        assert [record.levelname for record in caplog.records] == ["WARNING"]

    def test_refused_connection(self, token: Path, caplog: pytest.LogCaptureFixture) -> None:
        """One log line."""
        cache = PodCache()
        source = ApiServer(Endpoint("http://127.0.0.1:1", None, token), "gpu7", cache)
        poller = OrchestratorPoller(source, cache, lambda _: None, NOW)
        poller.start()
        eventually(lambda: not cache.is_worth_waiting_for, "it is logged")
        poller.stop()
        poller.join(PATIENCE_SECONDS)

        assert [record.levelname for record in caplog.records] == ["WARNING"]
        assert "connection refused" in caplog.text
