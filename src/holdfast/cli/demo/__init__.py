"""``holdfast demo``: nine processes, one lock, one ledger; shown, checked and drawn.

Nothing is simulated: the processes, the files, the signals and the times are real.

    stage     the folder, the verdict, the end        worker    the work of each process
    story     the three acts, with their messages     ledger    the entries, and their audit
    crew      processes, pipes, kill, stop, wake      history   the measured events, the spans
    voice     the terminal: width, colours, signs     timeline  the hand-offs, drawn
"""

from __future__ import annotations

import argparse


def demo(options: argparse.Namespace) -> int:
    """Run the demo; return 0 if every promise was kept, 1 if not. It leaves no process."""
    from .stage import play  # because the tree of options imports this package

    return play(options.keep)
