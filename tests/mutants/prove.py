"""Run the test that must catch a planted bug, with the bug: ``python -m tests.mutants.prove N``.

A process of its own, as a bug stays planted. It ends as pytest does, plus 10: 11 if the test has
failed, so that an end of any other kind can't be taken for that.
"""

from __future__ import annotations

import os
import sys

from .plant import plant
from .planted import PLANTED


def prove(number: int) -> int:
    """Plant the bug and run its test; pytest's exit code, and 10."""
    planted = PLANTED[number]
    plant(planted.edits)
    os.environ["HOLDFAST_TORTURE"] = "full" if planted.full else ""
    import pytest

    # Plain, because where holdfast is installed pytest would load its modules itself, to rewrite
    # their assertions, and never ask for those that are planted.
    ended = pytest.main(["-q", "-x", "--assert=plain", "-p", "no:cacheprovider", planted.node])
    return 10 + int(ended)


if __name__ == "__main__":
    sys.exit(prove(int(sys.argv[1])))
