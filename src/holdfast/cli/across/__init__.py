"""A hold across several commands: one command takes it, others renew, inspect and release it.

They need its token. No process of holdfast runs between the commands, so the hold ends with its
ttl.
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
