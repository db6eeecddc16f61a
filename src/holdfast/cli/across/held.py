"""``holdfast renew``, ``check`` and ``release``: one operation on the hold of each token."""

from __future__ import annotations

import argparse
import json

from ...core import across, token
from ...core.policy import REQUEST_S
from ...errors import HoldfastError, NotHeld
from ...runtime.blocking import run_sync
from ...sync import Client
from .. import codes, origin
from ..text import say, span, visible
from . import tokens


def held(options: argparse.Namespace) -> int:
    """Run the command on the hold of each token; return the exit status."""
    act = {"renew": _renew, "check": _check, "release": _release}[options.command]
    with Client(options.url) as client:
        origin.tell(options, client.url)
        try:
            passed = tokens.read(options)
        except tokens.NoToken as wrong:
            say(str(wrong))
            return codes.DATA
        failed, lost, said = 0, 0, []
        for one in passed:  # an error for one token doesn't stop the others
            try:
                said.append(act(client, options, one))
            except NotHeld as over:
                lost = 0 if getattr(options, "if_held", False) else codes.LOST
                if not options.quiet:
                    say(str(over))
            except HoldfastError as failure:
                failed = codes.explain(failure)
        if options.command == "release" and not failed:
            tokens.remove(options)
    print("".join(said), end="")  # after all operations, because printing can fail
    return failed or lost


def _renew(client: Client, options: argparse.Namespace, passed: token.Passed) -> str:
    ctx = client._ctx
    ttl = across.length(ctx.store, options.ttl or passed.claim.spec.ttl)
    run_sync(across.renew(ctx, passed, ttl, ctx.now() + REQUEST_S))
    return _check(client, options, passed)  # a hold that lasts longer than `ttl` isn't shortened


def _check(client: Client, options: argparse.Namespace, passed: token.Passed) -> str:
    """Return the output for a held lock: the time left, by the clock of the store."""
    left = run_sync(across.find(client._ctx, passed)).expires_in
    name, fence = passed.claim.spec.name, passed.fence
    if options.json:
        return json.dumps({"name": name, "fence": fence, "expires_in": left}) + "\n"
    if options.quiet:
        return ""
    return f"{visible(name)} is held, fence {fence}: {span(left)} left\n"


def _release(client: Client, options: argparse.Namespace, passed: token.Passed) -> str:
    run_sync(across.release(client._ctx, passed))
    return ""
