"""Run pytest, then print what could not be fetched: ``python -m tests.fetching.told [ARGS]``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.fetching.cache import say

#: A file with one line for each missing program: ``./dev test`` writes it.
MISSING = Path(sys.prefix) / "missing"


def told_missing(file: Path) -> int:
    """Print each line of this file as missing; return 1 if a missing program is an error here."""
    missing = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    for line in missing:
        say(f"MISSING {line}")
    return 1 if missing and os.environ.get("CI") == "true" else 0


def main(*words: str) -> int:
    """The exit code of pytest, or 1 if pytest passed and a missing program is an error here."""
    code, missing = int(pytest.main([*words])), told_missing(MISSING)
    return code or missing


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
