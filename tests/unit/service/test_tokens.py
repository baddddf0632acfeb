"""Tokens: a file of hashes, and what each token may see."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from exporter.errors import BadInput
from exporter.history.scope import EVERYTHING, Scope
from exporter.service.tokens import TokenFile, TokenReader, new_token

SHA = hashlib.sha256(b"secret").hexdigest()
OTHER = hashlib.sha256(b"other").hexdigest()


def a_file(folder: Path, text: str) -> Path:
    path = folder / "tokens.toml"
    path.write_text(text)
    return path


class TestTokenFile:
    def test_token_has_its_name_and_scope(self, tmp_path: Path) -> None:
        text = f'[admin]\nsha256 = "{SHA}"\n["team-a"]\nsha256 = "{OTHER}"\nnamespaces = ["team-a", "shared"]\n'
        tokens = TokenFile(a_file(tmp_path, text)).tokens()

        assert tokens.reader("secret") == TokenReader("admin", EVERYTHING)
        assert tokens.reader("other") == TokenReader("team-a", Scope(None, frozenset(("team-a", "shared"))))

    @pytest.mark.parametrize("token", ["", "Secret", "secret ", "secre", "x" * 513, "\udc80", SHA])
    def test_other_text_is_no_token(self, tmp_path: Path, token: str) -> None:
        """Nor is the hash itself."""
        assert TokenFile(a_file(tmp_path, f'[a]\nsha256 = "{SHA}"')).tokens().reader(token) is None

    def test_changed_file_is_read_again(self, tmp_path: Path) -> None:
        path = a_file(tmp_path, f'[a]\nsha256 = "{SHA}"')
        file = TokenFile(path)
        a_file(tmp_path, f'[a]\nsha256 = "{OTHER}"')

        assert file.tokens().reader("secret") is None
        assert file.tokens().reader("other") is not None

    def test_last_tokens_stay_while_the_file_cannot_be_used(self, tmp_path: Path) -> None:
        path = a_file(tmp_path, f'[a]\nsha256 = "{SHA}"')
        file = TokenFile(path)
        path.write_text("[a")

        assert file.tokens().reader("secret") is not None
        assert "is not TOML" in file.problem

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "has no token"),
            ("[a", "is not TOML"),
            ("a = 1", "want the keys"),
            ("[a]", "sha256: want 64"),
            (f'[a]\nsha256 = "{SHA.upper()}"', "sha256: want 64"),
            (f'[a]\nsha256 = "{SHA}"\nnamespace = "x"', "want the keys sha256, nodes, namespaces alone"),
            (f'[a]\nsha256 = "{SHA}"\nnamespaces = []', "namespaces: want a list"),
            (f'[a]\nsha256 = "{SHA}"\nnodes = "gpu7"', "nodes: want a list"),
            (f'["a b"]\nsha256 = "{SHA}"', "want a name of letters"),
            (f'[a]\nsha256 = "{SHA}"\n[b]\nsha256 = "{SHA}"', "b and a are the same token"),
        ],
    )
    def test_mistake_is_named(self, tmp_path: Path, text: str, message: str) -> None:
        with pytest.raises(BadInput, match=message):
            TokenFile(a_file(tmp_path, text))

    def test_file_may_be_a_link(self, tmp_path: Path) -> None:
        """Files of a Secret are mounted as links."""
        a_file(tmp_path, f'[a]\nsha256 = "{SHA}"')
        link = tmp_path / "link"
        link.symlink_to("tokens.toml")

        assert TokenFile(link).tokens().reader("secret") == TokenReader("a", EVERYTHING)

    def test_missing_file_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(BadInput, match="No such file"):
            TokenFile(tmp_path / "none")


class TestNewToken:
    def test_its_lines_let_it_in(self, tmp_path: Path) -> None:
        token, lines = new_token("grafana.team-a")

        assert TokenFile(a_file(tmp_path, lines)).tokens().reader(token) == TokenReader("grafana.team-a", EVERYTHING)
        assert token not in lines

    def test_tokens_differ(self) -> None:
        assert new_token("a")[0] != new_token("a")[0]

    @pytest.mark.parametrize("name", ["", "a b", '"', "-x", "x" * 65])
    def test_odd_name_is_refused(self, name: str) -> None:
        with pytest.raises(BadInput, match="is not a valid name"):
            new_token(name)
