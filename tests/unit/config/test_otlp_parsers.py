"""otlp_parsers: headers of every request. Most are tokens, so no message may contain them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.config.command_line import BASE, LOCAL, SECRET, headers_file, receiver, refused, unusable


class TestHeaders:
    @pytest.mark.parametrize(
        ("text", "headers"),
        [
            ("api-key=secret", (("api-key", "secret"),)),
            ("api-key=secret,x-scope=a", (("api-key", "secret"), ("x-scope", "a"))),
            (" api-key = secret , x-scope = a ", (("api-key", "secret"), ("x-scope", "a"))),
            ("authorization=Basic%20dXNlcjpwYXNz%3D%3D", (("authorization", "Basic dXNlcjpwYXNz=="),)),
            ("authorization=Basic dXNlcjpwYXNz==", (("authorization", "Basic dXNlcjpwYXNz=="),)),
            ("a=%2C%3D%25", (("a", ",=%"),)),
            ("a=", (("a", ""),)),
            ("a=1,,", (("a", "1"),)),
            (",", ()),
        ],
    )
    def test_variable_is_a_list_of_pairs_with_percent_encoded_values(self, text: str, headers: object) -> None:
        """As OpenTelemetry specifies."""
        assert receiver(**{BASE: LOCAL, "OTEL_EXPORTER_OTLP_HEADERS": text}).headers == headers

    def test_file_has_one_header_per_line_without_encoding(self, tmp_path: Path) -> None:
        """Empty lines and comments are skipped."""
        text = "# the token of the team\n\n  api-key = a%20b,c=d \nx-scope=#1\r\n   # another\n"

        found = receiver(f"--otlp.endpoint={LOCAL}", headers_file(tmp_path, text))
        assert found.headers == (("api-key", "a%20b,c=d"), ("x-scope", "#1"))

    def test_file_overrides_the_variable(self, tmp_path: Path) -> None:
        """They are not merged."""
        flag = headers_file(tmp_path, "a=1\n")

        found = receiver(flag, **{BASE: LOCAL, "OTEL_EXPORTER_OTLP_HEADERS": "b=2"})
        assert found.headers == (("a", "1"),)

    @pytest.mark.parametrize(
        ("wrong", "why"),
        [
            (SECRET, "has no `=`; want name=value"),
            (f"={SECRET}", "has an invalid name"),
            (f"a {SECRET}=b", "has an invalid name"),
            (f"{SECRET}é=b", "has an invalid name"),
            (f"{SECRET}:=b", "has an invalid name"),
            (f"a={SECRET}%0d%0ab: c", "has characters that a header must not have"),
            (f"a={SECRET}%00", "has characters that a header must not have"),
            (f"a={SECRET}é", "has characters that a header must not have"),
            (f"a={SECRET}%FF", "has characters that a header must not have"),
            (f"Content-Type={SECRET}", "sets content-type, which the exporter sets itself"),
            (f"content-encoding={SECRET}", "sets content-encoding, which the exporter sets itself"),
            (f"CONTENT-LENGTH={SECRET}", "sets content-length, which the exporter sets itself"),
            (f"host={SECRET}", "sets host, which the exporter sets itself"),
            (f"transfer-encoding={SECRET}", "sets transfer-encoding, which the exporter sets itself"),
            (f"connection={SECRET}", "sets connection, which the exporter sets itself"),
        ],
    )
    def test_invalid_header_of_the_variable_is_numbered_and_not_repeated(self, wrong: str, why: str) -> None:
        found = unusable(**{BASE: LOCAL, "OTEL_EXPORTER_OTLP_HEADERS": f"a=b,{wrong}"})

        assert found.startswith("environment variable OTEL_EXPORTER_OTLP_HEADERS: ")
        assert "header 2" in found
        assert why in found
        assert SECRET not in found

    @pytest.mark.parametrize(
        ("wrong", "why"),
        [
            (SECRET, "has no `=`; want name=value"),
            (f"a b={SECRET}", "has an invalid name"),
            (f"a={SECRET}\x00", "has characters that a header must not have"),
            (f"host={SECRET}", "sets host, which the exporter sets itself"),
        ],
    )
    def test_invalid_line_of_the_file_is_numbered_and_not_repeated(self, tmp_path: Path, wrong: str, why: str) -> None:
        """The comment counts as a line."""
        found = refused(f"--otlp.endpoint={LOCAL}", headers_file(tmp_path, f"a=b\n# comment\n{wrong}\n"))

        assert found.startswith("--otlp.headers-file: ")
        assert f"line 3 of {tmp_path}/headers" in found
        assert why in found
        assert SECRET not in found

    def test_other_bytes_than_ascii_are_refused_and_not_repeated(self, tmp_path: Path) -> None:
        found = refused(f"--otlp.endpoint={LOCAL}", headers_file(tmp_path, f"a={SECRET}é\n"))

        assert found.startswith(f"--otlp.headers-file: invalid value '{tmp_path}/headers': want ASCII")
        assert SECRET not in found

    @pytest.mark.parametrize("path", ["/nonexistent", "/"])
    def test_unreadable_file_is_refused(self, path: str) -> None:
        found = refused(f"--otlp.endpoint={LOCAL}", f"--otlp.headers-file={path}")

        assert found.startswith(f"--otlp.headers-file: invalid value '{path}': cannot read it: ")
