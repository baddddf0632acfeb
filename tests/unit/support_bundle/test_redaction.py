"""redaction: secrets are removed, all other text stays."""

from __future__ import annotations

import pytest

from exporter.support_bundle.redaction import Redactor

PLAIN = Redactor([], {}, host="")


class TestPatterns:
    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ("http://ann:pw@h/x", "http://[removed]@h/x"),
            ("Authorization: Bearer abcd.efgh", "Authorization: [removed]"),
            ("sent Bearer abcd.efgh twice", "sent Bearer [removed] twice"),
            ("api_key=abc, then", "api_key=[removed], then"),
            ('"password": "abc"', '"password": "[removed]"'),
            ("/home/ann/lib/libcudart.so", "/home/[user]/lib/libcudart.so"),
            ("-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----\nx", "[removed]\nx"),
            ("$2y$10$abcdefghijklmnopqrstuuWGkzHQ8TsBQyNDbGMQXwCZKtFBUuCi6!", "[removed]!"),
            (
                'avc: denied { prog_load } comm="train.py" exe=/a/b',
                "avc: denied { prog_load } comm=[removed] exe=[removed]",
            ),
        ],
    )
    def test_text_that_looks_like_a_secret_is_removed(self, before: str, after: str) -> None:
        assert PLAIN.text(before) == after

    @pytest.mark.parametrize(
        "text",
        [
            "--otlp.headers-file, which holds tokens",
            "/usr/lib/x86_64-linux-gnu/libcudart.so.12: 54 functions",
            "run it as root, or grant them: docs/security.md says what each is for",
            "http://127.0.0.1:4318/v1/metrics: no answer: connection refused",
        ],
    )
    def test_ordinary_text_stays(self, text: str) -> None:
        assert PLAIN.text(text) == text


class TestKnownSecrets:
    def test_every_spelling_is_removed(self) -> None:
        """Plain, escaped as in JSON, escaped as in a URL."""
        redactor = Redactor(['a "b"/c'], {}, host="")

        assert redactor.text(r'a "b"/c, a \"b\"/c, a%20%22b%22%2Fc') == "[removed], [removed], [removed]"

    def test_longest_secret_is_removed_first(self) -> None:
        """Otherwise its end would stay."""
        assert Redactor(["abcd", "abcdefgh"], {}, host="").text("abcdefgh") == "[removed]"

    def test_secret_of_three_characters_is_ignored(self) -> None:
        """It would match in ordinary words."""
        assert Redactor(["run"], {}, host="").text("runtime") == "runtime"

    def test_names_of_user_and_host_match_whole_words(self) -> None:
        """The user `cu` is not in `cuda`."""
        redactor = Redactor([], {"USER": "cu"}, host="gpu7.example")

        assert redactor.text("cu on gpu7 runs cuda on gpu7.example") == "[user] on [host] runs cuda on [host]"

    def test_keys_of_json_are_redacted_too(self) -> None:
        """Numbers and null stay."""
        assert Redactor(["plant"], {}, host="").value({"plant": [1, "plant", None]}) == {
            "[removed]": [1, "[removed]", None]
        }

    def test_value_of_a_secret_name_is_removed_whatever_it_is(self) -> None:
        """The name of a file is kept."""
        assert PLAIN.value({"db_password": "x", "token_file": "a/b", "Cookie": "y", "has_token": True, "n": "z"}) == {
            "db_password": "[removed]",
            "token_file": "a/b",
            "Cookie": "[removed]",
            "has_token": True,
            "n": "z",
        }
