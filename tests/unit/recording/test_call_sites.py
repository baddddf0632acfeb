"""recording.call_sites: slow calls in a recording, within bounds."""

from __future__ import annotations

import random

import pytest

from exporter.python.call_site import CallStack, PythonFrame
from exporter.recording.call_sites import BYTES_MAX, OF_PROCESS_MAX, bounded, from_documents, to_documents
from exporter.text.untrusted import Untrusted
from tests.support.history import a_call_site


def large_stack(seed: int) -> CallStack:
    """32 KiB as JSON."""
    name = random.Random(seed).randbytes(500).hex()
    return CallStack("", (PythonFrame(f"/{name}", "f", seed),) * 32)


class TestBounds:
    def test_sixteen_of_a_process_with_the_most_time_are_kept(self) -> None:
        found = bounded({1: [a_call_site(line, calls=line) for line in range(1, 30)]})

        assert [one.calls for one in found[1]] == list(range(29, 29 - OF_PROCESS_MAX, -1))

    def test_stacks_of_all_processes_have_a_bound(self) -> None:
        """Those with the most time come first, whichever process they are of."""
        sites = {number: [a_call_site(stack=large_stack(number), total_ns=1000 - number)] for number in range(1, 60)}
        found = bounded(sites)
        kept_bytes = sum(len(one.stack.encoded()) for kept in found.values() for one in kept)

        assert kept_bytes <= BYTES_MAX
        assert list(found) == list(range(1, len(found) + 1))
        assert 10 < len(found) < 59

    def test_process_without_slow_calls_is_left_out(self) -> None:
        assert bounded({1: []}) == {}


class TestDocuments:
    def test_call_sites_survive(self) -> None:
        assert from_documents(to_documents([a_call_site()])) == (a_call_site(),)

    @pytest.mark.parametrize("document", [{}, "text", [[]], [["runtime", "cudaMalloc", 1, 2, 3, 4]], [[1] * 6], [None]])
    def test_other_documents_are_refused(self, document: object) -> None:
        with pytest.raises(Untrusted):
            from_documents(document)
