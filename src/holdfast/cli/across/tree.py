"""The commands for a hold that outlives the command that acquired it, and their options."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from ...core import checks
from ...core.model import TTL_S_MAX
from ..options import busy, checked, duration, kinds, name, owner, required, url, waiting

#: The default ttl of a hold in seconds.
TTL_S = 600.0
#: The minimum ttl in seconds. A shorter ttl could end before the next command has started.
TTL_S_MIN = 1.0
TOKENS = (
    "The token comes from --token-file, from $HOLDFAST_TOKEN, or from stdin (-). Several tokens "
    "are allowed, one per line."
)
HELD = "exit status: 0 if it is held, 76 no longer held, 65 no valid token, 69 store unreachable"


def _acquire(acquire: argparse.ArgumentParser) -> None:
    acquire.description = (
        "Acquire the lock NAME and leave it held. The hold ends after --ttl, unless `holdfast "
        "renew` extends it. Its token goes to stdout, for `renew`, `check` and `release`. With "
        "--all several names are allowed, with one token per line."
    )
    acquire.epilog = """\
examples:
  holdfast acquire deploy --token-file .deploy --ttl 30m
  holdfast check -q --token-file .deploy || exit 1
  holdfast release --token-file .deploy
  holdfast acquire --all web db --token-file .both
"""
    acquire.add_argument(
        "several", metavar="NAME", nargs="+", type=checked(checks.name), help="name of a lock"
    )
    acquire.add_argument("--all", action="store_true", help="acquire all of several names, or none")
    waiting(acquire)
    kinds(acquire)
    _lasting(acquire)


def _pick(pick: argparse.ArgumentParser) -> None:
    pick.description = (
        "Acquire the first of several locks that is free, such as one GPU of four. Print its name, "
        "and below it the token unless that goes to a file. The hold is as for `acquire`, but "
        "waiting commands have no order."
    )
    pick.epilog = """\
example:
  gpu=$(holdfast pick gpu:0 gpu:1 gpu:2 gpu:3 --token-file .gpu)
"""
    pick.add_argument(
        "several", metavar="NAME", nargs="+", type=checked(line), help="names to choose from"
    )
    pick.set_defaults(shared=False, exclusive=False, semaphore=None)
    waiting(pick)
    _lasting(pick)


def line(value: str) -> str:
    """Check a name that is printed as one line: it must contain no control characters."""
    if not value.isprintable():
        raise ValueError(f"{value!r} can't be printed on one line; use a printable name")
    return checks.name(value)


def _wait(wait: argparse.ArgumentParser) -> None:
    wait.description = "Wait until NAME is free, without acquiring it: another can be faster."
    wait.epilog = "exit status: 0 if it is free, 75 if it is still held (see -E)"
    name(wait)
    wait.set_defaults(ttl=None)
    waiting(wait)
    other = wait.add_argument_group("other options")
    busy(other)
    required(other)
    url(other)


def _lasting(taking: argparse.ArgumentParser) -> None:
    """Add the options of a new hold: its ttl, the target of its token, its owner."""
    how = taking.add_argument_group("the hold")
    how.add_argument(
        "--ttl", metavar="DUR", type=_ttl, default=TTL_S,
        help="lease length, 1s to 24h; only `renew` extends it (default 10m)",
    )  # fmt: skip
    how.add_argument(
        "--token-file", metavar="FILE", type=checked(_file),
        help="write the token to FILE, which must not exist, and not to stdout",
    )  # fmt: skip
    owner(how, "user@host:process:command of the calling shell")
    other = taking.add_argument_group("other options")
    other.add_argument(
        "--json", action="store_true", help="print JSON: token, name, fence, owner, expiry"
    )
    busy(other)
    required(other)
    url(other)


def _file(value: str) -> str:
    """Return the path of a token file; refuse ``-``, which a user could take for stdout."""
    if value == "-":
        raise ValueError(
            "'-' is not a file; without --token-file the token goes to stdout (a file of this name "
            "is ./-)"
        )
    return value


_ttl = duration(TTL_S_MIN, TTL_S_MAX)


def _renew(renew: argparse.ArgumentParser) -> None:
    renew.description = f"Renew a hold for --ttl from now, unless it lasts longer already. {TOKENS}"
    renew.epilog = HELD
    _token(renew)
    renew.add_argument(
        "--ttl", metavar="DUR", type=_ttl, help="lease length (default: as acquired)"
    )
    _told(renew)


def _check(check: argparse.ArgumentParser) -> None:
    check.description = f"Check if a hold is still held, and for how long; change nothing. {TOKENS}"
    check.epilog = HELD
    _token(check)
    _told(check)


def _told(asking: argparse.ArgumentParser) -> None:
    asking.add_argument("--json", action="store_true", help="print JSON: name, fence, seconds left")
    asking.add_argument("-q", "--quiet", action="store_true", help="print nothing about the hold")
    url(asking)


def _release(release: argparse.ArgumentParser) -> None:
    release.description = f"Release a hold, and remove its token file. {TOKENS}"
    release.epilog = HELD.replace("it is held", "it was released")
    _token(release)
    release.add_argument(
        "--if-held", action="store_true", help="exit status 0 if it is no longer held"
    )
    release.add_argument(
        "-q", "--quiet", action="store_true", help="print nothing if it is no longer held"
    )
    url(release)


def _token(taking: argparse.ArgumentParser) -> None:
    taking.add_argument(
        "token", metavar="TOKEN", nargs="?", help="- to read stdin; `ps` shows any other token"
    )
    taking.add_argument("--token-file", metavar="FILE", help="file with the token; - is stdin")


COMMANDS: dict[str, tuple[Callable[[argparse.ArgumentParser], None], str]] = {
    "acquire": (_acquire, "acquire a lock that outlives the command, and print its token"),
    "renew": (_renew, "extend such a lock"),
    "check": (_check, "check if such a lock is still held, by the exit status"),
    "release": (_release, "release such a lock"),
    "wait": (_wait, "wait until a name is free, without acquiring it"),
    "pick": (_pick, "acquire the first of several locks that is free, and print its name"),
}
