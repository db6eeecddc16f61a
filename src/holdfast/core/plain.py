"""Safe output of names, owners and metadata, which may be any text, in messages and listings."""

from __future__ import annotations


def visible(text: str) -> str:
    r"""Return the text, with everything that isn't plainly printable as an escape.

    So a text can't forge a line of a log, control a terminal, or change the writing direction.

    >>> print(visible("a\x1b[31mb\u202e\n"))
    a\x1b[31mb\u202e\n
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
