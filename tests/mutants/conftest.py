"""What the proofs say at the end of a run."""

from __future__ import annotations

import pytest

from .changed import SAID


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many planted bugs were left out."""
    for table, said in SAID.items():
        terminalreporter.write_line(f"{table}: {said}")
