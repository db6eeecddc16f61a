"""A hold across several commands: taken by one, renewed, inspected and released by others, which
prove by its token that it is theirs. No process of ours lives in between, so it ends with its ttl.
"""

from __future__ import annotations

import argparse


def across(options: argparse.Namespace) -> int:
    """Do what the command says; the exit status."""
    if options.command in ("acquire", "pick"):
        from .take import take as call
    elif options.command == "wait":
        from .wait import wait as call
    else:
        from .held import held as call
    return call(options)
