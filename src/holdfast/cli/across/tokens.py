"""Reads tokens from stdin, the environment or a file, and writes token files; one token per line.

A process that has a token can use its hold. So only the owner may read a new token file, and
the file is never created through a link. A token file that other users may read is refused.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import stat
import sys

from ...core import token
from ...errors import ConfigError
from ..text import say

ENV = "HOLDFAST_TOKEN"
#: Maximum characters of the tokens of one command; more than `acquire` writes.
LENGTH_MAX = 1 << 24
#: Flags of open(), on systems that have them. `_CAREFUL`: refuse a link, and don't let children
#: inherit the descriptor. `_AT_ONCE`: don't wait for the writer of a named pipe.
_CAREFUL = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_AT_ONCE = getattr(os, "O_NONBLOCK", 0)


class NoToken(Exception):
    """There is no token, or the text isn't a token; the message explains what is needed."""


def read(options: argparse.Namespace) -> list[token.Passed]:
    """Return the hold of each token in the options, stdin or environment of the command."""
    text = _text(options)
    try:
        return _each(text)
    except ConfigError as wrong:
        raise NoToken(str(wrong)) from None


def _each(text: str) -> list[token.Passed]:
    """Return the hold of each token in a text; ``ConfigError`` if a word isn't a token."""
    if len(text) > LENGTH_MAX:
        raise ConfigError("this text is too long for tokens; give what `holdfast acquire` wrote")
    words = text.split() or [""]
    found: dict[str, token.Passed] = {}  # each token once, because a second release would fail
    for number, word in enumerate(words, 1):
        try:
            found[word] = token.read(word)
        except ConfigError as wrong:
            which = f"token {number} of {len(words)}: " if len(words) > 1 else ""
            raise ConfigError(f"{which}{wrong}") from None
    return [*found.values()]


def _text(options: argparse.Namespace) -> str:
    given, path = options.token, options.token_file
    if given is not None and path is not None:
        raise NoToken("give either --token-file or a token")
    if "-" in (given, path):
        return _from_stdin()
    if path is not None:
        return _from_file(path)
    if given is not None:
        say(f"`ps` shows a token in the arguments to all users: use --token-file, ${ENV} or -")
        return str(given)
    if not os.environ.get(ENV):
        raise NoToken(
            f"there is no token: give --token-file, set ${ENV}, or give - and write it to stdin"
        )
    return os.environ[ENV]


def _from_stdin() -> str:
    try:
        return sys.stdin.read(LENGTH_MAX + 1)
    except (OSError, ValueError) as wrong:
        raise NoToken(f"stdin can't be read: {wrong}") from None


def _from_file(path: str) -> str:
    try:
        fd = os.open(path, os.O_RDONLY | _CAREFUL | _AT_ONCE)
    except (OSError, ValueError) as wrong:
        raise NoToken(f"the token file {path!r} can't be read: {_why(wrong)}") from None
    try:
        seen = os.fstat(fd)
        if not stat.S_ISREG(seen.st_mode):
            raise NoToken(f"the token file {path!r} is not a regular file")
        if os.name == "posix" and seen.st_mode & 0o077:
            raise ConfigError(
                f"other users may read or change the token file {path!r}, and the token is enough "
                "to use the hold: restrict the file to its owner (chmod u=rw,go=)"
            )
        with open(fd, "rb", closefd=False) as file:
            return file.read(LENGTH_MAX + 1).decode(errors="replace")
    finally:
        os.close(fd)


def _why(wrong: Exception) -> str:
    return (isinstance(wrong, OSError) and wrong.strerror) or str(wrong)


def remove(options: argparse.Namespace) -> None:
    """Remove the token file after all its holds have ended."""
    if options.token_file not in (None, "-"):
        with contextlib.suppress(OSError):
            os.unlink(options.token_file)


class File:
    """A token file that this command creates; only its owner may read it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.made = False

    def require_absent(self) -> None:
        """Raise ``ConfigError`` if the file exists, or if its folder doesn't.

        This is called before anything is acquired."""
        if not os.path.isdir(os.path.dirname(self.path) or "."):
            raise self._unmade("its folder doesn't exist")
        if not os.path.lexists(self.path):
            return
        how = "Release its hold with `holdfast release --if-held --token-file`"
        try:
            _each(_from_file(self.path))
        except NoToken:
            how = "It contains no token, so remove it if it is yours"
        except ConfigError as wrong:
            how = f"It is not a token file: {wrong}. Remove it if it is yours"
        raise ConfigError(
            f"{self.path!r} exists already, and a token file is never overwritten. {how}, or name "
            "another file"
        )

    def write(self, text: str) -> None:
        """Create the file with this text."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _CAREFUL
        try:
            fd = os.open(self.path, flags, 0o600)
        except FileExistsError:
            self.require_absent()
            raise
        except OSError as wrong:
            raise self._unmade(_why(wrong)) from None
        self.made = True
        try:
            if sys.platform != "win32":
                os.fchmod(fd, 0o600)  # because a umask can have removed rights
            rest = memoryview(text.encode())
            while rest:
                rest = rest[os.write(fd, rest) :]
        except OSError as wrong:
            raise OSError(
                f"the token file {self.path!r} can't be written: {_why(wrong)}. Nothing is held; "
                "free some space, or name a file on another disk"
            ) from None
        finally:
            os.close(fd)

    def _unmade(self, why: str) -> ConfigError:
        return ConfigError(
            f"the token file {self.path!r} can't be created: {why}. Name a file in a folder that "
            "exists and that you may write to"
        )

    def remove(self) -> None:
        """Remove the file, if this object created it."""
        if self.made:
            with contextlib.suppress(OSError):
                os.unlink(self.path)
