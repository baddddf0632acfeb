"""What a Dockerfile says, and what .dockerignore lets through."""

from __future__ import annotations

import pytest

from deploy.docker import dockerfile
from deploy.docker.dockerfile import Instruction, NotUnderstood, Stage

TEXT = """\
# A comment.
ARG BASE=debian:trixie-slim

FROM ${BASE} AS build
RUN --mount=type=secret,id=pip,target=/etc/pip.conf \\
    one \\
    # a comment within
    && two
FROM $BASE
COPY --from=build /made /made
CMD ["run", "--a=b c"]
"""


class TestStages:
    """Dockerfile -> stages."""

    def test_a_stage_has_its_base_its_name_and_its_instructions(self) -> None:
        """Lines are joined; comments between them are gone."""
        flags = (("mount", "type=secret,id=pip,target=/etc/pip.conf"),)
        assert dockerfile.stages(TEXT) == (
            Stage("debian:trixie-slim", "build", (Instruction("RUN", flags, "one && two"),)),
            Stage(
                "debian:trixie-slim",
                "",
                (
                    Instruction("COPY", (("from", "build"),), "/made /made"),
                    Instruction("CMD", (), '["run", "--a=b c"]'),
                ),
            ),
        )

    def test_a_secret_has_its_name_and_its_place(self) -> None:
        """Other mounts are none."""
        step = dockerfile.stages(TEXT)[0].instructions[0]

        assert list(step.secrets()) == [("pip", "/etc/pip.conf")]

    @pytest.mark.parametrize(
        "text",
        [
            "FROM a\nADD b c\n",
            "FROM a\nSHELL ['sh']\n",
            "RUN true\nFROM a\n",
            "FROM --platform=linux/amd64 a\n",
            "FROM ${NOWHERE}\n",
            "FROM a\nRUN one \\\n",
        ],
    )
    def test_what_is_not_understood_is_refused(self, text: str) -> None:
        """And not left out in silence."""
        with pytest.raises(NotUnderstood):
            dockerfile.stages(text)


class TestWords:
    """The rest of an instruction."""

    def test_quotes_and_variables(self) -> None:
        """As LABEL and ENV have them."""
        label = Instruction("LABEL", (), 'a="one two" b="${VERSION}"')

        assert label.words({"VERSION": "1.2"}) == ["a=one two", "b=1.2"]

    def test_a_list_of_strings_is_json(self) -> None:
        """Anything else would be a shell's."""
        assert Instruction("CMD", (), '["a", "b c"]').strings() == ["a", "b c"]
        with pytest.raises(NotUnderstood):
            Instruction("CMD", (), '["a", 1]').strings()


class TestIgnore:
    """.dockerignore."""

    @pytest.mark.parametrize(
        ("path", "expected"),
        [
            ("README.md", True),
            ("exporter/__init__.py", True),
            ("exporter/kernel/objects/cuda.bpf.o", False),
            ("exporter/a/__pycache__/b.pyc", False),
            (".git/config", False),
            ("docs/web.md", False),
            ("deploy/docker/constraints.txt", True),
            ("deploy/docker/steps.py", False),
        ],
    )
    def test_the_last_line_that_fits_decides(self, path: str, expected: bool) -> None:
        """Everything is left out, but what is named; of that, what was made is left out again."""
        lines = ["# why", "*", "!exporter", "!README.md", "!deploy/docker/constraints.txt"]
        lines += ["**/__pycache__", "**/*.bpf.o"]

        assert dockerfile.is_let_through(path, lines) is expected

    def test_a_star_stops_at_a_slash(self) -> None:
        """`*.md` is a file at the root."""
        assert not dockerfile.is_let_through("a.md", ["*.md"])
        assert dockerfile.is_let_through("b/a.md", ["*.md"])
