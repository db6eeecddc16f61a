"""``holdfast acquire`` and ``pick``: take a lock, leave it held, and print its token.

Before the token is printed, no other process can release the lock. So the lock is acquired with a
short ttl, and gets the requested ttl after the output. If `acquire` is killed before the output,
other clients wait for at most the short ttl.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import getpass
import json
import os
import time
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from ...core import across, token
from ...core.policy import REQUEST_S
from ...errors import HoldfastError, NotHeld
from ...runtime.blocking import run_sync
from ...runtime.identity import hostname
from ...sync import Client, Hold
from .. import codes, origin
from ..text import say
from ..waiting import Waiting
from .ending import Ending
from .tokens import File
from .wait import pauses

if TYPE_CHECKING:
    from ...core.context import Context

#: Maximum ttl in seconds until the token is printed.
UNTOLD_S = 6.0


def take(options: argparse.Namespace) -> int:
    """Acquire, print or write the tokens, extend the leases; return the exit status."""
    if options.command == "acquire" and (wrong := _wrong(options)):
        say(f"{wrong} (see holdfast acquire --help)")
        return codes.USAGE
    ending = Ending()
    try:
        return _take(options, ending)
    finally:
        ending.note()  # the exit status must report the result, not a signal that comes now


def _take(options: argparse.Namespace, ending: Ending) -> int:
    with Client(options.url) as client:
        client._ctx.owner = options.owner or _caller()
        origin.tell(options, client.url)
        across.require(client._ctx.store)
        ttl = across.length(client._ctx.store, options.ttl)
        file = File(options.token_file) if options.token_file is not None else None
        if file is not None:
            file.require_absent()
        holds = _acquire(client, options, min(ttl, UNTOLD_S))
        if not holds:
            return int(options.busy)
        _hand_out(client, options, holds, ttl, file, ending)
    return 0


def _wrong(options: argparse.Namespace) -> str:
    """Return the reason why these names can't be acquired together; "" if they can."""
    names = options.several
    if len(names) > 1 and not options.all:
        return (
            "several names: add --all to acquire all of them or none, or use `holdfast pick` to "
            "acquire the first that is free"
        )
    twice = next((name for name in names if names.count(name) > 1), None)
    return f"{twice!r} is named twice: name each lock once" if twice is not None else ""


def _acquire(client: Client, options: argparse.Namespace, ttl: float) -> list[Hold]:
    """Return the holds. If a name stays busy, print a message and return an empty list."""
    terms: dict[str, Any] = {"ttl": ttl}
    if options.command == "pick":
        return _first_free(client, options, terms)
    waiting = Waiting(client, options, options.several, **terms)
    holds = waiting.acquire()
    if not holds and not options.quiet:
        say(waiting.busy())
    return holds


def _first_free(client: Client, options: argparse.Namespace, terms: dict[str, Any]) -> list[Hold]:
    """Acquire the first of several names that is free.

    The function polls the names. A waiting claim on each name could yield several holds.
    """
    which = ", ".join(map(repr, options.several))
    words = f"waiting for one of {which}: all are busy"
    once = argparse.Namespace(**{**vars(options), "nonblock": True})
    for pause in pauses(options, functools.partial(say, words)):
        for name in options.several:
            holds = Waiting(client, once, [name], **terms).acquire()
            if holds:
                return holds
        time.sleep(pause)
    if not options.quiet:
        say(f"each of {which} is busy")
    return []


def _hand_out(
    client: Client,
    options: argparse.Namespace,
    holds: list[Hold],
    ttl: float,
    file: File | None,
    ending: Ending,
) -> None:
    """Detach the holds, print their tokens, then extend the leases to the requested ttl."""
    ctx = client._ctx
    detached: list[token.Passed] = []
    ending.note()
    try:
        for hold in holds:
            ending.look()
            passed = token.read(hold.detach())
            spec = passed.claim.spec._replace(ttl=ttl)
            detached.append(passed._replace(claim=passed.claim._replace(spec=spec)))
        if file is not None:
            file.write("".join(f"{token.write(passed)}\n" for passed in detached))
        lines = [_line(options, client.owner, passed, file is None) for passed in detached]
        with ending.at_once():
            print("".join(lines), end="", flush=True)
        for passed in detached:
            ending.look()
            run_sync(across.renew(ctx, passed, ttl, ctx.now() + REQUEST_S))
    except BaseException:
        if file is not None:
            file.remove()
        _give_back(ctx, detached)
        raise


def _give_back(ctx: Context, detached: list[token.Passed]) -> None:
    """Release the holds; stop at the first error, because each further release could time out."""
    for passed in detached:
        try:
            run_sync(across.release(ctx, passed))
        except NotHeld:
            continue
        except HoldfastError:
            return


def _line(options: argparse.Namespace, owner: str, passed: token.Passed, shown: bool) -> str:
    """Return the output for a hold; it contains the token if ``shown``."""
    spec = passed.claim.spec
    text = token.write(passed) if shown else ""
    if options.json:
        ends = datetime.now().astimezone() + timedelta(seconds=spec.ttl)
        said = {
            "name": spec.name,
            "fence": passed.fence,
            "owner": owner,
            "expires_in": spec.ttl,
            "expires": ends.isoformat(timespec="seconds"),
        }
        return json.dumps({"token": text, **said} if text else said) + "\n"
    lines = [spec.name] if options.command == "pick" else []
    lines += [text] if text else []
    return "".join(f"{line}\n" for line in lines)


def _caller() -> str:
    """Return the default owner: user, host, and the process id and command of the parent."""
    try:
        user = getpass.getuser()
    except (ImportError, KeyError, OSError):  # the user id has no name
        user = "somebody"
    parent = os.getppid()
    words: list[str] = []
    with contextlib.suppress(OSError), open(f"/proc/{parent}/cmdline", "rb") as file:
        words = [
            os.path.basename(one.decode(errors="replace")) for one in file.read().split(b"\0")[:2]
        ]
    shell = os.path.basename(os.environ.get("SHELL") or "sh")
    command = next((one for one in reversed(words) if one and one[:1] != "-"), shell)
    text = f"{user}@{hostname()}:{parent}:{command}"
    return text[:80].encode(errors="replace").decode()
