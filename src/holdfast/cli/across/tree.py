"""The commands of a hold across several commands, and their options."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from ...core import checks
from ...core.model import TTL_S_MAX
from ..options import busy, checked, duration, kinds, name, owner, required, url, waiting

#: The default ttl of a hold, seconds.
TTL_S = 600.0
#: A shorter ttl ends before the next command has started.
TTL_S_MIN = 1.0
TOKENS = (
    "The token is that of --token-file, or $HOLDFAST_TOKEN, or - for stdin; there may be several, "
    "one per line."
)
HELD = "exit status: 0 if it is held, 76 if it is not any more, 65 no such token, 69 store away"


def _acquire(acquire: argparse.ArgumentParser) -> None:
    acquire.description = (
        "Take the lock NAME and leave it held: it ends after --ttl, unless `holdfast renew` has it "
        "last longer. Its token goes to stdout, for `renew`, `check` and `release`. With --all "
        "there may be several names, with a token per line."
    )
    acquire.epilog = """\
examples:
  holdfast acquire deploy --token-file .deploy --ttl 30m
  holdfast check -q --token-file .deploy || exit 1
  holdfast release --token-file .deploy
  holdfast acquire --all web db --token-file .both
"""
    acquire.add_argument(
        "several", metavar="NAME", nargs="+", type=checked(checks.name), help="what to lock"
    )
    acquire.add_argument("--all", action="store_true", help="all of several names, or none")
    waiting(acquire)
    kinds(acquire)
    _lasting(acquire)


def _pick(pick: argparse.ArgumentParser) -> None:
    pick.description = (
        "Take the first of several locks that is free, and print its name, and below it the token "
        "unless that goes to a file: one GPU of four, one port of a range. The rest is as for "
        "`acquire`, but that those who wait have no order."
    )
    pick.epilog = """\
example:
  gpu=$(holdfast pick gpu:0 gpu:1 gpu:2 gpu:3 --token-file .gpu)
"""
    pick.add_argument(
        "several", metavar="NAME", nargs="+", type=checked(line), help="what to choose from"
    )
    pick.set_defaults(shared=False, exclusive=False, semaphore=None)
    waiting(pick)
    _lasting(pick)


def line(value: str) -> str:
    """Return a name that can be printed on a separate line."""
    if not value.isprintable():
        raise ValueError(f"{value!r} can't be printed on a line of its own; take a plain name")
    return checks.name(value)


def _wait(wait: argparse.ArgumentParser) -> None:
    wait.description = "Wait until nobody holds NAME, without taking it: another may be sooner."
    wait.epilog = "exit status: 0 nobody holds it, 75 somebody still does (see -E)"
    name(wait)
    wait.set_defaults(ttl=None)
    waiting(wait)
    other = wait.add_argument_group("and")
    busy(other)
    required(other)
    url(other)


def _lasting(taking: argparse.ArgumentParser) -> None:
    """Add the options of a new hold: its ttl, the target of its token, its owner."""
    how = taking.add_argument_group("the hold")
    how.add_argument(
        "--ttl", metavar="DUR", type=_ttl, default=TTL_S,
        help="how long it lasts, unless it is renewed (10m; 1s to 24h)",
    )  # fmt: skip
    how.add_argument(
        "--token-file", metavar="FILE", type=checked(_file),
        help="write the token to FILE, which must not be there, and not to stdout",
    )  # fmt: skip
    owner(how, "user@host:process:command of the calling shell")
    other = taking.add_argument_group("and")
    other.add_argument("--json", action="store_true", help="token, name, fence, owner, expiry")
    busy(other)
    required(other)
    url(other)


def _file(value: str) -> str:
    """Return a file to write; refuse ``-``, which would make a file of that name."""
    if value == "-":
        raise ValueError(
            "'-' is no file; without --token-file the token goes to stdout (a file of this name is "
            "./-)"
        )
    return value


_ttl = duration(TTL_S_MIN, TTL_S_MAX)


def _renew(renew: argparse.ArgumentParser) -> None:
    renew.description = (
        f"Have a hold last --ttl from now on, unless it lasts longer already. {TOKENS}"
    )
    renew.epilog = HELD
    _token(renew)
    renew.add_argument(
        "--ttl", metavar="DUR", type=_ttl, help="how long, if not as long as it was acquired for"
    )
    _told(renew)


def _check(check: argparse.ArgumentParser) -> None:
    check.description = (
        f"Say whether a hold is still held, and for how long, and change nothing. {TOKENS}"
    )
    check.epilog = HELD
    _token(check)
    _told(check)


def _told(asking: argparse.ArgumentParser) -> None:
    asking.add_argument("--json", action="store_true", help="name, fence, seconds that are left")
    asking.add_argument("-q", "--quiet", action="store_true", help="say nothing of it")
    url(asking)


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
        "token", metavar="TOKEN", nargs="?", help="-: from stdin; `ps` shows any other"
    )
    taking.add_argument("--token-file", metavar="FILE", help="the file with the token; -: stdin")


COMMANDS: dict[str, tuple[Callable[[argparse.ArgumentParser], None], str]] = {
    "acquire": (_acquire, "take a lock that outlives the command, and print its token"),
    "renew": (_renew, "have such a lock last longer"),
    "check": (_check, "say whether it is still held, by the exit status"),
    "release": (_release, "give it back"),
    "wait": (_wait, "wait until nobody holds a name, without taking it"),
    "pick": (_pick, "take the first of several locks that is free, and print which"),
}
