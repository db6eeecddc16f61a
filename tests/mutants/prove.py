"""Run the test that must catch a planted bug, with the bug: ``python -m tests.mutants.prove N``.

A process of its own, as a bug stays planted. It ends as pytest does: 1 if the test has failed.
"""

from __future__ import annotations

import os
import sys

from .plant import plant
from .planted import PLANTED


def prove(number: int) -> int:
    """Plant the bug and run its test, whole; pytest's exit code."""
    planted = PLANTED[number]
    plant(planted.edits)
    os.environ["HOLDFAST_TORTURE"] = "full"
    import pytest

    return int(pytest.main(["-q", "-x", "-p", "no:cacheprovider", planted.node]))


if __name__ == "__main__":
    sys.exit(prove(int(sys.argv[1])))
