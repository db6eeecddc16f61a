"""``holdfast guard``: refresh guards from the shell. Each verb is imported when it is called."""

from __future__ import annotations

import argparse


def guard(options: argparse.Namespace) -> int:
    """Run the verb and return the exit status."""
    if options.verb == "invalidate":
        from .mend import invalidate as call
    elif options.verb == "show":
        from .look import show as call
    else:
        from .look import ls as call
    return call(options)
