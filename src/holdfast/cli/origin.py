"""Warnings about the store that a command uses, and the environment of a started command."""

from __future__ import annotations

import argparse
import os
import re

from ..errors import ConfigError
from ..url import BUILTIN, ENV, PASS, WITHHELD
from .text import say

#: Matches a user name with a password in a URL; a user name alone doesn't match.
_LOGIN = re.compile(r"://[^/?#:]*:\S+@")
_OPTION = re.compile(r"(?:^|[?&;\s])\w*(?:pass(?:word|wd)?|pwd)\s*=", re.IGNORECASE)
#: Commands of holdfast that start the user's command.
_STARTING = ("run", "work")


def tell(options: argparse.Namespace, shown: str) -> None:
    """Warn if the store is a local file, or if other users can read a password.

    Commands that acquire or change something call this function. Commands that only read don't
    call it: they name the local file if they find nothing in it (see `beside`).
    """
    if options.url and secret(options.url):
        say("--url has a password, which `ps` shows to every user of this machine: use $" + ENV)
    starting = (getattr(options, "verb", None) or options.command) in _STARTING
    if starting and _withheld() and not getattr(options, "quiet", False):
        say(
            f"${ENV} has a password and is withheld from the command; "
            f"set {PASS}=1 if the command must use the store itself"
        )
    if unnamed(options) and not getattr(options, "quiet", False):
        say(
            f"no store is named (--url, ${ENV}): using this user's local file, {shown}, "
            "which excludes no process on other hosts"
        )


def unnamed(options: argparse.Namespace) -> bool:
    """Return True if no store was named, so that the default is used."""
    return not options.url and not os.environ.get(ENV)


def beside(options: argparse.Namespace, shown: str) -> str:
    """Return the end of a message "nothing found": the name of the local file, if it is used."""
    return f" in this user's local file, {shown}" if unnamed(options) else ""


def environment() -> dict[str, str]:
    """Return the environment for a started command: ours, without a URL that has a password."""
    found = dict(os.environ)
    if _withheld():
        del found[ENV]
        found[WITHHELD] = "1"
    elif found.get(ENV):
        found.pop(WITHHELD, None)
    return found


def _withheld() -> bool:
    return secret(os.environ.get(ENV, "")) and not os.environ.get(PASS)


def secret(text: str) -> bool:
    """Return True if a URL, or another text that names a store, has a password.

    >>> secret("postgresql://ann@db/app"), secret("postgresql://ann:pw@db/app")
    (False, True)
    """
    place, mark, query = text.partition("?")
    if "%" in query:  # the name of the option, such as password=, can be percent-encoded
        from urllib.parse import unquote

        query = unquote(query)
    return bool(_LOGIN.search(text) or _OPTION.search(place) or _OPTION.search(mark + query))


def no_name(options: argparse.Namespace) -> None:
    """Refuse a name that is the URL of a store with a password: names are shown to others."""
    given = [(what, getattr(options, what, None) or "") for what in ("name", "prefix")]
    for what, text in given + [("name", one) for one in getattr(options, "several", None) or ()]:
        scheme, sep, _ = text.partition("://")
        if secret(text) and (not sep or scheme.lower() in BUILTIN):
            raise ConfigError(
                f"this {what.upper()} looks like the URL of a store with its password: name the "
                f"store by --url or ${ENV}"
            )


def required(options: argparse.Namespace) -> None:
    """Raise ``ConfigError`` if ``--require-url`` is given and no store is named."""
    if getattr(options, "require_url", False) and unnamed(options):
        raise ConfigError(
            f"no store is named (--url, ${ENV}), and --require-url forbids this user's local file, "
            "which excludes no process on other hosts"
        )


#: Commands that have no use unless other processes use the same store.
_TAKING = ("run", "acquire", "pick", "mcp", "put", "work")


def shared(options: argparse.Namespace) -> None:
    """Refuse ``memory://`` for the commands in `_TAKING`: that store ends with this process."""
    url = getattr(options, "url", None) or os.environ.get(ENV) or ""
    verb = getattr(options, "verb", None) or options.command
    if url.lower().startswith("memory://") and verb in _TAKING:
        raise ConfigError(
            f"a store in memory ends with this command, so `{verb}` has no effect on other "
            "processes. Name a store that they can reach by --url"
        )
