"""A certificate for this machine's own names."""

from __future__ import annotations

import ssl
import stat
from pathlib import Path

import pytest

from exporter.config import web_file
from exporter.errors import BadInput, NotPossibleHere
from exporter.output.web import tls
from exporter.service.certificate import make_certificate


class TestMakeCertificate:
    def test_client_that_trusts_it_accepts_each_name(self, tmp_path: Path) -> None:
        config = make_certificate(tmp_path / "new", ("localhost", "127.0.0.1", "::1", "gpu7.example"))
        server = tls.context_of(web_file.load(config).tls)  # type: ignore[arg-type]
        client = ssl.create_default_context(cafile=tmp_path / "new" / "serve.crt")
        client.check_hostname = False  # shake_hands() gives no name: those of the certificate are compared below
        end, _ = tls.shake_hands(server, client)
        names = end.getpeercert()["subjectAltName"]  # type: ignore[index]

        assert [value for _, value in names] == ["localhost", "127.0.0.1", "0:0:0:0:0:0:0:1", "gpu7.example"]

    def test_only_the_owner_reads_the_key(self, tmp_path: Path) -> None:
        make_certificate(tmp_path / "new", ("localhost",))

        assert stat.S_IMODE((tmp_path / "new" / "serve.key").stat().st_mode) == 0o600

    def test_existing_files_are_kept(self, tmp_path: Path) -> None:
        make_certificate(tmp_path, ("localhost",))
        before = (tmp_path / "serve.key").read_bytes()

        with pytest.raises(BadInput, match=r"has serve\.crt, serve\.key, web\.yml already"):
            make_certificate(tmp_path, ("localhost",))
        assert (tmp_path / "serve.key").read_bytes() == before

    def test_missing_openssl_is_named(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))

        with pytest.raises(NotPossibleHere, match="openssl is missing"):
            make_certificate(tmp_path / "new", ("localhost",))
        assert not (tmp_path / "new" / "serve.key").exists()
