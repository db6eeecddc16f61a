"""``holdfast demo``: nine processes, one lock, one ledger; told, checked and drawn.

Nothing in it is played: the processes, the files, the signals and the times are real.

    story     the three acts, ordered and told        worker   what each process does
    crew      processes, pipes, kill, stop, wake      ledger   the entries, and their audit
    history   the measured events, and what follows   verdict  every promise checked
    voice     the terminal: width, colours, signs     timeline, picture   the hand-offs, drawn
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from ...errors import ConfigError, HoldfastError, StoreUnavailable
from ...sync import Client
from . import picture, timeline
from .crew import Crew, StoryError
from .history import scenes, workers
from .story import SIZE, Story
from .verdict import findings
from .voice import Mark, Voice

EX_WRONG, EX_UNAVAILABLE, EX_CONFIG = 1, 69, 78
PICTURE, LEDGER = "timeline.svg", "ledger.txt"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Give a parser the options of the demo."""
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        help=f"put {PICTURE} and {LEDGER} there; else the picture goes to a folder of its own",
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep the working folder with the store and the ledger"
    )


def run(argv: list[str]) -> int:
    """Tell the story; 0 if everything is as promised, 1 if not, 78 if it can't be told here."""
    parser = argparse.ArgumentParser(prog="holdfast demo", description=__doc__.splitlines()[0])
    arguments(parser)
    options = parser.parse_args(argv)
    return play(options.out, options.keep)
