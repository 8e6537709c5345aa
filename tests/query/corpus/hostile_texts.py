"""Texts that have a meaning in some language a query passes through: formats, parameters, patterns, escapes, comments."""

from __future__ import annotations

__all__ = ["HOSTILE_TEXTS", "quoted"]

HOSTILE_TEXTS = (
    "a{b", "a{{b", "a}b", "{}", "{0}", "{v}", "50%", "%s", "%(x)s", "%%", "\\", "a\\", "\\1", "\\'", "\\u0041", "a'b", "''", 'a"b',
    "$$", "$1", "$a$", "${x}", "?", ":x", "@x", "--", "/*", "*/", ";", "`", "_", "=1+1", "</script>", "\n",
)  # fmt: skip


def quoted(text: str) -> str:
    """A constant of SQL."""
    return "'" + text.replace("'", "''") + "'"
