"""errors: a message and its remedy on one line."""

from __future__ import annotations

from exporter.errors import EXIT_CODES, BadInput, ExporterError, KernelRefused, NotPossibleHere
from exporter.fleet.failure import SOME_FAILED


class TestOneLine:
    def test_remedy_follows_the_message(self) -> None:
        assert ExporterError("no BTF", remedy="use another kernel").one_line() == "no BTF; use another kernel"

    def test_message_stands_alone_without_a_remedy(self) -> None:
        assert ExporterError("no BTF").one_line() == "no BTF"

    def test_control_characters_are_escaped(self) -> None:
        """A name that a user chose cannot begin a line of its own in a log."""
        assert ExporterError("no file a\nb\x1b[31m").one_line() == r"no file a\nb\x1b[31m"


class TestExitCode:
    def test_user_can_correct_input_but_not_the_machine(self) -> None:
        assert (ExporterError.exit_code, BadInput.exit_code, KernelRefused.exit_code) == (1, 2, 3)

    def test_every_code_has_a_meaning(self) -> None:
        """The codes of exceptions, success, nodes that fail, and those of __main__ for signals and a reader that has exited."""
        codes = {int(code) for text in EXIT_CODES for code in text.split(", ")}

        of_exceptions = {one.exit_code for one in (ExporterError, BadInput, NotPossibleHere)}

        assert codes == {0, *of_exceptions, SOME_FAILED, 130, 143, 141}
