"""`gpu-stall-exporter assets`: writes alert rules, boards, manifests, units and documents to a folder."""

from __future__ import annotations

import argparse
from pathlib import Path

from exporter.assets import runbook
from exporter.assets.writing import Assets
from exporter.errors import BadInput


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", metavar="DIR", help="folder to write to, created if missing [list the files]")
    parser.add_argument(
        "--runbook-url",
        metavar="URL",
        help="page that alerts and boards link to, your copy of alerts/runbook.md [the project's]",
    )
    parser.add_argument("--force", action="store_true", help="replace files that exist with other content")


def run(arguments: argparse.Namespace) -> int:
    """Returns 0 when every file is in the folder."""
    url = "" if arguments.runbook_url is None else runbook.checked(arguments.runbook_url)
    assets = Assets.of_installation(url)
    if arguments.output is None:
        if arguments.force or url:
            raise BadInput(f"{'--force' if arguments.force else '--runbook-url'} needs --output")
        print("\n".join(assets.names))
        return 0
    if not arguments.output:
        raise BadInput("--output: want a folder")
    folder = Path(arguments.output)
    written = assets.write(folder, replaces=arguments.force)
    kept = len(assets.names) - written
    print(f"wrote {written} files to {folder}" + (f", {kept} were there already" if kept else ""))
    print("alerts/README.md, dashboards/README.md and docs/deployment.md there are the instructions")
    return 0
