"""host_list: the notation of Slurm."""

from __future__ import annotations

import pytest

from exporter.fleet.host_list import NAMES_MAX, expanded, parts


def names(text: str) -> list[str]:
    return expanded(parts(text))


class TestNames:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("login", ["login"]),
            ("gpu[1-3]", ["gpu1", "gpu2", "gpu3"]),
            ("gpu[01-03,20],login", ["gpu01", "gpu02", "gpu03", "gpu20", "login"]),
            ("gpu[08-11]", ["gpu08", "gpu09", "gpu10", "gpu11"]),
            ("gpu[8-11]", ["gpu8", "gpu9", "gpu10", "gpu11"]),
            ("gpu[098-101]", ["gpu098", "gpu099", "gpu100", "gpu101"]),
            ("gpu[99-101]", ["gpu99", "gpu100", "gpu101"]),
            ("gpu[0]", ["gpu0"]),
            ("gpu[007]", ["gpu007"]),
            ("gpu[1,3-4,02-03]", ["gpu1", "gpu3", "gpu4", "gpu02", "gpu03"]),
            ("rack[0-1]_blade[08-09]", ["rack0_blade08", "rack0_blade09", "rack1_blade08", "rack1_blade09"]),
            ("r[1-2]c[3,5]n[7]", ["r1c3n7", "r1c5n7", "r2c3n7", "r2c5n7"]),
            ("gpu[1-2].lan:9000", ["gpu1.lan:9000", "gpu2.lan:9000"]),
            (" gpu[1, 2] , login ", ["gpu1", "gpu2", "login"]),
        ],
    )
    def test_names_are_those_of_slurm(self, text: str, expected: list[str]) -> None:
        assert names(text) == expected

    def test_ipv6_address_is_no_bracket_of_numbers(self) -> None:
        assert names("[fd00::1]:10479,gpu[1-2]") == ["[fd00::1]:10479", "gpu1", "gpu2"]


class TestRefused:
    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("", "a name is empty in ''"),
            ("a,,b", "a name is empty in 'a,,b'"),
            ("a,", "a name is empty in 'a,'"),
            ("login,gpu[1-2", "the bracket in 'gpu[1-2' is not closed"),
            ("login,gpu1-2]", "a bracket too many in 'gpu1-2]'"),
            ("gpu[1-[2]]", "a bracket too many in 'gpu[1-['"),
            ("gpu[]", "'' in 'gpu[]' is neither a number nor a range such as 01-16"),
            ("gpu[1,]", "'' in 'gpu[1,]' is neither a number nor a range such as 01-16"),
            ("gpu[a-c]", "'a-c' in 'gpu[a-c]' is neither a number nor a range such as 01-16"),
            ("gpu[1-2-3]", "'1-2-3' in 'gpu[1-2-3]' is neither a number nor a range such as 01-16"),
            (
                "gpu[\u0661-\u0662]",
                "'\u0661-\u0662' in 'gpu[\u0661-\u0662]' is neither a number nor a range such as 01-16",
            ),
            ("gpu[3-1]", "the range 3-1 in 'gpu[3-1]' is not ascending, or its widths differ"),
            ("gpu[1-016]", "the range 1-016 in 'gpu[1-016]' is not ascending, or its widths differ"),
        ],
    )
    def test_error_names_the_wrong_part(self, text: str, reason: str) -> None:
        with pytest.raises(ValueError, match=r".*") as refused:
            names(text)

        assert str(refused.value) == reason

    def test_ten_thousand_names_are_the_limit(self) -> None:
        assert len(names("gpu[0001-9999],login")) == NAMES_MAX == 10_000

        with pytest.raises(ValueError, match=r"^more than 10000 nodes with 'login'$"):
            names("gpu[0001-9999],a,login")

    def test_limit_is_checked_before_names_are_made(self) -> None:
        """10**36 names would fill any memory."""
        with pytest.raises(ValueError, match="more than 10000 nodes"):
            names("a[0-999999999999999999]b[0-999999999999999999]")

    def test_long_text_is_cut_in_the_message(self) -> None:
        with pytest.raises(ValueError, match="is not closed") as refused:
            names("gpu[" + "1" * 1000)

        assert len(str(refused.value)) == len("the bracket in '' is not closed") + 80 + 1
