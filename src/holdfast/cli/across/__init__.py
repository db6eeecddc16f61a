"""A hold across several commands: one takes the hold; others renew, check and release it.

The other commands need the token that the first one printed. No process of holdfast runs between
the commands, so the hold ends with its ttl unless a command renews it.
"""

from __future__ import annotations

import argparse


def across(options: argparse.Namespace) -> int:
    """Run the command and return the exit status."""
    if options.command in ("acquire", "pick"):
        from .take import take as call
    elif options.command == "wait":
        from .wait import wait as call
    else:
        from .held import held as call
    return call(options)
