r"""Values as words of a shell command that a person pastes.

In: text that a tenant may have chosen. Out: one word, which the shell passes on as exactly this text, without a character that a
terminal interprets. A value with such characters is written as `$'a\x07b'`, which bash, zsh and ksh read.
"""

from __future__ import annotations

import shlex


def shell_word(text: str) -> str:
    """text: bytes that are no UTF-8 as lone surrogates, as by os.fsdecode(). A NUL, which no argument can hold, ends it."""
    text = text.partition("\0")[0]
    if text.isprintable():
        return shlex.quote(text)
    return "$'" + "".join(_escaped(character) for character in text) + "'"


def _escaped(character: str) -> str:
    """An ASCII letter or digit stays. Always two digits: a third one would belong to the next character."""
    if character.isascii() and (character.isalnum() or character in "/._- "):
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))
