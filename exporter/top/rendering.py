"""A View and the user's choices -> lines for a width and a height. Pure.

In: View, Screen, ScrapeStatus. Out: at most `height` Lines of at most `width` columns. From the top: a title, reasons why figures
are incomplete, open chains, the workloads with their lost time, and the calls of the selected one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from exporter.chains.chain import Effect
from exporter.scrape.view import OpenChain, View, Workload
from exporter.top import terminal_text
from exporter.top.layout import Line, Style, StyledText, clipped, padded, restyled, text_of
from exporter.top.operation_table import operation_table, operations_title, rows_with_lines
from exporter.top.screen import Screen, arranged, selected_of
from exporter.top.terminal_text import Glyphs
from exporter.top.workload_table import CAUSE_STYLES, SEVERITY_STYLES, workload_table

_LOW_SCREEN: Final = 10  # with fewer lines there is no blank between tables, and no room for operations
_LINES_WITH_FOOTER: Final = 8
_OPERATION_LINES: Final = 5  # heading, names of columns, three rows
_KEYS: Final = "q quit  s sort  / filter  Enter detail  p pause  h help"
_NO_EFFECTS: Final = (Effect.STEP, Effect.EXIT)  # the step as a whole, or the end of the process
_HELP: Final = (
    "Up Down j k     select a workload, or scroll its operations",
    "PgUp PgDn g G   ten at a time; first, last",
    "Enter  Esc      operations of the workload, with lines of Python; back",
    "s               next order: lost, step, late, calls, rank, node",
    "l t a c r n     order by lost, step time, lateness, calls, rank, node",
    "R               reverse the order",
    "/               filter: part of a label, a program, a cause or a culprit",
    "p               pause",
    "q  Ctrl-C       quit",
    "",
    "LOST  part of the time that the GPU waited for the host; the sum of processes",
    "WHY   causes, the largest first (with its culprit); the bar has their order",
    "STEP  mean length of a training step; ~ if none has ended in the interval",
    "LATE  time by which it enters a collective after the node's first rank, mean",
    "TIME  part of the time in such calls, summed over threads; a synchronising call",
    "      waits for the GPU, which is not lost time",
    "slow  calls of the operation from a line of Python, that took twice as long as",
    "      nine of ten before: how many, their mean length, their part of the time",
)


class ScrapeStatus(NamedTuple):
    """The state of the scrapes. shown_url: of the exporter. time_of_day: of the figures, as text.

    failure: of the last scrape, "" for none; stale_seconds: the age of the figures then.
    """

    shown_url: str
    time_of_day: str
    failure: str = ""
    stale_seconds: float = 0.0


def lines_of(
    view: View, screen: Screen, status: ScrapeStatus, size: tuple[int, int], glyphs: Glyphs
) -> tuple[Line, ...]:
    """The lines of a terminal. size: columns and lines."""
    width, height = max(size[0], 1), max(size[1], 1)
    messages = _shortened(_messages(view, screen, status), max(height // 4, 1), "message")
    head = [_title(view, screen, status, width, glyphs), *messages]
    foot = [_footer(screen, width)] if height >= _LINES_WITH_FOOTER or screen.typed is not None else []
    left = max(height - len(head) - len(foot), 0)
    if screen.is_help:
        body = _help()[:left]
    elif screen.is_detail and (chosen := selected_of(screen, arranged(screen, view))):
        body = _detail(view, chosen, screen.scroll, (width, left), glyphs)
    else:
        body = _overview(view, screen, width, left, glyphs)
    blank: list[Line] = [()] * (left - len(body))
    whole = [*head[: max(height - len(foot), 0)], *body[:left], *(blank if foot else []), *foot]
    return tuple(clipped(line, width, glyphs) for line in whole)


def plain_lines_of(view: View, screen: Screen, status: ScrapeStatus, width: int, glyphs: Glyphs) -> tuple[str, ...]:
    """The lines for a file or a pipe: all chains and workloads, no selection."""
    rows = arranged(screen, view)
    lines = [
        _title(view, screen, status, width, glyphs),
        *_messages(view, screen, status),
        *_chains(view, screen, width, glyphs),
    ]
    lines += [(), *workload_table(rows, width, glyphs)]
    if rows:
        names, operations = rows_with_lines(rows[0], width, glyphs)
        shown = [line for one in operations[: 2 * _OPERATION_LINES] for line in one]
        lines += [(), operations_title(rows[0], glyphs, with_node=_has_nodes(view)), names, *shown]
    return tuple(text_of(clipped(line, width, glyphs)).rstrip() for line in lines)


# --- title


def _title(view: View, screen: Screen, status: ScrapeStatus, width: int, glyphs: Glyphs) -> Line:
    """As many facts as fit, the most important first."""
    rates = (
        "since start" if view.window_seconds is None else f"last {terminal_text.duration(view.window_seconds, glyphs)}"
    )
    nodes = sorted({workload.identity.node for workload in view.workloads if workload.identity.node})
    facts = [
        rates,
        "PAUSED" if screen.is_paused else "",
        f"filter {screen.filter}" if screen.filter else "",
        _counted(len(view.chains), "open chain") if view.chains else "",
        _counted(len(view.workloads), "workload"),
        f"node {nodes[0]}" if len(nodes) == 1 else f"{len(nodes)} nodes" if nodes else "",
        status.time_of_day,
        f"by {screen.sort}{' reversed' if screen.is_reversed else ''}",
        status.shown_url,
    ]
    text = "top"
    for fact in filter(None, facts):
        longer = f"{text} {glyphs.dot} {fact}"
        if terminal_text.width_of(longer) > width:
            break
        text = longer
    return padded((StyledText(text, Style.TITLE),), width, Style.TITLE)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _has_nodes(view: View) -> bool:
    """Whether names need their node."""
    return len({workload.identity.node for workload in view.workloads}) > 1


def _messages(view: View, screen: Screen, status: ScrapeStatus) -> list[Line]:
    lines: list[Line] = []
    if status.failure:
        lines.append((StyledText(f"STALE for {status.stale_seconds:.0f} s: {status.failure}", Style.WARNING),))
    missing = (one.line for one in view.failed_nodes)
    lines += [(StyledText(note, Style.WARNING),) for note in (*missing, *view.notes)]
    if view.workloads and not arranged(screen, view):
        lines.append((StyledText("no workload matches the filter", Style.WARNING),))
    return lines


def _footer(screen: Screen, width: int) -> Line:
    if screen.typed is not None:
        return (StyledText(f"filter: {screen.typed}_", Style.BOLD),)
    if screen.is_help:
        return padded((StyledText("any key: back", Style.DIM),), width, Style.DIM)
    return (StyledText("Esc back  Up Down scroll  q quit" if screen.is_detail else _KEYS, Style.DIM),)


def _help() -> list[Line]:
    return [(StyledText(line),) for line in _HELP]


# --- the overview


def _overview(view: View, screen: Screen, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    """Divides the height: chains get a quarter, operations what the workloads leave, at least three rows if half is left."""
    rows = arranged(screen, view)
    chosen = selected_of(screen, rows)
    is_low = height < _LOW_SCREEN
    chains = _shortened(_chains(view, screen, width, glyphs), max(height // 4, 1), "open chain")
    if is_low and not view.chains:
        chains = []
    blank: list[Line] = [] if is_low else [()]
    lines = [*chains, *blank]
    room = height - len(lines)
    of_operations = 0 if is_low or not rows else _OPERATION_LINES + len(blank)
    heading, *table_rows = workload_table(rows, width, glyphs)
    seen = _scrolled(table_rows, rows.index(chosen) if chosen else 0, max(room - 1 - of_operations, room // 2, 1))
    lines += [
        heading,
        *(padded(restyled(row, Style.SELECTED), width, Style.SELECTED) if is_it else row for row, is_it in seen),
    ]
    left = height - len(lines) - len(blank)
    if chosen and left >= _OPERATION_LINES - 1:
        lines += [
            *blank,
            operations_title(chosen, glyphs, with_node=_has_nodes(view)),
            *operation_table(chosen, width, glyphs)[: left - 1],
        ]
    return lines


def _scrolled(rows: Sequence[Line], selected: int, height: int) -> list[tuple[Line, bool]]:
    """The rows around the selected one, and whether each is the selected one."""
    first = min(max(selected - height // 2, 0), max(len(rows) - height, 0))
    return [(row, number == selected) for number, row in enumerate(rows)][first : first + height]


def _shortened(lines: list[Line], height: int, what: str) -> list[Line]:
    if len(lines) <= height:
        return lines
    kept = lines[: max(height - 1, 1)]
    missing = len(lines) - len(kept)
    return [*kept, (StyledText(f"and {missing} more {what}s", Style.DIM),)] if height > 1 else kept


def _chains(view: View, screen: Screen, width: int, glyphs: Glyphs) -> list[Line]:
    """A line for each chain that matches the filter: severity, workload, cause, effect, lost share, culprits."""
    shown = {workload.identity for workload in arranged(screen, view)}
    is_filtered = bool(screen.filter or screen.typed)
    chains = [chain for chain in view.chains if not is_filtered or chain.identity in shown]
    if not chains:
        return [(StyledText("no open chain", Style.DIM),)]
    names = [terminal_text.name_of(chain.identity, with_node=_has_nodes(view)) for chain in chains]
    name_columns = min(max(map(terminal_text.width_of, names)), max(width // 3, 6))
    lines: list[Line] = []
    for chain, name in zip(chains, names, strict=True):
        style = SEVERITY_STYLES[chain.severity]
        cut = terminal_text.fitted(name, name_columns, glyphs)
        blanks = " " * (name_columns - terminal_text.width_of(cut))
        lines.append(
            (
                StyledText(f"{chain.severity.name:<8}  ", style),
                StyledText(f"{cut}{blanks}  "),
                StyledText(_what(chain, glyphs), Style.BOLD),
                StyledText(f"{_lost(chain, glyphs)}{_culprits(chain)}"),
            )
        )
    return lines


def _what(chain: OpenChain, glyphs: Glyphs) -> str:
    """`lock → longer gap`; the cause alone where nothing in particular takes longer."""
    return chain.cause if chain.effect in _NO_EFFECTS else f"{chain.cause} {glyphs.leads_to} longer {chain.effect}"


def _lost(chain: OpenChain, glyphs: Glyphs) -> str:
    """`, 48 % now, 55 % at its worst`; once where both are the same."""
    if chain.lost_share is None or chain.worst_lost_share is None:
        return ""
    present, worst = (terminal_text.share(share, glyphs) for share in (chain.lost_share, chain.worst_lost_share))
    return f", {present} now, {worst} at its worst" if present != worst else f", {present} now"


def _culprits(chain: OpenChain) -> str:
    return f", culprit {', '.join(chain.culprits)}" if chain.culprits else ""


def _detail(view: View, workload: Workload, scroll: int, size: tuple[int, int], glyphs: Glyphs) -> list[Line]:
    """One workload: its row, chains with their ids, causes with their culprits, operations with their lines of Python."""
    width, height = size
    heading, row = workload_table([workload], width, glyphs)
    lines: list[Line] = [heading, row, ()]
    for chain in view.chains:
        if chain.identity == workload.identity:
            style = SEVERITY_STYLES[chain.severity]
            text = f"chain {_what(chain, glyphs)}{_lost(chain, glyphs)}{_culprits(chain)}"
            lines.append((StyledText(f"{chain.severity.name:<8}  ", style), StyledText(text)))
            lines += [(StyledText(f"{'':<8}  id {chain_id}", Style.DIM),) for chain_id in chain.ids]
    for number, loss in enumerate(workload.lost or ()):
        style = CAUSE_STYLES[min(number, len(CAUSE_STYLES) - 1)]
        culprits = "  ".join(f"{name} {terminal_text.share(part, glyphs)}" for name, part in loss.culprits)
        lines.append(
            (
                StyledText(f"{terminal_text.share(loss.share, glyphs):>5}  "),
                StyledText(f"{loss.cause:<18}  ", style),
                StyledText(culprits),
            )
        )
    lines = lines[: max(height - _OPERATION_LINES - 1, 2)]
    processes = ", ".join(f"{process.comm} {process.pid}" for process in workload.processes)
    title = (*operations_title(workload, glyphs, with_node=True), StyledText(f"  {processes}", Style.DIM))
    names, operations = rows_with_lines(workload, width, glyphs)
    lines += [(), title, names]
    first = min(scroll, max(len(operations) - 1, 0))
    shown = [line for rows in operations[first:] for line in rows]
    return [*lines, *shown[: max(height - len(lines), 0)]]
