"""fleet.access: files of certificates and of the token."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.errors import BadInput
from exporter.fleet.access import AccessFiles, access_of
from tests.support.certificates import Certificates


class TestAccess:
    """What is shown to nodes."""

    def test_token_is_the_line_of_its_file(self, tmp_path: Path) -> None:
        file = tmp_path / "token"
        file.write_text("abc_DEF-123\n")

        assert access_of(AccessFiles(token=file)).headers == {"Authorization": "Bearer abc_DEF-123"}

    def test_link_to_a_token_is_followed(self, tmp_path: Path) -> None:
        """Kubernetes mounts secrets that way."""
        (tmp_path / "data").write_text("abc")
        (tmp_path / "token").symlink_to("data")

        assert access_of(AccessFiles(token=tmp_path / "token")).headers == {"Authorization": "Bearer abc"}

    def test_without_a_token_no_header_is_sent(self) -> None:
        assert access_of(AccessFiles()).headers == {}

    @pytest.mark.parametrize("text", [b"", b"\n", b"two words", b"two\nlines", b"\xff\xfe", b"a\x00b"])
    def test_file_without_one_token_is_refused_and_not_shown(self, text: bytes, tmp_path: Path) -> None:
        file = tmp_path / "token"
        file.write_bytes(text)

        with pytest.raises(BadInput) as refused:
            access_of(AccessFiles(token=file))
        assert str(refused.value) == f"--nodes.token-file: {file} does not hold one token"

    def test_missing_token_file_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(BadInput, match=r"--nodes\.token-file: cannot read .*/none: No such file"):
            access_of(AccessFiles(token=tmp_path / "none"))

    def test_certificate_and_key_are_loaded_once(self, issued: Certificates) -> None:
        access = access_of(AccessFiles(issued.authority, issued.client, issued.client_key))

        assert (access.scheme, access.context is not None) == ("https", True)

    def test_unusable_authority_is_bad_input(self, tmp_path: Path) -> None:
        file = tmp_path / "ca.pem"
        file.write_text("no certificate")

        with pytest.raises(BadInput, match=r"ca\.pem holds no certificates"):
            access_of(AccessFiles(ca=file))

    def test_key_without_certificate_is_refused(self, issued: Certificates) -> None:
        with pytest.raises(BadInput, match=r"--nodes\.key without --nodes\.cert"):
            access_of(AccessFiles(key=issued.client_key))

    def test_insecure_is_plain_http_with_the_token(self, tmp_path: Path) -> None:
        (tmp_path / "token").write_text("abc")
        access = access_of(AccessFiles(token=tmp_path / "token"), is_insecure=True)

        assert (access.scheme, access.token) == ("http", "abc")

    def test_insecure_with_an_authority_is_refused(self, issued: Certificates) -> None:
        with pytest.raises(BadInput, match=r"--nodes\.insecure asks without TLS"):
            access_of(AccessFiles(ca=issued.authority), is_insecure=True)
