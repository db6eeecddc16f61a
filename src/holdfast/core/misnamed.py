"""Messages for an unknown word, and for a store named by an unusable object."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any


def did_you_mean(word: str, known: Iterable[str], usual: Iterable[str] = ()) -> str:
    """Return a hint for a misspelt word; if no word is similar, the list of ``usual`` words.

    If ``usual`` is empty, the hint lists all ``known`` words.

    >>> did_you_mean("memmory", ["memory", "sqlite"])
    'did you mean "memory"?'
    >>> did_you_mean("q", ["memory", "sqlite"])
    'known: memory, sqlite'
    """
    import difflib  # because it is slow to import and only mistakes need it

    names = sorted(known)
    near = difflib.get_close_matches(word, names, 1)
    if near:
        return f'did you mean "{near[0]}"?'
    return "known: " + (", ".join(sorted(usual) or names) or "none")


def no_url(text: str, as_path: str) -> str:
    """Return the message for a text without ``://``; ``as_path``: the URL of the path ``text``.

    A text that isn't a path isn't shown, because it can contain a password.
    """
    if not text:
        return "the URL of the store is empty: name one, such as sqlite:///path/to/locks.db"
    if text.startswith(("/", "./", "../")) and not set(text) & set("=@:"):
        return f"{text!r:.200} is a path; as a store it is {as_path:.600}"
    kind = "a libpq DSN, not a URL" if "=" in text else "no URL"
    return (
        f"this text is {kind}: it has no '://'. Write for example redis://localhost:6379, "
        "postgresql://user:password@host/db or sqlite:///path/to/locks.db"
    )


def usual(schemes: Iterable[str], builtin: Collection[str]) -> list[str]:
    """Return the schemes for a short list: holdfast's schemes without a ``+``, and all schemes of
    other packages.

    >>> usual(["redis", "redis+plain", "their+own"], ["redis", "redis+plain"])
    ['redis', 'their+own']
    """
    return [one for one in schemes if "+" not in one or one not in builtin]


def of_django(connection: Any, engines: Collection[str]) -> str:
    """Return the message for a connection of Django, with the URL of its database."""
    said = (
        "a connection of Django belongs to one thread and to its transactions, so no store uses "
        "it; give a URL. (holdfast.sql.row_lock accepts it, for a lock in its transaction.)"
    )
    found = getattr(connection, "settings_dict", None)
    vendor = str(getattr(connection, "vendor", ""))
    if not isinstance(found, Mapping) or vendor not in engines:
        return said
    from urllib.parse import quote

    user, host, name = (quote(str(found.get(one) or ""), "") for one in ("USER", "HOST", "NAME"))
    port = f":{found['PORT']}" if found.get("PORT") else ""
    secret = ":PASSWORD" if found.get("PASSWORD") else ""
    login = f"{user}{secret}@" if user else ""
    return f"{said} The URL of its database is {vendor}://{login}{host}{port}/{name}"
