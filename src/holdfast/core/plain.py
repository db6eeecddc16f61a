"""Text of others in messages, logs and listings: names, owners and metadata are anybody's text."""

from __future__ import annotations


def visible(text: str) -> str:
    r"""The text with everything that isn't plainly printable as an escape.

    So no line of a log can be forged, no terminal steered, and no writing direction turned.

    >>> print(visible("a\x1b[31mb\u202e\n"))
    a\x1b[31mb\u202e\n
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
