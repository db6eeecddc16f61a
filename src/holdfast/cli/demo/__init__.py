"""``holdfast demo``: nine processes, one lock, one ledger; told, checked and drawn.

Nothing in it is played: the processes, the files, the signals and the times are real.

    stage     the folder, the crew, the end           worker   what each process does
    story     the three acts, ordered and told        ledger   the entries, and their audit
    crew      processes, pipes, kill, stop, wake      verdict  every promise checked
    history   the measured events, what follows       voice    the terminal: width, colours
    timeline, picture   the hand-offs, drawn in the terminal and as SVG
"""

from __future__ import annotations

import argparse
from pathlib import Path


def arguments(parser: argparse.ArgumentParser) -> None:
    """Give a parser the options of the demo."""
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        help="put the picture (timeline.svg) and the ledger (ledger.txt) into this folder; without "
        "--out and --keep nothing is left behind",
    )
    parser.add_argument(
        "--keep",
        action="store_true",
        help="keep the working folder, with the lock store and the ledger",
    )


def run(argv: list[str]) -> int:
    """Tell the story with these options; the exit status.

    0: everything is as promised. 1: something is wrong; it says what. 78: the story can't be
    told here, for example because nothing can be written. 74: its output takes nothing.
    69: the store gave no answer. 130, 143: ended by Ctrl-C, by SIGTERM. No process is left
    behind in any case.
    """
    parser = argparse.ArgumentParser(
        prog="holdfast demo", description="Nine processes, one lock, one ledger, and what happens."
    )
    arguments(parser)
    options = parser.parse_args(argv)
    from .stage import play  # because a parser alone needs nothing of it

    return play(options.out, options.keep)
