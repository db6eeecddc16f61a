"""Record the result of each test for the runner, when it happens.

A pytest plugin (``-p tests.runner.plugin``). ``HOLDFAST_NOTES`` names the file, with a line of JSON
per event. ``HOLDFAST_ONLY`` names a file with the ids of the chosen tests, if not all run.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

#: On this signal the process prints the stack of each of its threads.
DUMP = signal.SIGRTMIN + 5
#: Maximum characters that are kept of one failure.
TEXT_MAX = 20_000

# Processes that a test starts don't get these variables: they can run pytest themselves.
_notes = os.environ.pop("HOLDFAST_NOTES", "")
_only = os.environ.pop("HOLDFAST_ONLY", "")
if _notes:
    # Before pytest captures the output.
    faulthandler.register(DUMP, file=os.dup(2), all_threads=True)


def _note(**what: Any) -> None:
    if _notes:
        with Path(_notes).open("a", encoding="utf-8") as file:
            file.write(json.dumps(what) + "\n")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests that were not chosen."""
    if _only:
        asked = set(Path(_only).read_text(encoding="utf-8").splitlines())
        left_out = [item for item in items if item.nodeid not in asked]
        items[:] = [item for item in items if item.nodeid in asked]
        config.hook.pytest_deselected(items=left_out)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Note which tests will run."""
    _note(collected=[item.nodeid for item in session.items])


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Note a file that could not be collected."""
    if report.failed:
        _note(broken=report.nodeid, text=report.longreprtext)


def pytest_internalerror(excrepr: object) -> None:
    """Note that pytest itself failed."""
    _note(broken="pytest", text=str(excrepr))


def pytest_runtest_logstart(nodeid: str) -> None:
    """Note that a test begins."""
    _note(began=nodeid, at=time.monotonic())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Iterator[Any]:
    """Add to the report whether a promise was broken."""
    report = yield
    if report.failed:
        report.final = call.excinfo is not None and breaks_a_promise(call.excinfo.value)
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note how a part of a test ended, and whether the test has ended."""
    if report.failed:
        crash = getattr(report.longrepr, "reprcrash", None)
        text = report.longreprtext
        first = (crash.message if crash else text.rstrip().rpartition("\n")[2]).splitlines()
        _note(
            failed=report.nodeid,
            when=report.when,
            why=first[0] if first else "",
            text=text[-TEXT_MAX:],
            final=getattr(report, "final", False),
        )
    elif report.skipped or hasattr(report, "wasxfail"):
        kind = "skipped" if not hasattr(report, "wasxfail") else "xfailed"
        _note(outcome=report.nodeid, kind=kind)
    if report.when == "teardown":
        _note(ended=report.nodeid)


def breaks_a_promise(failure: BaseException) -> bool:
    """Return whether this is a ``PromiseBroken``, or has one among its causes or in its group.

    The check is by name, because a test can import holdfast a second time.
    """
    seen: set[int] = set()
    left: list[BaseException | None] = [failure]
    while left:
        one = left.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        if any(kind.__name__ == "PromiseBroken" for kind in type(one).__mro__):
            return True
        left += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            left += one.exceptions
    return False
