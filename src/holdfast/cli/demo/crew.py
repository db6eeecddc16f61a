"""The crew: worker processes, the pipes to them, and the signals that kill or stop them.

The processes are forked, not spawned, because a fork needs no import and takes only milliseconds.
They are forked before this process has a lock, a thread or a client.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import NamedTuple, Self

from ...runtime.blocking import boottime
from . import worker
from .history import Event, What
from .worker import Order

#: Maximum seconds for each step of the story; after that the demo fails.
PATIENCE_S = 20.0
#: Maximum seconds for the exit of an idle worker, which takes only milliseconds.
DISMISS_S = 2.0


class StoryError(Exception):
    """The story can't continue: a worker failed, ended unexpectedly, or was too slow."""


class Member(NamedTuple):
    """The process of one worker, and the pipe to it."""

    process: BaseProcess
    pipe: Connection


class Crew:
    """Worker processes ``w1`` to ``wN``. A context manager; its end ends all workers."""

    def __init__(self, size: int, store: Path, path: Path) -> None:
        self.events: list[Event] = []
        self.members: dict[str, Member] = {}
        self._unheard: deque[Event] = deque()
        fork = multiprocessing.get_context("fork")
        # These signals are blocked until `worker.main` has set the workers' actions.
        signal.pthread_sigmask(signal.SIG_BLOCK, worker.SIGNALS)
        for name in [f"w{seat}" for seat in range(1, size + 1)]:
            ours, theirs = fork.Pipe()
            others = [*(member.pipe for member in self.members.values()), ours]
            whole = (name, store, path, theirs, others)
            process = fork.Process(target=worker.main, args=whole, daemon=True)
            process.start()
            theirs.close()
            self.members[name] = Member(process, ours)

    def alive(self) -> list[str]:
        """Return the names of the workers that still run."""
        return [name for name, member in self.members.items() if member.process.is_alive()]

    def pid(self, name: str) -> int:
        """Return the process id of a worker."""
        return self.members[name].process.pid or 0

    def send(self, name: str, order: Order | None = None) -> None:
        """Send a worker an order, or None: the worker then continues at its ``gate``, or exits."""
        with contextlib.suppress(BrokenPipeError):  # the worker has ended; `listen` reports that
            self.members[name].pipe.send(order)

    def note(self, what: What, name: str = "", at: float | None = None, text: str = "") -> Event:
        """Add an event that this process caused to the history."""
        event = Event(boottime() if at is None else at, name, what, text=text)
        self.events.append(event)
        return event

    def listen(self, doing: str) -> Iterator[Event]:
        """Yield events as they arrive, until the caller leaves the loop.

        Raise ``StoryError`` if a worker fails or ends unexpectedly, or if no event arrives for
        ``PATIENCE_S`` seconds.
        """
        while True:
            while self._unheard:
                event = self._unheard.popleft()
                if event.what is What.FAILED:
                    raise StoryError(f"{event.worker} failed while {doing}: {event.text}")
                yield event
            pipes = {m.pipe: name for name, m in self.members.items() if not m.pipe.closed}
            ready = wait(list(pipes), PATIENCE_S)
            if not ready:
                raise StoryError(f"nothing happened for {PATIENCE_S:g} s while {doing}")
            fresh = [e for pipe, name in pipes.items() if pipe in ready for e in self._heard(name)]
            fresh.sort(key=lambda event: event.at)
            self.events += fresh
            self._unheard += fresh

    def wait(self, what: What, names: list[str], doing: str) -> None:
        """Wait until each worker in ``names`` has sent an event of the kind ``what``."""
        missing = set(names)
        for event in self.listen(doing):
            if event.what is what:
                missing.discard(event.worker)
                if not missing:
                    return

    def _heard(self, name: str) -> Iterator[Event]:
        """Yield the events of a worker that have arrived; don't wait for more."""
        pid, pipe = self.pid(name), self.members[name].pipe
        try:
            while pipe.poll():
                yield pipe.recv()
        except (EOFError, ConnectionResetError):
            if not any(e.what is What.KILLED and e.worker == name for e in self.events):
                raise StoryError(f"{name} (process {pid}) ended unexpectedly") from None
            pipe.close()

    def kill(self, name: str) -> Event:
        """Kill a worker with SIGKILL, and wait for its end; return the event.

        The time of the event is read before the signal is sent."""
        event = self.note(What.KILLED, name)
        self.members[name].process.kill()
        self.members[name].process.join()
        return event

    def stop(self, name: str) -> None:
        """Stop ("freeze") a worker with SIGSTOP, and wait until it has stopped."""
        self.note(What.STOPPED, name)
        os.kill(self.pid(name), signal.SIGSTOP)
        os.waitpid(self.pid(name), os.WUNTRACED)

    def resume(self, name: str) -> None:
        """Continue a frozen worker with SIGCONT."""
        self.note(What.CONTINUED, name)
        os.kill(self.pid(name), signal.SIGCONT)

    def __enter__(self) -> Self:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, worker.SIGNALS)
        return self

    def __exit__(self, failure: object, *more: object) -> None:
        """End all workers. Without a failure, idle workers first get time to exit normally."""
        for name in [] if failure else self.alive():
            self.send(name)
        for member in [] if failure else self.members.values():
            member.process.join(DISMISS_S)
        for member in self.members.values():
            member.process.kill()
        for member in self.members.values():
            member.process.join()
            member.pipe.close()
