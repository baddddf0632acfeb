"""host.reader_documents: what the reader sends is checked, since it parses what tenants wrote."""

from __future__ import annotations

from typing import Any

import pytest

from exporter.errors import MalformedElf, NotPossibleHere, ProcessGone
from exporter.host.eh_frame import Rule
from exporter.host.interpreters import MappedInterpreter
from exporter.host.libraries import FileId, LibraryKind, MappedLibrary, SkippedLibrary, SkipReason
from exporter.host.mappings import Mapping
from exporter.host.reader_documents import (
    ExaminedLibrary,
    document_of_error,
    document_of_library,
    error_of,
    examined_of,
    interpreter_of,
    library_of,
    rule_of,
)

LIBRARY = MappedLibrary(LibraryKind.NCCL, Mapping(1, 2, b"/opt/\xff\nlibnccl.so.2", 3, 4, True, 5))
LIBRARY_DOCUMENT = ["nccl", 1, 2, "/opt/\udcff\nlibnccl.so.2", 3, 4, True, 5]
OPENED = {
    "library": LIBRARY_DOCUMENT,
    "file": [7, 8, 0],
    "file_system": 0xEF53,
    "offsets": {"ncclAllReduce": 16},
    "page": 4096,
}


class TestLibrary:
    def test_library_is_the_same_on_both_sides(self) -> None:
        """With a path that is no UTF-8."""
        assert document_of_library(LIBRARY) == LIBRARY_DOCUMENT
        assert library_of(LIBRARY_DOCUMENT) == LIBRARY

    @pytest.mark.parametrize(
        "document",
        [
            None,
            [],
            ["other", *LIBRARY_DOCUMENT[1:]],
            ["nccl", -1, *LIBRARY_DOCUMENT[2:]],
            ["nccl", 1 << 64, *LIBRARY_DOCUMENT[2:]],
            ["nccl", True, *LIBRARY_DOCUMENT[2:]],
            ["nccl", 1, 2, "x" * 4097, 3, 4, True, 5],
            ["nccl", 1, 2, 17, 3, 4, True, 5],
        ],
    )
    def test_another_form_is_refused(self, document: Any) -> None:
        with pytest.raises(ValueError):  # noqa: PT011 - each has another message
            library_of(document)


class TestExamined:
    def test_examined_library(self) -> None:
        found = examined_of(OPENED, [11], frozenset({"ncclAllReduce"}))

        assert found == ExaminedLibrary(LIBRARY, 11, FileId(7, 8, 0), 0xEF53, {"ncclAllReduce": 16}, 4096)

    def test_skipped_library(self) -> None:
        document = {"library": LIBRARY_DOCUMENT, "reason": "malformed", "detail": "cut\x07"}

        assert examined_of(document, [], frozenset()) == SkippedLibrary(LIBRARY, SkipReason.MALFORMED, "cut\ufffd")

    @pytest.mark.parametrize("descriptors", [[], [11, 12]])
    def test_one_descriptor_comes_with_it(self, descriptors: list[int]) -> None:
        with pytest.raises(ValueError, match="other descriptors"):
            examined_of(OPENED, descriptors, frozenset({"ncclAllReduce"}))

    def test_function_that_was_not_wanted_is_refused(self) -> None:
        with pytest.raises(ValueError, match="other functions"):
            examined_of(OPENED, [11], frozenset({"ncclBcast"}))


class TestErrors:
    @pytest.mark.parametrize("kind", [ProcessGone, NotPossibleHere, MalformedElf])
    def test_error_is_of_the_same_kind_on_both_sides(
        self, kind: type[ProcessGone | NotPossibleHere | MalformedElf]
    ) -> None:
        found = error_of(document_of_error(kind("process 7 ended", remedy="start it")))

        assert (type(found), str(found), found.remedy) == (kind, "process 7 ended", "start it")


class TestInterpreter:
    def test_interpreter_is_one(self) -> None:
        assert interpreter_of(["/opt/a\nb", 1, 2, 0]) == MappedInterpreter("/opt/a\ufffdb", 1, 2, 0)

    @pytest.mark.parametrize(
        "document", [["/opt/a", 1, 2], [1, 1, 2, 0], ["/opt/a", -1, 2, 0], ["/opt/a", 1, 1 << 64, 0], "a"]
    )
    def test_another_form_is_refused(self, document: Any) -> None:
        with pytest.raises(ValueError):  # noqa: PT011 - each has another message
            interpreter_of(document)


class TestRule:
    def test_rule_is_a_rule(self) -> None:
        assert (rule_of([7, 16, -16]), rule_of([7, 16, None]), rule_of(None)) == (
            Rule(7, 16, -16),
            Rule(7, 16, None),
            None,
        )

    @pytest.mark.parametrize("document", [[7, 16], [7, "16", None], [7, 1 << 63, None], "rule"])
    def test_another_form_is_refused(self, document: Any) -> None:
        with pytest.raises(ValueError):  # noqa: PT011 - each has another message
            rule_of(document)
