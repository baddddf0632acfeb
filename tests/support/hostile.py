"""Values that a tenant may choose so they act when root pastes a command: shell syntax, options, patterns, control codes."""

from __future__ import annotations

from typing import Final

_RUN: Final = (
    ">pwned", ";>pwned;", "a;>pwned;b", "|>pwned", "&&>pwned", "||>pwned", "&>pwned&", "$(>pwned)", "a$(>pwned)b", "`>pwned`",
    "a`>pwned`b", "${x:-$(>pwned)}", "$((1+1))", "$HOME", "${HOME}", "$'a'", '$"a"', "$0", "$$", "$!", "$?", "$@", "$*",
    "<(>pwned)", ">(>pwned)", "<<EOF", "<<<a", "(>pwned)", "{>pwned,}", "a\n>pwned\nb", "\n>pwned", "a\r\n>pwned\r\n",
    "a;touch pwned", "';>pwned;'", "'$(>pwned)'", '";>pwned;"', '"$(>pwned)"', "\\';>pwned;\\'", "\\", "\\\\", "a\\", "\\n",
    "'", "''", "'''", '"', '""', "'\"'\"'", "\"'\"'\"", "`", "``",
)  # fmt: skip
_MATCH: Final = (
    "*", ".*", "?", "[a-z]*", "[!a]", "**", "{a,b}", "{1..9}", "~", "~root", "~+", "a*b", "^", "$", ".", "..", "/../../etc", "/*",
    "!", "!!", "!$", "^a^b", "%1", "#", "a#b", "# x", "=", "a=b", "+x", "@", ":", ",", "a b", " a ", "a  b", "",
)  # fmt: skip
_OPTIONS: Final = (
    "-",
    "--",
    "-u0",
    "-f",
    "-rf",
    "--signal=KILL",
    "-p 1",
    "--help",
    "-9",
    "-o/etc/passwd",
    "-a -b",
    "--=",
)
_CHARACTERS: Final = (
    "\x07", "a\x1b[31mb", "\x1b]0;title\x07", "\x9b31m", "\t", "a\tb", "\b\b\b", "a\x7fb", "\x01\x02\x1f", "\u202ertl\u202c",
    "\u2066a\u2069", "\u200ba", "\ufeffa", "\u2028>pwned", "\u0085>pwned", "\udcff\udcfe", "a\udc80;>pwned", "é\u0301", "大",
    "\u00a0", "\v\f", "\x1b\x5c;>pwned",
)  # fmt: skip

HOSTILE: Final = (*_RUN, *_MATCH, *_OPTIONS, *_CHARACTERS)
"""More than a hundred. A command that runs one of them makes a file `pwned` in its working directory."""
