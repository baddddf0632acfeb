"""`gpu-stall-exporter demo`: a training job with a real fault, and what the exporter reports about it."""

from __future__ import annotations

import argparse
from pathlib import Path

from exporter.config import parsers
from exporter.config.setting import parsed
from exporter.demo.player import Player
from exporter.demo.scenarios import SCENARIOS
from exporter.errors import BadInput

DEFAULT_SCENARIO, ALL = "incident", "all"
DEFAULT_DURATION = "30s"
SECONDS_MIN, SECONDS_MAX = 22.0, 55.0
"""A baseline takes eight seconds to learn; a recording holds the last minute."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s [flags] [SCENARIO ...]"
    parser.add_argument(
        "scenario", nargs="*", metavar="SCENARIO", help=f"{', '.join(SCENARIOS)} or {ALL} [{DEFAULT_SCENARIO}]"
    )
    parser.add_argument(
        "--duration", metavar="DURATION", help=f"length of a live demo, 22s to 55s [{DEFAULT_DURATION}]"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="output format [text]")
    parser.add_argument(
        "--replay",
        nargs="?",
        const="",
        metavar="RECORDING",
        help="replay this recording or that of the scenario [if no live demo is possible]",
    )
    parser.add_argument("--save", metavar="FILE", help="write the last minute of a live demo to this recording")


def run(arguments: argparse.Namespace) -> int:
    """Returns 0 for every scenario that was played, whatever it found."""
    duration_seconds = parsed(_duration, arguments.duration or DEFAULT_DURATION, "--duration")
    is_replay = arguments.replay is not None
    player = Player(is_json=arguments.format == "json", save=Path(arguments.save) if arguments.save else None)
    if arguments.save and is_replay:
        raise BadInput("--save cannot be combined with --replay")
    if arguments.replay:
        if arguments.scenario or arguments.duration:
            other = "--duration" if arguments.duration else "a scenario"
            raise BadInput(f"--replay RECORDING cannot be combined with {other}")
        player.replay_file(Path(arguments.replay))
        return 0
    names = list(SCENARIOS) if arguments.scenario == [ALL] else arguments.scenario or [DEFAULT_SCENARIO]
    unknown = [name for name in names if name not in SCENARIOS]
    if unknown:
        raise BadInput(f"unknown scenario {unknown[0]!r}", remedy=f"choose one of {', '.join(SCENARIOS)}, {ALL}")
    if arguments.save and len(names) > 1:
        raise BadInput(f"--save takes one scenario, not {len(names)}")
    for number, name in enumerate(names):
        if number:
            print()
        if is_replay:
            player.replay(SCENARIOS[name])
        else:
            player.play(SCENARIOS[name], duration_seconds)
    return 0


def _duration(text: str) -> float:
    seconds = parsers.duration(text)
    if not SECONDS_MIN <= seconds <= SECONDS_MAX:
        raise ValueError(f"want {SECONDS_MIN:.0f}s to {SECONDS_MAX:.0f}s")
    return seconds
