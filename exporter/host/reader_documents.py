"""What the reader and its client send each other, as JSON documents and as records.

The client takes the reader for hostile: it parses what tenants wrote. A document of another form raises ValueError.
Bytes are texts with surrogates for what is not UTF-8, as os.fsdecode() makes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from exporter.errors import ExporterError, MalformedElf, NotPossibleHere, ProcessGone
from exporter.host.eh_frame import Rule
from exporter.host.interpreters import MappedInterpreter
from exporter.host.libraries import (
    FileId,
    HeldFile,
    LibraryKind,
    MappedLibrary,
    OpenedLibrary,
    SkippedLibrary,
    SkipReason,
)
from exporter.host.mappings import PATH_CHARACTERS_MAX
from exporter.host.mappings import Mapping as MemoryMapping
from exporter.text.printable import printable

LIBRARIES_MAX: Final = 4_096
TEXT_CHARACTERS_MAX: Final = 8_192
_ERRORS: Final = {"gone": ProcessGone, "not_possible": NotPossibleHere, "malformed": MalformedElf}


@dataclass(frozen=True, slots=True)
class ExaminedLibrary(HeldFile):
    """A library that the reader has open.

    fd: an O_PATH descriptor, which touches nothing when it is closed. page: where the reader has mapped it, 0 if it could not.
    offsets: file offset of each function that was wanted and found.
    """

    offsets: Mapping[str, int]
    page: int


def document_of_error(error: ExporterError) -> dict[str, str]:
    kind = next((name for name, one in _ERRORS.items() if isinstance(error, one)), "malformed")
    return {"error": kind, "message": str(error), "remedy": error.remedy}


def error_of(document: Mapping[str, Any]) -> ExporterError:
    """The exception that the reader caught."""
    kind = _ERRORS.get(text_of(document.get("error")), MalformedElf)
    return kind(text_of(document.get("message")), remedy=text_of(document.get("remedy", "")))


def document_of_library(library: MappedLibrary) -> list[Any]:
    one = library.mapping
    path = one.path.decode("utf-8", "surrogateescape")
    return [library.kind.value, one.start, one.end, path, one.device, one.inode, one.is_deleted, one.offset]


def library_of(document: Any) -> MappedLibrary:
    """Raises ValueError."""
    kind, start, end, path, device, inode, is_deleted, offset = list_of(document)
    if not isinstance(path, str) or len(path) > PATH_CHARACTERS_MAX:
        raise ValueError("a path of another form")
    numbers = tuple(map(number_of, (start, end, device, inode, offset)))
    start, end, device, inode, offset = numbers
    mapping = MemoryMapping(
        start, end, path.encode("utf-8", "surrogateescape"), device, inode, is_deleted is True, offset
    )
    return MappedLibrary(LibraryKind(kind), mapping)


def document_of_opened(found: OpenedLibrary | SkippedLibrary, offsets: Mapping[str, int], page: int) -> dict[str, Any]:
    library = document_of_library(found.library)
    if isinstance(found, SkippedLibrary):
        return {"library": library, "reason": found.reason.value, "detail": found.detail}
    return {
        "library": library,
        "file": list(found.file_id),
        "file_system": found.file_system,
        "offsets": dict(offsets),
        "page": page,
    }


def examined_of(document: Any, descriptors: list[int], wanted: frozenset[str]) -> ExaminedLibrary | SkippedLibrary:
    """wanted: names of functions in the request. Raises ValueError."""
    answer = mapping_of(document)
    library = library_of(answer["library"])
    if "reason" in answer:
        return SkippedLibrary(library, SkipReason(answer["reason"]), text_of(answer["detail"]))
    offsets = offsets_of(answer["offsets"], wanted)
    if len(descriptors) != 1:
        raise ValueError("other descriptors than that of the library")
    device, inode, changed_ns = map(number_of, list_of(answer["file"]))
    return ExaminedLibrary(
        library,
        descriptors[0],
        FileId(device, inode, changed_ns),
        number_of(answer["file_system"]),
        offsets,
        number_of(answer["page"]),
    )


def offsets_of(document: Any, wanted: frozenset[str]) -> dict[str, int]:
    """wanted: names of functions in the request. Raises ValueError."""
    offsets = {name: number_of(offset) for name, offset in mapping_of(document).items()}
    if not offsets.keys() <= wanted:
        raise ValueError("other functions than those of the request")
    return offsets


def interpreter_of(document: Any) -> MappedInterpreter:
    """Raises ValueError."""
    path, runtime, code_type, version = list_of(document)
    return MappedInterpreter(text_of(path), number_of(runtime), number_of(code_type), number_of(version))


def rule_of(document: Any) -> Rule | None:
    """Raises ValueError."""
    if document is None:
        return None
    register, offset, saved = list_of(document)
    return Rule(_signed(register), _signed(offset), None if saved is None else _signed(saved))


def number_of(document: Any) -> int:
    """An unsigned number of 64 bits. Raises ValueError."""
    if type(document) is not int or not 0 <= document < 1 << 64:
        raise ValueError("a number of another form")
    return document


def text_of(document: Any) -> str:
    """Printable, and not endless. Raises ValueError."""
    if not isinstance(document, str):
        raise ValueError("a text of another form")
    return printable(document[:TEXT_CHARACTERS_MAX])


def list_of(document: Any, items_max: int = LIBRARIES_MAX) -> list[Any]:
    """Raises ValueError."""
    if not isinstance(document, list) or len(document) > items_max:
        raise ValueError("a list of another form")
    return document


def mapping_of(document: Any) -> dict[str, Any]:
    """Raises ValueError."""
    if not isinstance(document, dict):
        raise ValueError("an object of another form")
    return document


def _signed(document: Any) -> int:
    if type(document) is not int or not -(1 << 63) <= document < 1 << 63:
        raise ValueError("a number of another form")
    return document
