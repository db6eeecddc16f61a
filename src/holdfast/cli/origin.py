"""The store of a command: warnings about it, and the URL that a started command gets."""

from __future__ import annotations

import argparse
import os
import re

from ..errors import ConfigError
from ..url import BUILTIN, ENV, PASS, WITHHELD
from .text import say

#: A user name alone is not a password.
_LOGIN = re.compile(r"://[^/?#:]*:\S+@")
_OPTION = re.compile(r"(?:^|[?&;\s])\w*(?:pass(?:word|wd)?|pwd)\s*=", re.IGNORECASE)
#: Commands that start another one.
_STARTING = ("run", "work")


def tell(options: argparse.Namespace, shown: str) -> None:
    """Warn of a local file, or of a password that others can read: it can be a mistake.

    Each command that excludes or changes something calls this. Commands that only read name the
    file when they find nothing in it (``beside``), because a line for each call would be noise.
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
    """Return the words for the local file, if no store was named, to follow "there is nothing"."""
    return f" in this user's local file, {shown}" if unnamed(options) else ""


def environment() -> dict[str, str]:
    """Return the environment of a command: ours, without a store's password."""
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
    if "%" in query:  # the names of options can be escaped
        from urllib.parse import unquote

        query = unquote(query)
    return bool(_LOGIN.search(text) or _OPTION.search(place) or _OPTION.search(mark + query))


def no_name(options: argparse.Namespace) -> None:
    """Refuse the URL of a store in place of a name: it would be shown and stored unchanged."""
    given = [(what, getattr(options, what, None) or "") for what in ("name", "prefix")]
    for what, text in given + [("name", one) for one in getattr(options, "several", None) or ()]:
        scheme, sep, _ = text.partition("://")
        if secret(text) and (not sep or scheme.lower() in BUILTIN):
            raise ConfigError(
                f"this {what.upper()} looks like the URL of a store with its password: name the "
                f"store by --url or ${ENV}"
            )


def required(options: argparse.Namespace) -> None:
    """Refuse the local file if ``--require-url`` is given."""
    if getattr(options, "require_url", False) and unnamed(options):
        raise ConfigError(
            f"no store is named (--url, ${ENV}), and --require-url forbids this user's local file, "
            "which excludes no process on other hosts"
        )


#: Commands whose effect other clients must see.
_TAKING = ("run", "acquire", "pick", "mcp", "put", "work")


def shared(options: argparse.Namespace) -> None:
    """Refuse a store in memory for these commands, because the store ends with the command."""
    url = getattr(options, "url", None) or os.environ.get(ENV) or ""
    verb = getattr(options, "verb", None) or options.command
    if url.lower().startswith("memory://") and verb in _TAKING:
        raise ConfigError(
            f"a store in memory ends with this command, so `{verb}` has no effect on other "
            "processes. Name a store that they can reach by --url"
        )
