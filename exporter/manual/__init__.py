"""Completions for shells and the manual page, from the parsers of all commands."""
