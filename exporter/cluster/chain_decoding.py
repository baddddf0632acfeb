"""Log records `gpustall.chain.*` and spans of chains -> rows. Unknown attributes are ignored. Raises Untrusted.

docs/push.md has the attributes, which exporter/output/otlp/chain_records.py makes.
"""

from __future__ import annotations

import re
from typing import Any, Final

from exporter.cluster.labels import INT64_MAX, labels_of, pid_of
from exporter.cluster.plain_records import Attributes, PlainRecord, PlainSpan
from exporter.cluster.records import ChainEventRow, ChainSpanRow
from exporter.text import untrusted
from exporter.text.untrusted import LINE_CHARACTERS, Untrusted

EVENT_PREFIX: Final = "gpustall.chain."
_CHANGE: Final = re.compile(r"[a-z_]{1,32}")
_CHAIN_ID: Final = re.compile(r"[0-9a-f]{1,32}")
_COMMANDS_MAX: Final = 64
_COMMAND_CHARACTERS: Final = 5120
_CHANGES_MAX: Final = 1024


def chain_event_row(record: PlainRecord) -> ChainEventRow:
    known = record.attributes
    facts = _facts(known)
    return ChainEventRow._make(
        (
            _chain_id(known, record.trace_id),
            _change(record.event_name),
            untrusted.count(record.time_unix_ns, INT64_MAX),
            untrusted.count(record.observed_unix_ns or record.time_unix_ns, INT64_MAX),
            *labels_of(known, record.resource),
            pid_of(known),
            *facts,
            untrusted.text(record.body, LINE_CHARACTERS),
        )
    )


def chain_span_row(span: PlainSpan) -> ChainSpanRow:
    known = span.attributes
    events = untrusted.sequence(span.events, _CHANGES_MAX)
    return ChainSpanRow._make(
        (
            _chain_id(known, span.trace_id),
            untrusted.count(span.start_unix_ns, INT64_MAX),
            untrusted.count(span.end_unix_ns, INT64_MAX),
            *labels_of(known, span.resource),
            pid_of(known),
            *_facts(known),
            untrusted.text(span.error, LINE_CHARACTERS),
            tuple(_change(one.name) for one in events),
            tuple(untrusted.count(one.time_unix_ns, INT64_MAX) for one in events),
            tuple(_text(one.attributes, "cause") for one in events),
            tuple(_text(one.attributes, "severity") for one in events),
            tuple(_number(one.attributes, "lost_share") for one in events),
        )
    )


def _facts(known: Attributes) -> tuple[Any, ...]:
    """Columns that events and spans share: from `cause` to `commands`."""
    commands = untrusted.sequence(known.get("gpustall.chain.commands", ()), _COMMANDS_MAX)
    return (
        _text(known, "cause"),
        _text(known, "effect"),
        _text(known, "severity"),
        _text(known, "culprit"),
        _text(known, "peer"),
        _text(known, "detail", LINE_CHARACTERS),
        _text(known, "end"),
        _number(known, "lost_share"),
        _number(known, "lost_time"),
        _number(known, "contribution"),
        _number(known, "duration"),
        _text(known, "remedy", LINE_CHARACTERS),
        tuple(untrusted.text(one, _COMMAND_CHARACTERS) for one in commands),
    )


def _chain_id(known: Attributes, trace_id: str) -> str:
    found: Any = known.get("gpustall.chain.id") or trace_id
    if not isinstance(found, str) or not _CHAIN_ID.fullmatch(found):
        raise Untrusted("gpustall.chain.id is not hexadecimal digits")
    return found


def _change(name: str) -> str:
    change = name.removeprefix(EVENT_PREFIX)
    if change == name or not _CHANGE.fullmatch(change):
        raise Untrusted("not an event of a chain")
    return change


def _text(known: Attributes, name: str, characters_max: int = untrusted.NAME_CHARACTERS) -> str:
    return untrusted.text(known.get(EVENT_PREFIX + name, ""), characters_max)


def _number(known: Attributes, name: str) -> float:
    return untrusted.number(known.get(EVENT_PREFIX + name, 0.0))
