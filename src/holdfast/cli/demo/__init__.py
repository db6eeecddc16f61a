"""``holdfast demo``: a story in three acts with nine processes, one lock and one ledger.

The demo prints the story, checks the ledger, and draws the hand-offs. The processes, the files, the
signals and the times are real.

    stage     runs the story, prints the verdict      worker    the work of each process
    story     the three acts and their messages       ledger    the entries, and their audit
    crew      starts, kills and stops the workers     history   the measured events
    voice     output: width, colours, signs           timeline  draws the hand-offs
"""

from __future__ import annotations

import argparse


def demo(options: argparse.Namespace) -> int:
    """Run the demo; return 0 if every promise was kept, 1 if not. No process is left behind."""
    from .stage import play  # because the tree of options imports this package

    return play(options.keep)
