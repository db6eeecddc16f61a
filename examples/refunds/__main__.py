"""``python -m refunds``: run the example on a new embedded store, or on that of ``--store``."""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from pathlib import Path

from .check import check, figures
from .picture import draw
from .play import Scale, play
from .settings import Settings


def main() -> int:
    """Run the example; return 0 if every promise was kept, 1 if one was broken."""
    usual = Scale()
    parser = argparse.ArgumentParser(
        prog="refunds", description="Refunds in order, each once, while processes are killed."
    )
    parser.add_argument("--store", metavar="URL", help="a new embedded store, unless you say so")
    for name in ("nodes", "workers", "merchants", "refunds", "strikes"):
        count = getattr(usual, name)
        parser.add_argument(f"--{name}", type=int, default=count, help=f"{count}")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10_000))
    args = parser.parse_args()
    scale = Scale(args.nodes, args.workers, args.merchants, args.refunds, args.strikes, args.seed)
    print(f"{scale.merchants} merchants, {scale.refunds} refunds each (seed {scale.seed}).")
    print(f"{scale.nodes} nodes take them, {scale.workers} workers have the bank pay them:")
    print("one at a time per merchant, in order, 0.2 s apart. Meanwhile:", flush=True)
    with tempfile.TemporaryDirectory(prefix="refunds-") as folder:
        store = args.store or f"sqlite://{folder}/holdfast.db"
        known = Settings(store=store, interval=0.2, ttl=2.0)
        seen = play(Path(folder), known, scale, tell=lambda text: print(f"  {text}", flush=True))
        log = (Path(folder) / "log").read_text()
    wrongs = check(seen)
    width = min(120, shutil.get_terminal_size((100, 24)).columns - 1)
    print("", draw(seen, width), "", figures(seen), sep="\n")
    if not wrongs:
        print("Every refund that was accepted was paid once, in order, and never too soon.")
        return 0
    print("BROKEN:", *wrongs, "what they wrote:", log[-4000:], sep="\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
