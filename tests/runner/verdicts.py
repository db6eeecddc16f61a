"""The results of each test in all its tries, and the verdict.

A test that fails next to other work can fail because of the machine: it pauses for seconds, which
breaks a bound that the code keeps. So a failed test runs again when nothing else runs, and counts
as failed if it fails then, too.

A broken promise is final immediately. So is an error outside any test: a file that can't be read,
or a process that ends for an unknown reason.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

#: If a larger part of all tests fails at first, noise of the machine cannot be the reason.
UNSTEADY_PART = 0.01
#: Up to this number of failed tests is tried again in any case.
UNSTEADY_MIN = 5
#: Number of times that a failed test is run again, alone.
TRIES = 2
#: Maximum characters of a failure in one line.
SHOWN = 200


class Failure(NamedTuple):
    """A test that did not pass in one try, with the reason in one line and in full."""

    why: str
    text: str
    #: Seconds that the machine was late while the test ran, and the whole time of the test.
    late: float = 0.0
    took: float = 0.0
    #: True if a promise was broken: no other try can change that.
    final: bool = False


class Verdicts:
    """All results so far; every process adds to them."""

    def __init__(self) -> None:
        #: The last outcome of each test: passed, skipped, xfailed, or failed.
        self.outcomes: dict[str, str] = {}
        self.failures: dict[str, list[Failure]] = {}
        #: Errors outside any test, by name.
        self.broken: dict[str, str] = {}

    def ended(self, test: str, outcome: str, failures: Iterable[Failure] = ()) -> None:
        """Record the end of a test."""
        self.outcomes[test] = outcome
        if found := list(failures):
            self.failures.setdefault(test, []).extend(found)

    @property
    def failed(self) -> list[str]:
        """The tests whose last try failed."""
        return [test for test, outcome in self.outcomes.items() if outcome == "failed"]

    @property
    def final(self) -> list[str]:
        """The tests that broke a promise, in any try."""
        return [test for test, tries in self.failures.items() if any(one.final for one in tries)]

    @property
    def unsteady(self) -> list[str]:
        """The tests that failed and then passed."""
        return [test for test in self.failures if self.outcomes[test] != "failed"]

    def worth_another_try(self) -> list[str]:
        """Return the tests to run again; none if the run has failed already."""
        failed = self.failed
        most = max(UNSTEADY_MIN, UNSTEADY_PART * len(self.outcomes))
        if self.final or self.broken or len(failed) > most:
            return []
        return failed

    @property
    def code(self) -> int:
        """The exit code: 0 if everything passed."""
        return 1 if self.failed or self.final or self.broken or not self.outcomes else 0

    def summary(self, seconds: float) -> str:
        """Return the last line, in the form of pytest.

        >>> verdicts = Verdicts()
        >>> verdicts.ended("a", "passed")
        >>> verdicts.ended("b", "failed", [Failure("late", "it was late")])
        >>> verdicts.summary(3.5)
        '1 failed, 1 passed in 3.50s'
        >>> verdicts.ended("b", "passed")
        >>> verdicts.summary(3.5)
        '2 passed, 1 rerun in 3.50s'
        """
        kinds = Counter(self.outcomes.values())
        for test in self.final:
            if self.outcomes[test] != "failed":
                kinds[self.outcomes[test]] -= 1
                kinds["failed"] += 1
        kinds["error"] = len(self.broken)
        kinds["rerun"] = len(set(self.unsteady) - set(self.final))
        order = ("failed", "passed", "skipped", "xfailed", "error", "rerun")
        said = [f"{kinds[kind]} {kind}" for kind in order if kinds[kind]]
        return f"{', '.join(said) or 'no tests ran'} in {seconds:.2f}s"

    def tell(self, log: Path) -> None:
        """Report failed and repeated tests; write the full texts to this file."""
        for name, why in self.broken.items():
            tell(f"BROKEN {name}: {_line(why)}")
        for test in self.failed:
            if test not in self.final:
                tell(f"FAILED {test}: {_told(self.failures[test][-1])}")
        for test in self.unsteady:
            if test not in self.final:
                tries = len(self.failures[test]) + 1
                tell(f"unsteady, passed at try {tries}: {test}: {_told(self.failures[test][0])}")
        for test in self.final:
            told = next(one for one in self.failures[test] if one.final)
            tell(f"FAILED, a promise was broken: {test}: {_told(told)}")
        if self.failures:
            self._log(log)
            tell(f"{log} has the whole text")

    def _log(self, log: Path) -> None:
        log.parent.mkdir(exist_ok=True)
        with log.open("a", encoding="utf-8") as file:
            file.write(f"##### {time.strftime('%F %T %z')}\n")
            for test, tries in self.failures.items():
                for number, one in enumerate(tries, 1):
                    file.write(f"===== {test}, try {number}: {_told(one)}\n{one.text}\n")


def table(played: Iterable[Verdicts]) -> str:
    """Return a table of the tests that failed in some of these runs, the worst first.

    >>> verdicts = Verdicts()
    >>> verdicts.ended("a", "failed", [Failure("too late", "", 1.5, 2.0)])
    >>> verdicts.ended("a", "passed")
    >>> print(table([verdicts]))
    failures  runs  late s  test
           1     1     1.5  a: too late
    """
    failures: Counter[str] = Counter()
    runs: Counter[str] = Counter()
    worst: dict[str, Failure] = {}
    for verdicts in played:
        for test, tries in verdicts.failures.items():
            failures[test] += len(tries)
            runs[test] += 1
            worst[test] = max([*tries, worst.get(test, tries[0])], key=lambda one: one.late)
    lines = [
        f"{count:8}  {runs[test]:4}  {worst[test].late:6.1f}  {test}: {_line(worst[test].why)}"
        for test, count in failures.most_common()
    ]
    return "\n".join(["failures  runs  late s  test", *lines])


def tell(what: str) -> None:
    """Print a line of progress to stderr."""
    sys.stderr.write(f"tests: {what}\n")
    sys.stderr.flush()


def _told(one: Failure) -> str:
    return f"{_line(one.why)} (machine late by {one.late:.1f} s of {one.took:.1f} s)"


def _line(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
