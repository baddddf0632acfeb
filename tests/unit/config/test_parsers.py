"""parsers: text -> value, and what is wanted instead of a wrong text."""

from __future__ import annotations

import enum
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from exporter.config import parsers


class Colour(enum.StrEnum):
    """Choices."""

    RED = "red"
    BLUE = "blue"


class TestAddresses:
    @pytest.mark.parametrize(
        ("text", "address"),
        [
            ("127.0.0.1:10478", ("127.0.0.1", 10478)),
            ("0.0.0.0:0", ("0.0.0.0", 0)),  # noqa: S104 - parsed, not bound
            (":9100", ("", 9100)),
            ("localhost:9100", ("localhost", 9100)),
            ("[::1]:10478", ("::1", 10478)),
            ("[::]:65535", ("::", 65535)),
        ],
    )
    def test_both_families(self, text: str, address: tuple[str, int]) -> None:
        """IPv6 in brackets, as in a URL; a port alone listens on every IPv4 address."""
        assert parsers.addresses(text) == (address,)

    def test_several(self) -> None:
        assert parsers.addresses("127.0.0.1:1,[::1]:1") == (("127.0.0.1", 1), ("::1", 1))

    def test_free_port_may_be_repeated(self) -> None:
        assert len(parsers.addresses("127.0.0.1:0,127.0.0.1:0")) == 2

    def test_duplicate_is_refused(self) -> None:
        with pytest.raises(ValueError, match="an address is given twice"):
            parsers.addresses("127.0.0.1:1,127.0.0.1:1")


class TestNumbers:
    @pytest.mark.parametrize(
        ("text", "seconds"), [("250ms", 0.25), ("10ms", 0.01), ("30s", 30.0), ("1.5m", 90.0), ("2h", 7200.0)]
    )
    def test_duration(self, text: str, seconds: float) -> None:
        assert parsers.duration(text) == seconds

    @pytest.mark.parametrize(("text", "share"), [("1%", 0.01), ("0.5%", 0.005), ("100%", 1.0)])
    def test_share(self, text: str, share: float) -> None:
        assert parsers.share(text) == share

    @pytest.mark.parametrize(
        ("text", "size_bytes"), [("2MiB", 2 << 20), ("4096KiB", 4 << 20), ("1GiB", 1 << 30), ("64GiB", 64 << 30)]
    )
    def test_size(self, text: str, size_bytes: int) -> None:
        assert parsers.size(text) == size_bytes


class TestChoices:
    @pytest.mark.parametrize(("text", "value"), [("true", True), ("ON", True), ("no", False), ("0", False)])
    def test_switch(self, text: str, *, value: bool) -> None:
        assert parsers.switch(text) is value
        assert parsers.inverted_switch(text) is not value

    def test_member_of_an_enum(self) -> None:
        assert parsers.choice(Colour)("blue") is Colour.BLUE

    def test_none_has_a_word_of_its_own(self) -> None:
        assert parsers.choice_or_none(Colour, none="auto")("auto") is None
        assert parsers.choice_or_none(Colour, none="auto")("red") is Colour.RED

    @pytest.mark.parametrize(
        ("parse", "wanted"),
        [
            (parsers.choice(Colour), "want one of red, blue"),
            (parsers.choice_or_none(Colour, none="auto"), "want one of auto, red, blue"),
        ],
    )
    def test_error_lists_the_choices(self, parse: Callable[[str], Any], wanted: str) -> None:
        with pytest.raises(ValueError, match=f"^{wanted}$"):
            parse("Red")

    def test_words_are_those_of_the_message(self) -> None:
        """Completions offer them."""
        assert parsers.choice_or_none(Colour, none="auto").words == ("auto", "red", "blue")

    def test_word_that_users_try_in_vain_has_a_message_of_its_own(self) -> None:
        parse = parsers.Choice({"red": 1}, hints={"rouge": "want English"})
        with pytest.raises(ValueError, match=r"^want English$"):
            parse("rouge")

    def test_case_can_be_ignored(self) -> None:
        assert parsers.in_any_case(parsers.choice(Colour))("Red") is Colour.RED


class TestPaths:
    def test_word_none_stands_for_no_file(self) -> None:
        assert parsers.path_or_none("none") is None
        assert parsers.sqlite_file_or_none("none") is None

    def test_readable_file_becomes_absolute(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A daemon changes its working directory."""
        (tmp_path / "web.yml").touch()
        monkeypatch.chdir(tmp_path)

        assert parsers.absolute_file("web.yml") == tmp_path / "web.yml"
