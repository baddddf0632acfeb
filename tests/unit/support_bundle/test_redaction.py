"""What looks like a secret is taken out wherever it stands, and the rest is left."""

from __future__ import annotations

import pytest

from exporter.support_bundle.redaction import Cleaner

PLAIN = Cleaner([], {}, host="")


class TestPatterns:
    """Without knowing what is secret here."""

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ("http://ann:pw@h/x", "http://[removed]@h/x"),
            ("Authorization: Bearer abcd.efgh", "Authorization: [removed] [removed]"),
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
    def test_what_looks_like_a_secret_is_taken_out(self, before: str, after: str) -> None:
        """In any text."""
        assert PLAIN.text(before) == after

    @pytest.mark.parametrize(
        "text",
        [
            "--otlp.headers-file, which holds tokens",
            "/usr/lib/x86_64-linux-gnu/libcudart.so.12: 54 functions",
            "run with sudo, or add them: docs/security.md says what each is for",
            "http://127.0.0.1:4318/v1/metrics: no answer: Connection refused",
        ],
    )
    def test_what_does_not_is_left(self, text: str) -> None:
        """A bundle that says nothing helps nobody."""
        assert PLAIN.text(text) == text


class TestKnownSecrets:
    """Those of this machine."""

    def test_each_form_is_found(self) -> None:
        """Plain, escaped as in JSON, escaped as in a URL."""
        cleaner = Cleaner(['a "b"/c'], {}, host="")

        assert cleaner.text(r'a "b"/c, a \"b\"/c, a%20%22b%22%2Fc') == "[removed], [removed], [removed]"

    def test_longest_comes_first(self) -> None:
        """Or the end of it would stay."""
        assert Cleaner(["abcd", "abcdefgh"], {}, host="").text("abcdefgh") == "[removed]"

    def test_short_word_is_no_secret_to_look_for(self) -> None:
        """It stands in every other word."""
        assert Cleaner(["run"], {}, host="").text("runtime") == "runtime"

    def test_user_and_host_are_whole_words(self) -> None:
        """The user `cu` is not in `cuda`."""
        cleaner = Cleaner([], {"USER": "cu"}, host="gpu7.example")

        assert cleaner.text("cu on gpu7 runs cuda on gpu7.example") == "[user] on [host] runs cuda on [host]"

    def test_keys_of_json_are_cleaned_too(self) -> None:
        """And what is no text is left."""
        assert Cleaner(["plant"], {}, host="").value({"plant": [1, "plant", None]}) == {
            "[removed]": [1, "[removed]", None]
        }
