"""`python -m tests.faults.campaign --short|--long|--replay DIR`: episodes, live, and what the engine says of them.

`--out DIR` keeps the sessions. Exit code of --short: 1 when there was a false alarm, a wrong cause, or more than one miss. A
session with a wrong result is played again when the machine had other work, which shows in the steps outside of the faults.
--short goes on with some trials of other jobs (tests/faults/trials), of which only a failure of the rig counts.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tests.faults.campaign.plan import episodes_of, long_sessions, short_sessions
from tests.faults.campaign.score import Scored, is_disturbed, score
from tests.faults.campaign.session import SUFFIX, Session, load, play, save
from tests.faults.campaign.table import CASE_HEAD, alarm_row, case_row, figures
from tests.faults.episode import Episode
from tests.faults.injectors import NotPossible
from tests.faults.recorder import private_standin
from tests.faults.trials import __main__ as trials

MISSES_ALLOWED = 1
SHORT_TRIALS = 6
PLAYS = 3
"""Plays of a session on a machine that has other work."""


Plan = Mapping[str, Episode]
"""By the name of the session."""


def planned(sessions: Iterable[Episode], only: str | None) -> Plan:
    """All, or those of one episode."""
    named = {f"{number:03}-{episode.name}": episode for number, episode in enumerate(sessions)}
    return {name: episode for name, episode in named.items() if only in (None, episode.name)}


def live(plan: Plan, out: Path | None, plays: int) -> Iterator[Session]:
    """Sessions in sequence; those that this machine cannot have are named and left out. plays: of one, at most."""
    with tempfile.TemporaryDirectory() as folder:
        private_standin(Path(folder))
        for name, episode in plan.items():
            try:
                session = undisturbed(episode, Path(folder), plays)
            except (NotPossible, RuntimeError) as reason:
                print(f"| {name} | not possible here: {reason} |", flush=True)
                continue
            if out is not None:
                save(session, out / f"{name}{SUFFIX}")
            yield session


def undisturbed(episode: Episode, folder: Path, plays: int) -> Session:
    """The first one that is good, or bad without an excuse, or the last. Raises what play() does."""
    for _ in range(plays - 1):
        session = play(episode, folder)
        if not is_disturbed(session) or not mistakes([score(session)], misses_allowed=0):
            return session
        print(f"| {episode.name} | played again: the machine had other work |", flush=True)
    return play(episode, folder)


def replayed(plan: Plan, folder: Path) -> Iterator[Session]:
    """Those that were kept."""
    for name, episode in plan.items():
        path = folder / f"{name}{SUFFIX}"
        if path.exists():
            yield load(path, episode)


def main() -> int:
    """Prints the tables of the episodes, then those of the trials."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.campaign", description=__doc__)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--short", action="store_true", help="about twenty episodes, and trials, in 14 minutes")
    which.add_argument("--long", action="store_true", help="360 and more, in two hours and more")
    which.add_argument("--replay", type=Path, metavar="DIR", help="sessions that --long has kept")
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep the sessions there")
    parser.add_argument("--only", metavar="NAME", help="sessions of this episode")
    parser.add_argument("--trials", type=int, metavar="N", help=f"trials of other jobs ({SHORT_TRIALS} with --short)")
    parser.add_argument("--seed", type=int, default=trials.any_seed(), help="chooses the trials (at random)")
    asked = parser.parse_args()
    if not (asked.short or asked.long or asked.replay or asked.trials):
        parser.error("--short, --long, --replay or --trials")
    wrong = sessions_of(asked) if asked.short or asked.long or asked.replay else []
    count = SHORT_TRIALS if asked.trials is None and asked.short and asked.only is None else asked.trials or 0
    code = trials.run(asked.seed, count, out=asked.out) if count else 0
    if asked.short:
        print("\n".join(f"not as it should be: {one}" for one in wrong) or "episodes as they should be")
    return 1 if asked.short and wrong else code


def sessions_of(asked: argparse.Namespace) -> list[str]:
    """Prints the tables of the episodes; returns what was wrong."""
    if asked.out is not None:
        asked.out.mkdir(parents=True, exist_ok=True)
    plan = planned(short_sessions() if asked.short else long_sessions(), asked.only)
    if asked.replay is not None:
        sessions = replayed(plan, asked.replay)
        print(f"Replay of what was recorded in {asked.replay.name}: no program runs.\n")
    else:
        sessions = live(plan, asked.out, PLAYS if asked.short else 1)
        print(f"{episodes_of(plan.values())} episodes in {len(plan)} sessions, live.\n")
    began_at = time.monotonic()
    scored = []
    print(CASE_HEAD, flush=True)
    for session in sessions:
        one = score(session)
        scored.append(one)
        for case in one.cases:
            print(case_row(case), flush=True)
        for alarm in one.false_alarms:
            print(alarm_row(session.episode, alarm))
    print(f"\n{figures(scored)}\n\nin {(time.monotonic() - began_at) / 60:.1f} min")
    return mistakes(scored)


def mistakes(scored: Iterable[Scored], misses_allowed: int = MISSES_ALLOWED) -> list[str]:
    """Rows of false alarms, and, of faults that cost a fifth or more, of wrong causes and of misses beyond those allowed."""
    found = list(scored)
    strong = [case for one in found for case in one.cases if case.is_strong]
    missed = [case for case in strong if case.first is None and case.is_of_the_host]
    wrong = [case for case in strong if case.first is not None and not case.is_right]
    rows = [case_row(case) for case in (*wrong, *(missed if len(missed) > misses_allowed else ()))]
    return rows + [alarm_row(one.episode, alarm) for one in found for alarm in one.false_alarms]


if __name__ == "__main__":
    sys.exit(main())
