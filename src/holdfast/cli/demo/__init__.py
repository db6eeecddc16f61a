"""``holdfast demo``: nine processes, one lock, one ledger; told, checked and drawn.

Nothing in it is played: the processes, the files, the signals and the times are real.

    stage     the folder, the verdict, the end        worker    what each process does
    story     the three acts, ordered and told        ledger    the entries, and their audit
    crew      processes, pipes, kill, stop, wake      history   the measured events, what follows
    voice     the terminal: width, colours, signs     timeline  the hand-offs, drawn
"""

from __future__ import annotations

import argparse


def demo(options: argparse.Namespace) -> int:
    """Tell the story; 0 if everything is as promised, 1 if not. No process is left behind."""
    from .stage import play  # because the tree of options imports this package

    return play(options.keep)
