"""``holdfast break``: end one hold of another owner, named by its fence."""

from __future__ import annotations

import argparse
import os
import sys

from ..core.model import ClaimRecord
from ..sync import Client
from . import codes, origin
from .text import say, span, until, visible

#: Nothing was broken: the claim no longer exists, or the user answered no.
NOT_BROKEN = 1


def break_(options: argparse.Namespace) -> int:
    """Break one claim of a name; return 0 if it was broken, 1 if not."""
    with Client(options.url) as client:
        origin.tell(options, client.url)
        claim = _choose(client, options)
        if claim is None:
            return NOT_BROKEN
        name = visible(options.name)
        if not options.yes:
            if not (sys.stdin.isatty() and sys.stderr.isatty()):
                say(f"without a terminal, breaking {name!r} needs --yes")
                return codes.USAGE
            if not _agreed(options.name, claim):
                say("nothing was changed")
                return NOT_BROKEN
        if not client.break_(options.name, claim.fence):
            say(f"fence {claim.fence} of {name!r} no longer exists; nothing was changed")
            return NOT_BROKEN
        _log(options, claim)
        print(_done(client, options.name, claim))
    return 0


def _choose(client: Client, options: argparse.Namespace) -> ClaimRecord | None:
    """Return the claim with the fence of ``--fence``, or the only holder if no fence is given.

    If there is no such claim, print the reason and return None."""
    name = visible(options.name)
    lines = client.inspect(options.name, exact=True)
    claims = lines[0].claims if lines else ()
    if options.fence is not None:
        found = [claim for claim in claims if claim.fence == options.fence]
        if not found:
            say(f"{name!r} has no claim with fence {options.fence}; see `holdfast show {name}`")
        return found[0] if found else None
    holders = [claim for claim in claims if claim.held]
    if not holders:
        say(f"{name!r} has no holder: there is nothing to break")
        return None
    if len(holders) > 1:
        fences = ", ".join(f"{claim.fence} ({visible(claim.owner)})" for claim in holders)
        say(f"{name!r} has {len(holders)} holders; name one with --fence: {fences}")
        return None
    return holders[0]


def _agreed(name: str, claim: ClaimRecord) -> bool:
    verb = "holds" if claim.held else "has waited for"
    since = f" for {span(claim.age)}" if claim.age >= 0 else ""
    told = "It notices at its next renewal; until then only the fence stops its writes."
    if claim.detached:
        told = "No process renews it; the next command that uses its token reports the loss."
    if claim.kept:
        verb, since = "has released", ""
        told = f"The name stays taken {until(claim.expires_in)}, so that no job starts before that."
    print(
        f"{visible(claim.who)} {verb} {visible(name)!r}{since} (fence {claim.fence}).",
        told,
        "Break it? [y/N] ",
        sep="\n",
        end="",
        file=sys.stderr,
        flush=True,
    )
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _done(client: Client, name: str, claim: ClaimRecord) -> str:
    """Return a text about the broken claim and the present holder."""
    owner = visible(claim.who)
    text = f"broke {visible(name)!r}: fence {claim.fence} of {owner} is no longer valid"
    if claim.kept:
        text = f"broke {visible(name)!r}: fence {claim.fence}, released by {owner}, is not kept now"
    elif claim.detached:
        text += "\nno process renewed it; the next command that uses its token reports the loss"
    elif claim.held:
        text += f"\n{owner} notices at its next renewal"
    lines = client.inspect(name, exact=True)
    if lines and lines[0].holders:
        heir = lines[0].holders[-1]
        return f"{text}\nheld by {visible(heir.owner)} now, fence {heir.fence}"
    greater = ", and its next fence will be greater" if client.supports("fences") else ""
    return f"{text}\nthe name is free{greater}"


def _log(options: argparse.Namespace, claim: ClaimRecord) -> None:
    """Write the name, the user, the former holder and the reason to the system log."""
    try:
        import syslog
    except ImportError:  # Windows
        return
    who = os.environ.get("SUDO_USER") or os.environ.get("USER") or f"uid {os.getuid()}"
    text = f"{who} broke {options.name!r}, fence {claim.fence} of {visible(claim.who)}"
    if options.reason:
        text += f", because: {options.reason}"
    syslog.openlog("holdfast", syslog.LOG_PID, syslog.LOG_AUTH)
    syslog.syslog(syslog.LOG_NOTICE, visible(text))
