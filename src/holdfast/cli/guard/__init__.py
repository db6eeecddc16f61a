"""``holdfast guard``: refresh guards from the shell. A verb's module is imported at its call."""

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
