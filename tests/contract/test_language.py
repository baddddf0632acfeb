"""Words that prose may not hold: comments, docstrings, messages, names of tests, documents, rules and boards.

They are private metaphors, old-fashioned, or name nobody in particular; docs/glossary.md has the terms to use instead.
A native SRE and an engineer who reads the code for the first time must understand every sentence at once.
"""

from __future__ import annotations

import re

import pytest

from tests.support.prose import FOLDERS, ROOT, ROOT_FILES, c_prose, files, prose, python_prose

WORDS = (
    "tell tells telling told whom whoever whomever nobody somebody everybody anybody anew meanwhile mend mends "
    "mended mending hearer hearers hear hears heard onlooker roster ledger courier errand errands witness "
    "witnesses guardian narrator narrate announcer enquirer enquire enquired gatekeeper oracle stranger strangers "
    "guilty lest amiss ere thither hither whence thence therein thereof wherein hitherto henceforth thereby whereby amongst "
    "midst afresh acquit acquits acquitted ought likewise hinder hinders lent lends"
)
PHRASES = (
    r"(?:is|are|was|were|be|been|being) asked",
    r"by (?:itself|themselves|himself)",
    r"tells? of",
    r"(?:is|are|was|were) said",
    r"said of",
    r"says? so",
    r"take(?:s|n)? leave",
    r"took leave",
    r"roll call",
    r"call(?:s|ed)? the roll",
    r"of late",
    r"for want of",
    r"even so",
    r"keep(?:s|ing)? the books",
    r"the books",
    r"whose fault",
    r"(?:he|his|him|she|her)",
    r"as it were",
    r"let(?:s|ting)? go of",
    r"goes? wrong with",
    r"what (?:is|was) (?:said|told|heard)",
    r"who (?:is|are) who",
    r"from here on",
    r"one (?:after|below) the other",
    r"first act",
    r"for who",
    r"(?:is|are) no chains?",
    r"it ends as",
    r"raises? no alerts",
    r"in no traced call",
    r"defect in the exporter",
    r"not kept for now",
    r"the usual one of",
    r"how long, at most",
)
FORBIDDEN = re.compile(rf"\b(?:{'|'.join((*WORDS.split(), *PHRASES))})\b", re.IGNORECASE)
ANY_PHRASE = re.compile(rf"\b(?:{'|'.join(PHRASES)})\b", re.IGNORECASE)
HEADLESS = re.compile(r'^\s*[rR]?"""Of\b')
"""A docstring that begins with "Of" names no subject."""

EXCEPTIONS = {
    "tests/contract/test_language.py": "it lists the words",
}


def is_clean(name: str) -> bool:
    """Whether no forbidden word is anywhere in the file, code and names included: then its prose need not be taken out."""
    text = (ROOT / name).read_text(encoding="utf-8", errors="replace").replace("_", " ")
    words = set(re.findall(r"[a-z]+", text.lower()))
    return not (
        words & set(WORDS.split()) or ANY_PHRASE.search(text) or re.search(HEADLESS.pattern, text, re.MULTILINE)
    )


def offences(name: str) -> list[str]:
    """file:line: [word] line, for each forbidden word of a file."""
    return (
        []
        if is_clean(name)
        else [
            f"{name}:{number}: [{found[0].strip()}] {line.strip()}"
            for number, line in prose(name)
            if (found := FORBIDDEN.search(line) or HEADLESS.search(line))
        ]
    )


class TestLanguage:
    """Standard terms, in every file that a person reads."""

    @pytest.mark.parametrize("part", [*FOLDERS, *ROOT_FILES])
    def test_prose_holds_no_forbidden_word(self, part: str) -> None:
        """A folder, or a file at the root."""
        names = [name for name in files() if name == part or name.startswith(f"{part}/")]

        assert [line for name in names if name not in EXCEPTIONS for line in offences(name)] == []

    def test_every_exception_is_a_file(self) -> None:
        """So that a file that moves is looked at again."""
        assert [name for name in EXCEPTIONS if not (ROOT / name).is_file()] == []

    def test_words_in_comments_strings_and_test_names_are_found(self) -> None:
        """And names of code are not: `tell` is a method of files."""
        source = 'def test_nobody_waits():\n    x = "who told"  # meanwhile\n    file.tell()\n'

        assert [line for _, line in python_prose(source) if FORBIDDEN.search(line)] == [
            "test nobody waits",
            '"who told"',
            "# meanwhile",
        ]

    def test_words_in_comments_and_strings_of_c_are_found(self) -> None:
        """A comment may have several lines."""
        source = '/* a\n * told */\nint told; // anew\nchar *x = "lest";\n'

        assert [(number, line) for number, line in c_prose(source) if FORBIDDEN.search(line)] == [
            (2, " * told */"),
            (3, "// anew"),
            (4, '"lest"'),
        ]
