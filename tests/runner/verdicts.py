"""What became of each test in all its tries, and what follows from it.

A failure beside other work may be the machine's: it stands still for seconds, and a bound that the
code keeps is broken. So a test that failed is run again when nothing else runs, and counts as
failed if it fails then too. A broken promise is final at once, and so is what no test is to blame
for: a file that can't be read, a process that ends in an unknown way.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

#: More tests that fail at first, as a part of all, are no noise of the machine.
UNSTEADY_PART = 0.01
#: Fewer than this are tried again in any case.
UNSTEADY_MIN = 5
#: Times that a test that failed beside others is run again, alone.
TRIES = 2
#: How much of a failure a line shows.
SHOWN = 200


class Failure(NamedTuple):
    """A test that did not pass in one try: why, in one line and in full."""

    why: str
    text: str
    #: Seconds that the machine was late while the test ran, and how long it took with them.
    late: float = 0.0
    took: float = 0.0
    #: A promise was broken: no other try makes that undone.
    final: bool = False


class Verdicts:
    """All that is known so far; every process adds to it."""

    def __init__(self) -> None:
        #: The last outcome of each test: passed, skipped, xfailed, or failed.
        self.outcomes: dict[str, str] = {}
        self.failures: dict[str, list[Failure]] = {}
        #: What went wrong outside any test, by name.
        self.broken: dict[str, str] = {}

    def ended(self, test: str, outcome: str, failures: Iterable[Failure] = ()) -> None:
        """A test came to its end, or was ended."""
        self.outcomes[test] = outcome
        if found := list(failures):
            self.failures.setdefault(test, []).extend(found)

    @property
    def failed(self) -> list[str]:
        """Those whose last try failed."""
        return [test for test, outcome in self.outcomes.items() if outcome == "failed"]

    @property
    def final(self) -> list[str]:
        """Those that broke a promise, in whatever try."""
        return [test for test, tries in self.failures.items() if any(one.final for one in tries)]

    @property
    def unsteady(self) -> list[str]:
        """Those that failed and then passed."""
        return [test for test in self.failures if self.outcomes[test] != "failed"]

    def worth_another_try(self) -> list[str]:
        """The tests that may be run again; none if the whole is red already."""
        failed = self.failed
        most = max(UNSTEADY_MIN, UNSTEADY_PART * len(self.outcomes))
        if self.final or self.broken or len(failed) > most:
            return []
        return failed

    @property
    def code(self) -> int:
        """0 if all is well."""
        return 1 if self.failed or self.final or self.broken or not self.outcomes else 0

    def summary(self, seconds: float) -> str:
        """The last line, as pytest says it.

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
        """Say what failed and what needed another try; the whole text goes to this file."""
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
            tell(f"FAILED for good, a promise was broken: {test}: {_told(told)}")
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
    """The tests that failed in some of these runs, the worst first.

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
    """Say it to whoever looks on."""
    sys.stderr.write(f"tests: {what}\n")
    sys.stderr.flush()


def _told(one: Failure) -> str:
    return f"{_line(one.why)} (machine late by {one.late:.1f} s of {one.took:.1f} s)"


def _line(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
