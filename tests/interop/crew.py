"""Lock clients as separate processes, in any programming language.

A process receives each command as a line of JSON, and answers with a line. All times are seconds.
Times of the clock are CLOCK_MONOTONIC, so that they can be compared between processes. An answer
with ``error`` contains an error message.

| ``do`` | with | does | answers |
|---|---|---|---|
| (start) | | | ``ready``: the client |
| ``open`` | ``server``, ``url``, ``watchdog`` | connect, or connect again: other libraries to ``server``, holdfast to ``url``; holds without a lease are renewed with a lease of ``watchdog`` seconds | |
| ``acquire`` | ``name``, ``kind``, ``wait``, ``lease`` | once; a lease of 0 is renewed | ``held``, ``asked``, ``at``, ``fence`` |
| ``release`` | ``name`` | release what it acquired | ``at`` (before), ``released`` |
| ``steal`` | ``name``, ``kind`` | try to release the hold of another client | ``refused``: the words of the refusal, or empty |
| ``loop`` | see `Crew.contend` | acquire, check that no other worker is inside, release, pause; until the lock was handed over ``target`` times in each direction | ``turns``, ``trouble``, ``handed`` |

A process ends when its input is closed, whatever it does at that time.
"""  # noqa: E501 because a table's row is a line

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.testing.faults.pipe import readable
from holdfast.testing.faults.subject import _stopped
from tests.interop import witness
from tests.interop.foreign import command_of
from tests.interop.witness import Record
from tests.servers.process import until

#: Maximum seconds for a usual answer. On a busy machine a Java program needs them to start.
SOON_S = 60.0


class Place(NamedTuple):
    """The server's address for other libraries and for holdfast, and the renewed lease."""

    server: str
    url: str
    watchdog: float = 30.0


class Worker:
    """One process with one client. With ``source`` it imports holdfast from there."""

    def __init__(self, client: str, log: Path, source: Path | None = None) -> None:
        self.client = client
        self.place: Place | None = None
        self._log = log
        command = command_of(client)
        die_with_us = shutil.which("setpriv")
        if die_with_us:
            command = [die_with_us, "--pdeathsig", "KILL", *command]
        path = [str(source)] if source else []
        path += [place or os.getcwd() for place in sys.path]
        with open(log, "ab") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                bufsize=0,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
            )
        self._heard = b""
        self._ready = False
        #: True if it has a command that it hasn't answered yet.
        self.owes = False
        self.stopped = False

    def tell(self, do: str, **what: Any) -> None:
        """Send a command; `hear` reads its answer later."""
        if not self._ready:
            assert "ready" in self.hear()
            self._ready = True
        assert not self.owes, f"{self.client} has yet to answer something else"
        assert self._process.stdin is not None
        self.owes = True
        self._process.stdin.write(json.dumps({"do": do, **what}).encode() + b"\n")

    def hear(self, within: float = SOON_S) -> dict[str, Any]:
        """Return the next answer of the process."""
        assert self._process.stdout is not None
        pipe = self._process.stdout.fileno()
        end = time.monotonic() + within
        while b"\n" not in self._heard:
            assert readable(pipe, end - time.monotonic()), self._story("sent nothing")
            piece = os.read(pipe, 1 << 16)
            assert piece, self._story("has ended")
            self._heard += piece
        line, _, self._heard = self._heard.partition(b"\n")
        self.owes = False
        answer: dict[str, Any] = json.loads(line)
        assert "error" not in answer, self._story(answer.get("error", ""))
        return answer

    def ask(self, do: str, within: float = SOON_S, **what: Any) -> dict[str, Any]:
        """Send a command and return its answer."""
        self.tell(do, **what)
        return self.hear(within)

    def _story(self, what: str) -> str:
        return f"{self.client} {what}; at last it wrote:\n{self._log.read_text()[-2000:]}"

    def stop(self) -> None:
        """Stop all threads of the process (SIGSTOP)."""
        self.stopped = True
        self._process.send_signal(signal.SIGSTOP)
        until(lambda: _stopped(self._process.pid), f"{self.client} is stopped")

    def go_on(self) -> None:
        """Continue the process after `stop`."""
        self._process.send_signal(signal.SIGCONT)
        self.stopped = False

    def kill(self) -> None:
        """End the process by SIGKILL."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


def take(
    worker: Worker, name: str, kind: str = "lock", *, lease: float = 60.0, wait: float = 0.0
) -> bool:
    """Let a worker acquire; return whether it holds."""
    return bool(worker.ask("acquire", name=name, kind=kind, wait=wait, lease=lease)["held"])


def wait_for(
    worker: Worker, name: str, kind: str = "lock", *, wait: float, lease: float = 60.0
) -> None:
    """Let a worker begin to wait; `Worker.hear` returns how that ended."""
    worker.tell("acquire", name=name, kind=kind, wait=wait, lease=lease)


def give(worker: Worker, name: str) -> bool:
    """Let a worker release; return whether it still held."""
    return bool(worker.ask("release", name=name)["released"])


class Crew:
    """All worker processes of a run: each is started once and used by one test after the other.

    With a ``source`` this crew starts holdfast's workers from there, and takes all other workers
    from ``friends``.
    """

    def __init__(
        self, folder: Path, source: Path | None = None, friends: Crew | None = None
    ) -> None:
        self._folder = folder
        self._source = source
        self._friends = friends
        self._workers: dict[tuple[str, int], Worker] = {}
        self._started = 0

    def start(self, client: str, number: int = 0) -> Worker:
        """Return the client's process of this number, which may not be ready yet."""
        if self._friends is not None and not client.startswith("holdfast"):
            return self._friends.start(client, number)
        found = self._workers.get((client, number))
        if found is None:
            self._started += 1
            log = self._folder / f"{client}-{self._started}.log"
            found = Worker(client, log, self._source)
            self._workers[client, number] = found
        return found

    def get(self, client: str, place: Place, number: int = 0) -> Worker:
        """Return the client's process of this number, connected to this place."""
        return self.several([(client, number)], place)[0]

    def several(self, which: Iterable[tuple[str, int]], place: Place) -> list[Worker]:
        """Return several processes, which start and connect at the same time."""
        workers = [self.start(*one) for one in which]
        anew = [one for one in workers if one.place != place]
        for one in anew:
            one.tell("open", **place._asdict())
        for one in anew:
            one.hear()
            one.place = place
        return workers

    def kill(self, worker: Worker) -> None:
        """End a process by SIGKILL, and begin to start another one in its place."""
        if self._friends is not None and worker not in self._workers.values():
            self._friends.kill(worker)
            return
        worker.kill()
        (place,) = [key for key, one in self._workers.items() if one is worker]
        del self._workers[place]
        self.start(*place)

    def settle(self) -> None:
        """Kill workers that a test left stopped or without an answer, and start others."""
        for worker in [one for one in self._workers.values() if one.owes or one.stopped]:
            self.kill(worker)

    def contend(
        self, sides: dict[str, list[Worker]], name: str, *, seconds: float, **what: Any
    ) -> Record:
        """Make the workers of both sides take turns on a name; return the record of the turns.

        ``what``: ``kind``, ``target``, ``wait``, ``lease``; and ``inside`` and ``pause`` for each
        side: the least and the most seconds; each worker draws from that range at random.
        """
        inside, pause = what.pop("inside"), what.pop("pause")
        told = [
            (side, f"{worker.client}-{number}", worker)
            for side, workers in sides.items()
            for number, worker in enumerate(workers)
        ]
        for side, who, worker in told:
            worker.tell(
                "loop",
                name=name,
                who=who,
                side=side,
                seconds=seconds,
                inside=inside[side],
                pause=pause[side],
                enter=witness.ENTER,
                leave=witness.LEAVE,
                keys=witness.keys(name),
                **what,
            )
        within = seconds + what["wait"] + SOON_S
        return Record.of((side, who, worker.hear(within)) for side, who, worker in told)

    def close(self) -> None:
        """End all worker processes."""
        for worker in self._workers.values():
            worker.kill()
