"""Queries the RAS socket of a job, and makes lines of evidence of the answer. Runs in a process without privileges.

In: sockets that are not connected yet, an address, what is known of the job. Out: RasResult. Several processes listen on the same
port, and the kernel chooses one for each connection: one that is stopped, or is of another job, is followed by another one.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable
from typing import Final, NamedTuple

from exporter.ras.conversation import ConversationFailed, RasAnswer, RasFailure, answer_of
from exporter.ras.job import KnownJob, is_about
from exporter.ras.json_form import report_of_json
from exporter.ras.line import line
from exporter.ras.lines import lines_of
from exporter.ras.report import Report
from exporter.ras.text_form import report_of_text
from exporter.text.untrusted import Untrusted

CONNECTIONS_MAX: Final = 4
DEADLINE_SECONDS: Final = 15.0

ANSWERED, OTHER_JOB, ABSENT, NAMESPACE, LEFT_OUT, FAILED = (
    "answered",
    "other_job",
    "absent",
    "namespace",
    "left_out",
    "failed",
)
RESULTS: Final = (ANSWERED, OTHER_JOB, *(one.value for one in RasFailure), ABSENT, NAMESPACE, LEFT_OUT, FAILED)
"""How asking a job has ended; values of a label."""


class RasResult(NamedTuple):
    """result: one of RESULTS. lines: evidence."""

    result: str
    lines: tuple[str, ...]


def asked(
    sockets: Iterable[socket.socket],
    address: tuple[str, int],
    job: KnownJob,
    deadline_seconds: float = DEADLINE_SECONDS,
) -> RasResult:
    """sockets: one for each connection that may be made; closed by the caller if none was."""
    deadline = time.monotonic() + deadline_seconds
    last = RasResult(RasFailure.SILENT.value, _failure_lines(RasFailure.SILENT, address))
    for stream in sockets:
        try:
            report = _report_of(answer_of(stream, address, deadline))
        except ConversationFailed as error:
            last = RasResult(error.failure.value, _failure_lines(error.failure, address))
            if error.is_at_begin:
                continue
            return last
        if is_about(report, job):
            return RasResult(ANSWERED, lines_of(report, job))
        last = RasResult(OTHER_JOB, (line(f"another job answers at {_shown(address)}: nothing is known of this one"),))
    return last


def _report_of(answer: RasAnswer) -> Report:
    try:
        return report_of_json(answer.content) if answer.is_json else report_of_text(answer.content)
    except Untrusted:
        raise ConversationFailed(RasFailure.UNREADABLE) from None


def _failure_lines(failure: RasFailure, address: tuple[str, int]) -> tuple[str, ...]:
    where = _shown(address)
    match failure:
        case RasFailure.REFUSED:
            text = f"{where} refuses or ends connections"
        case RasFailure.SILENT:
            text = f"{where} does not answer in time: the process that listens may be stopped"
        case RasFailure.TOO_LONG:
            text = f"the answer of {where} is too long to be read"
        case RasFailure.UNREADABLE:
            text = f"the answer of {where} is not readable: another version of NCCL, or another program"
    return (line(text),)


def _shown(address: tuple[str, int]) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
