"""A watched process for a group of tests: a test that kills or hangs it costs no other test."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from holdfast.runtime.blocking import boottime
from holdfast.testing import lag

from .groups import Group, command
from .plugin import DUMP, TEXT_MAX
from .verdicts import Failure, Verdicts, tell

#: Seconds after which a test counts as hanging. Delays of the machine in that time are added.
LIMIT_S = 120.0
#: Factor for this limit while a group reads its tests, because it works all that time.
READING = 5
#: The same limit for a full run, where a test makes all its attempts.
LIMIT_FULL_S = 3600.0
#: Seconds after which a process that ignores Ctrl-C is killed.
GRACE_S = 10.0
#: Seconds between two checks of the processes.
POLL_S = 0.1


class Process:
    """A group that runs, or the rest of it."""

    def __init__(
        self,
        group: Group,
        everything: Sequence[Group],
        only: Sequence[str] | None = None,
        compiled: bool = False,
    ) -> None:
        self.group = group
        self.began = time.monotonic()
        self._place = tempfile.TemporaryDirectory(prefix="holdfast-tests-")
        self._said: IO[str] = (Path(self._place.name) / "said").open("w+", encoding="utf-8")
        self._notes = Path(self._place.name) / "notes"
        self._notes.touch()
        self._read = 0
        self._asked: Sequence[str] | None = only
        #: The remaining tests, and the running one.
        self._left: dict[str, None] | None = None
        self._running: str | None = None
        self._failures: list[Failure] = []
        self._kind = "passed"
        #: The start of the current test, or of the pause between two tests.
        self._since = self.began
        self._hung = ""
        #: The numbers of ended tests, by result.
        self._kinds: Counter[str] = Counter()
        env = {**os.environ, "HOLDFAST_NOTES": str(self._notes)}
        if compiled:
            env["HOLDFAST_COMPILED"] = "1"
        if only is not None:
            chosen = Path(self._place.name) / "only"
            chosen.write_text("\n".join(only), encoding="utf-8")
            env["HOLDFAST_ONLY"] = str(chosen)
        self._process = subprocess.Popen(
            command(group, everything),
            stdin=subprocess.DEVNULL,
            stdout=self._said,
            stderr=subprocess.STDOUT,
            env=env,
            start_new_session=True,
        )

    def look(self, verdicts: Verdicts) -> bool:
        """Read new notes; return True when the process has ended."""
        pid, status, used = os.wait4(self._process.pid, os.WNOHANG)
        self._take_notes(verdicts)
        if pid == 0:
            self._end_if_hung()
            return False
        self._process.returncode = os.waitstatus_to_exitcode(status)
        self._kill_all()
        self._over(verdicts, used.ru_utime + used.ru_stime)
        return True

    @property
    def has_read(self) -> bool:
        """True if the process has read its tests."""
        return self._left is not None

    def rest(self) -> list[str]:
        """Return the tests that were not reached."""
        return list(self._left or ())

    def end(self) -> None:
        """End the process early, and show its output."""
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._kill_all()
        self._show()

    def _take_notes(self, verdicts: Verdicts) -> None:
        with self._notes.open(encoding="utf-8") as file:
            file.seek(self._read)
            while (line := file.readline()).endswith("\n"):
                self._read = file.tell()
                self._take(json.loads(line), verdicts)

    def _take(self, note: dict[str, Any], verdicts: Verdicts) -> None:
        match note:
            case {"collected": tests}:
                self._left = dict.fromkeys(tests)
            case {"broken": name, "text": text}:
                verdicts.broken[f"{name or self.group.name}"] = text.rstrip().rpartition("\n")[2]
            case {"began": test, "at": at}:
                self._running, self._since, self._failures, self._kind = test, at, [], "passed"
            case {"failed": _, "why": why, "text": text, "final": final}:
                self._failures.append(self._failure(why, text, final=final))
                self._kind = "failed"
            case {"outcome": _, "kind": kind} if self._kind != "failed":
                self._kind = kind
            case {"ended": test}:
                self._test_over(test, verdicts)

    def _failure(self, why: str, text: str, *, final: bool = False) -> Failure:
        took = time.monotonic() - self._since
        return Failure(why, text, lag.since(boottime() - took), took, final)

    def _test_over(self, test: str, verdicts: Verdicts) -> None:
        verdicts.ended(test, self._kind, self._failures)
        self._kinds[self._kind] += 1
        self._running, self._since = None, time.monotonic()
        if self._left is not None:
            self._left.pop(test, None)

    def _end_if_hung(self) -> None:
        if self._hung:
            return
        limit = LIMIT_FULL_S if os.environ.get("HOLDFAST_TORTURE") else LIMIT_S
        if self._left is None:
            limit *= READING
        took = time.monotonic() - self._since
        if took > limit and took - lag.since(boottime() - took) > limit:
            self._hung = f"it did not end within {took:.0f} s"
            tell(f"{self._running or self.group.name}: {self._hung}; its process is ended")
            self._process.send_signal(DUMP)
            time.sleep(1)
            self._process.kill()

    def _over(self, verdicts: Verdicts, cpu: float) -> None:
        code = self._process.returncode
        took = time.monotonic() - self.began
        how = "passed" if code == 0 else f"FAILED ({code})"
        tell(f"{self.group.name} {how} in {took:.0f} s, {cpu:.0f} s of them at work")
        said = self._show()
        why = self._hung or f"its process ended with {code}"
        if self._left and not self._running and self._kinds and (code < 0 or self._hung):
            # The process ended between two tests; the failure is recorded for the next test.
            self._running = next(iter(self._left))
        if self._running:
            self._failures.append(self._failure(why, said[-TEXT_MAX:]))
            self._kind = "failed"
            self._test_over(self._running, verdicts)
        elif wrong := self._wrong(verdicts):
            verdicts.broken[self.group.name] = f"{wrong}: {why}"
            self._left = None

    def _wrong(self, verdicts: Verdicts) -> str:
        """Return what is wrong with the end of a process between tests, or an empty text."""
        code = self._process.returncode
        if self._left is None or (self._left and not self._kinds):
            return "no test was run"
        if self._left:
            return f"{len(self._left)} tests were not run"
        if code not in (0, 1) or self._hung:
            return "it did not end well after its tests"
        if code == 1 and not self._kinds["failed"]:
            return "it failed, but none of its tests did"
        if gone := set(self._asked or ()) - set(verdicts.outcomes):
            return f"tests are gone: {sorted(gone)}"
        return ""

    def _kill_all(self) -> None:
        """Kill processes that it started and left; servers end with it anyway."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _show(self) -> str:
        self._said.seek(0)
        said = self._said.read()
        self._said.close()
        self._place.cleanup()
        sys.stdout.write(said if said.endswith("\n") else f"{said}\n")
        sys.stdout.flush()
        return said


def run(
    chosen: Sequence[Group],
    everything: Sequence[Group],
    at_once: int,
    verdicts: Verdicts,
    only: Sequence[str] | None = None,
) -> None:
    """Run these groups, ``at_once`` at a time; if ``only`` is given, run only those tests.

    After a process that dies or hangs, another one runs the rest of its group.
    """
    lag.watch()
    waiting: list[tuple[Group, Sequence[str] | None]] = [(group, only) for group in chosen]
    running: list[Process] = []
    compiled = False
    try:
        while waiting or running:
            # In a fresh clone the first process compiles the shared modules, so that only one does.
            compiled = compiled or any(one.has_read for one in running)
            while waiting and len(running) < (at_once if compiled else 1):
                group, tests = waiting.pop(0)
                running.append(Process(group, everything, tests, compiled))
                tell(f"{group.name} {'has begun' if tests is only else 'goes on'}")
            time.sleep(POLL_S)
            for process in [*running]:
                if process.look(verdicts):
                    running.remove(process)
                    if rest := process.rest():
                        waiting.insert(0, (process.group, rest))
    except BaseException:
        for process in running:
            process.end()
        raise
