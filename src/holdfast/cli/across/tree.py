"""The commands of a hold across several commands, and their options."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from ...core import checks
from ...core.model import TTL_S_MAX
from ..options import busy, checked, duration, kinds, required, url, waiting

#: How long a hold lasts for which nothing else was asked, seconds.
TTL_S = 600.0
#: Less is over before the next command has started.
TTL_S_MIN = 1.0
TOKENS = "The token is that of --token-file, or $HOLDFAST_TOKEN, or - for a line of stdin."
HELD = "exit status: 0 if it is held, 76 if it is not any more, 65 no such token, 69 store away"


def _acquire(acquire: argparse.ArgumentParser) -> None:
    acquire.description = (
        "Take the lock NAME and leave it held: nobody renews it, so it ends after --ttl. Its token "
        "goes to stdout, for `holdfast release`."
    )
    acquire.epilog = """\
examples:
  holdfast acquire deploy --token-file .deploy --ttl 30m
  holdfast check -q --token-file .deploy || exit 1
  holdfast release --token-file .deploy
"""
    acquire.add_argument("name", metavar="NAME", type=checked(checks.name), help="what to lock")
    waiting(acquire)
    kinds(acquire)
    _lasting(acquire)


def _lasting(taking: argparse.ArgumentParser) -> None:
    """How long it lasts, where its token goes, who has it."""
    how = taking.add_argument_group("the hold")
    how.add_argument(
        "--ttl", metavar="DUR", type=_ttl, default=TTL_S,
        help="how long it lasts, unless it is renewed (10m; 1s to 24h)",
    )  # fmt: skip
    how.add_argument(
        "--token-file", metavar="FILE",
        help="write the token to FILE, which must not be there, and not to stdout",
    )  # fmt: skip
    how.add_argument(
        "--as", dest="owner", metavar="TEXT", type=checked(checks.owner),
        help="the owner that others see (user@host:process:command of the calling shell)",
    )  # fmt: skip
    other = taking.add_argument_group("and")
    other.add_argument("--json", action="store_true", help="token, name, fence, owner, expiry")
    busy(other)
    required(other)
    url(other)


_ttl = duration(TTL_S_MIN, TTL_S_MAX)


def _release(release: argparse.ArgumentParser) -> None:
    release.description = f"Give a hold back, and remove its token file. {TOKENS}"
    release.epilog = HELD.replace("it is held", "it was given back")
    _token(release)
    release.add_argument(
        "--if-held", action="store_true", help="no error if it is not held any more"
    )
    release.add_argument("-q", "--quiet", action="store_true", help="say nothing if it is over")
    url(release)


def _token(taking: argparse.ArgumentParser) -> None:
    taking.add_argument(
        "token", metavar="TOKEN", nargs="?", help="-: a line of stdin; `ps` shows any other"
    )
    taking.add_argument("--token-file", metavar="FILE", help="the file that has the token")


COMMANDS: dict[str, tuple[Callable[[argparse.ArgumentParser], None], str]] = {
    "acquire": (_acquire, "take a lock that outlives the command, and print its token"),
    "release": (_release, "give such a lock back"),
}
