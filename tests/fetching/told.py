"""Run pytest, and then say what could not be had: ``python -m tests.fetching.told [ARGS]``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.fetching.cache import say

#: A line for each thing: ``./dev test`` writes it.
MISSING = Path(sys.prefix) / "missing"


def told_missing(file: Path) -> int:
    """Say what was missing, one thing a line of this file; 1 if that is red."""
    missing = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    for line in missing:
        say(f"MISSING {line}")
    return 1 if missing and os.environ.get("CI") == "true" else 0


def main(*words: str) -> int:
    """Pytest's exit code, or 1 if only what was missing is red."""
    code, missing = int(pytest.main([*words])), told_missing(MISSING)
    return code or missing


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
