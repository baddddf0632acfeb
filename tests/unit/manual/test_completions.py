"""Completions as text; tests/end_to_end/test_completion.py runs them in real shells."""

from __future__ import annotations

from exporter.manual.command import Command, Flag
from exporter.manual.completions import bash, fish, zsh

TOP = Command(
    "top",
    "show what's lost",
    "p top [flags]",
    (
        Flag("--sort", "lost|late", ("lost", "late"), "order [lost]", True),
        Flag("--file", "FILE", (), "file: 'x'", True),
        Flag("--once", "", (), "print once", True),
    ),
    (),
)


class TestBash:
    def test_values_of_a_flag_are_its_choices_or_files(self) -> None:
        script = bash("p", [TOP])

        assert '"top --sort") mapfile -t COMPREPLY < <(compgen -W "lost late" -- "$current"); return ;;' in script
        assert '"top --file") mapfile -t COMPREPLY < <(compgen -f -- "$current")' in script
        assert 'top) word="--help --sort= --file= --once" ;;' in script


class TestZsh:
    def test_help_is_quoted(self) -> None:
        """Brackets and colons separate parts of a specification, a quote ends the string."""
        script = zsh("p", [TOP])

        assert "'--sort=[order \\[lost\\]]:lost|late:(lost late)'" in script
        assert "'--file=[file\\: '\\''x'\\'']:FILE:_files'" in script
        assert "'--once[print once]'" in script


class TestFish:
    def test_flag_belongs_to_its_command(self) -> None:
        script = fish("p", [TOP])

        assert "complete -c p -n __fish_use_subcommand -a top -d 'show what\\'s lost'" in script
        assert (
            "complete -c p -n '__fish_seen_subcommand_from top' -l sort -x -a 'lost late' -d 'order [lost]'" in script
        )
