"""``holdfast release``: what is done with a hold by its token."""

from __future__ import annotations

import argparse

from ...core import across, token
from ...errors import NotHeld
from ...runtime.blocking import run_sync
from ...sync import Client
from .. import codes, origin
from ..text import say
from . import tokens


def held(options: argparse.Namespace) -> int:
    """Do with the hold of a token what the command says; the exit status."""
    with Client(options.url) as client:
        origin.tell(options, client.url)
        try:
            passed = tokens.read(options)
        except tokens.NoToken as wrong:
            say(str(wrong))
            return codes.DATA
        return _release(client, options, passed)


def _release(client: Client, options: argparse.Namespace, passed: token.Passed) -> int:
    code = 0
    try:
        run_sync(across.release(client._ctx, passed))
    except NotHeld as over:
        if not options.quiet:
            say(str(over))
        code = 0 if options.if_held else codes.LOST
    tokens.remove(options)
    return code
