"""``holdfast queue work``: a command for each job of a queue.

Two processes watch each other, as with ``holdfast run``::

    shell ── worker ── supervisor ─┬─ command     The worker takes, renews and settles jobs, with a
                                   └─ command     thread for each job. The supervisor starts the
                                                  commands. It ends a command before another worker
                                                  can get the job.

* If the worker is killed or stopped, the supervisor ends the commands in time.
* If the supervisor is killed, the kernel kills the commands, and the worker ends.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import gc
import json
import os
import signal
import socket
import threading
import time
from base64 import b64encode
from typing import Any

from ...core.queue.ports import barred_of, queues_of
from ...errors import HoldfastError, StoreUnavailable
from ...runtime.blocking import boottime
from ...sync import Client
from ...sync.queue import Delivery, Queue, Worker
from .. import codes, origin
from ..child import reap, signal_group
from ..text import count, say, visible
from .nursery import AGAIN_S, nurse

#: Seconds between two checks of a delivery by the thread of its job.
LOOK_S = 0.2
#: The thread of a job sends the supervisor a new deadline every ``ttl / TOLD_PART`` seconds.
TOLD_PART = 12
#: The options of the command line that are settings of the queue.
PACE = (
    "min_interval", "interval_from", "rate", "ttl", "max_attempts", "retry_delay",
    "retry_delay_max", "on_dead",
)  # fmt: skip


def work(options: argparse.Namespace) -> int:
    """Work until stopped, or with ``--drain`` until no job is due; return the exit status."""
    commands = Commands(options)
    default = visible(os.path.basename(options.argv[0])) if options.argv else "sh"
    try:
        with Client(options.url, label=options.label or default or "work") as client:
            origin.tell(options, client.url)
            given = {name: getattr(options, name) for name in PACE}
            known = {name: value for name, value in given.items() if value is not None}
            queue = client.queue(options.name, **known)
            try:
                return Working(queue, options, commands).serve()
            finally:
                commands.end()  # before the client releases the jobs of the commands
    finally:
        commands.end()


class Run:
    """The state of one command, as the worker knows it."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.pid = 0
        #: The exit status as a shell reports it; None until it is known.
        self.status: int | None = None
        #: The errno if the command couldn't be executed, else 0.
        self.failure = 0
        #: True if processes of the command still run after its end.
        self.left = False


class Commands:
    """The worker's connection to the supervisor. A thread reads it."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.line, far = socket.socketpair()
        self.nursery = os.fork()  # while there is no other thread
        if self.nursery == 0:
            self.line.close()
            nurse(far, options)
        far.close()
        self.runs: dict[int, Run] = {}
        self.numbers = 0
        self.gone = self.ended = False
        self.book = threading.Lock()
        self.talking = threading.Lock()
        self.listener = threading.Thread(target=self._listen, name="holdfast-nursery", daemon=True)

    def listen(self) -> None:
        """Start the thread that reads the supervisor's messages."""
        self.listener.start()

    def end(self) -> None:
        """End the supervisor, which ends the commands that run."""
        if not self.ended:
            self.ended = True
            with contextlib.suppress(OSError):  # the supervisor has ended already
                self.line.shutdown(socket.SHUT_RDWR)
            reap(self.nursery)
            if self.listener.ident:
                self.listener.join()
            self.line.close()

    def start(self, job: Delivery, ttl: float) -> tuple[int, Run]:
        """Start the command for this job; return its number and its `Run`."""
        run = Run()
        with self.book:
            self.numbers += 1
            number = self.numbers
            self.runs[number] = run
            if self.gone:
                run.over.set()
        packed = b64encode(_bytes(job)).decode()
        self.say(number, "start", env=_env(job), payload=packed, ttl=ttl, deadline=_deadline(job))
        return number, run

    def say(self, number: int, do: str, **more: Any) -> None:
        """Send the supervisor an order."""
        order = json.dumps({"number": number, "do": do, **more}).encode() + b"\n"
        try:
            with self.talking:
                self.line.sendall(order)
        except OSError:
            return  # the supervisor has ended; the listener notices that

    def _listen(self) -> None:
        heard = b""
        while data := self._read():
            *words, heard = (heard + data).split(b"\n")
            for word in words:
                self._hear(**json.loads(word))
        with self.book:
            self.gone = True
            left = list(self.runs.values())
        for run in left:
            if run.pid:
                signal_group(run.pid, signal.SIGKILL)
            run.over.set()

    def _read(self) -> bytes:
        try:
            return self.line.recv(1 << 16)
        except OSError:
            return b""

    def _hear(self, number: int, what: str, **more: Any) -> None:
        run = self.runs[number]
        for name, value in more.items():
            setattr(run, name, value)
        if what == "over":
            with self.book:
                del self.runs[number]
            run.over.set()


class Working:
    """A worker whose handler is a command."""

    def __init__(self, queue: Queue, options: argparse.Namespace, commands: Commands) -> None:
        self.queue = queue
        self.options = options
        self.commands = commands
        self.worker: Worker = queue.worker(
            self._handle, concurrency=options.concurrency, drain=options.drain
        )
        self.worker._silence.tell = _tell_silence
        #: The signals that have arrived. After the first one the worker takes no more jobs; after
        #: the second one it releases the running jobs.
        self.signals: list[int] = []
        self.code = 0
        #: Protects the counts, which all threads increase.
        self.counting = threading.Lock()
        self.done = self.failed = 0

    def serve(self) -> int:
        """Run the worker until all its threads have ended; return the exit status."""
        for name in ("INT", "TERM", "HUP", "QUIT"):
            number = getattr(signal, "SIG" + name)
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._signalled)
        # A stopped worker renews no lease, so it would lose all its deliveries.
        signal.signal(signal.SIGTSTP, signal.SIG_IGN)
        gc.enable()  # the worker can run for days
        self.commands.listen()
        self.worker.run()
        if not self.options.quiet:
            failed = f", {self.failed} failed" if self.failed else ""
            say(f"{self.queue.name!r}: {count(self.done, 'job')} done{failed}{self._left()}")
        if self.code:
            return self.code
        return codes.SIGNALLED + self.signals[1] if len(self.signals) > 1 else 0

    def _left(self) -> str:
        """Return a text about the jobs that a drain leaves, because they are not due yet.

        If the store grants nothing now (for example during recovery), the text gives the reason.
        """
        if not self.options.drain or self.signals or self.code:
            return ""
        try:
            left = self.queue.stats().waiting
        except HoldfastError:
            return ""
        if not left:
            return ""
        why = barred_of(queues_of(self.queue._ctx.store))
        later = f", {count(left, 'job')} wait{'s' * (left == 1)} until later"
        return f"{later}; {why}" if why else later

    def _signalled(self, number: int, frame: object) -> None:
        self.signals.append(number)
        self.worker.stop()

    # -- one job -----------------------------------------------------------------------------

    def _handle(self, job: Delivery) -> None:
        """Run the command for one job, and settle the job by the result."""
        if self.code:
            job.release()  # commands can't be executed, or the supervisor has ended
            return
        ttl = job._lease.ttl
        number, run = self.commands.start(job, ttl)
        told, stopped = boottime(), False
        while not run.over.wait(LOOK_S):
            if job.lost is not None or len(self.signals) > 1:
                if not stopped:
                    grace = AGAIN_S if job.lost is not None else self.options.kill_after
                    self.commands.say(number, "stop", grace=min(grace, self.options.kill_after))
                stopped = True
            elif boottime() >= told + ttl / TOLD_PART:
                told = boottime()
                self.commands.say(number, "until", deadline=_deadline(job))
        self._settle(job, run)

    def _settle(self, job: Delivery, run: Run) -> None:
        if run.failure:
            self._not_executed(job, run.failure)
        elif run.status is None:
            self.code = codes.LOST
            self.worker.stop()
            say("the process that starts the commands was killed: no more jobs are taken")
            self._insist(job, "retry", None, "the supervisor and the command were killed")
        elif run.status == 0:
            if self._insist(job, "ack"):
                with self.counting:
                    self.done += 1
        elif len(self.signals) > 1 and run.status != self.options.dead:
            self._insist(job, "release")
        else:
            self._failed(job, run.status)
        if run.left and not self.options.quiet:
            say(f"the command for {_what(job)} left processes in the background; they continue")

    def _failed(self, job: Delivery, status: int) -> None:
        with self.counting:
            self.failed += 1
        why = f"exit status {status}"
        if status > codes.SIGNALLED:
            why = f"ended by signal {status - codes.SIGNALLED}"
        last = job.attempt >= job._lease.take.patience.attempts
        if status == self.options.dead:
            kept, then = self._insist(job, "dead_letter", why), "it is a dead letter"
        else:
            kept = self._insist(job, "retry", None, why)
            then = "it is a dead letter" if last else "it is retried"
        if kept and not self.options.quiet:
            say(f"{_what(job)} failed in attempt {job.attempt} ({why}); {then}")

    def _not_executed(self, job: Delivery, failure: int) -> None:
        """Release the job, so that the attempt doesn't count: the command can't be executed."""
        self._insist(job, "release")
        if not self.code:
            missing = failure in (errno.ENOENT, errno.ENOTDIR)
            self.code = codes.NOT_FOUND if missing else codes.NOT_EXECUTABLE
            command = self.options.argv[0] if self.options.argv else "$SHELL"
            say(f"cannot run {command!r} for {_what(job)}: {os.strerror(failure)}")
        self.worker.stop()

    def _insist(self, job: Delivery, how: str, *args: Any) -> bool:
        """Settle the job; repeat until that succeeds or the delivery is lost; True if settled."""
        kept: bool | None = None
        while kept is None:
            try:
                kept = getattr(job, how)(*args)
            except StoreUnavailable:
                time.sleep(LOOK_S)
        if not kept:
            say(f"{_what(job)} was lost ({job.lost}): it is delivered again")
        return bool(kept)


def _tell_silence(failure: StoreUnavailable | None) -> None:
    """Print the failure, or for None that the store answers again; also with ``--quiet``.

    Until the store answers, the worker does nothing."""
    say("the store answers again" if failure is None else f"{failure}; waiting")


def _what(job: Delivery) -> str:
    return f"job {job.id!r}" + (f" of {job.group!r}" if job.group else "")


def _deadline(job: Delivery) -> float:
    return boottime() + job.remaining()


def _bytes(job: Delivery) -> bytes:
    """Return the payload without its first byte, which marks the type."""
    return job._lease.job.payload[1:]


def _env(job: Delivery) -> dict[str, str | None]:
    """Return the environment variables of the command; a value None removes the variable."""
    return {
        "HOLDFAST_QUEUE": _safe(job.queue),
        "HOLDFAST_GROUP": None if job.group is None else _safe(job.group),
        "HOLDFAST_JOB_ID": _safe(job.id),
        "HOLDFAST_ATTEMPT": str(job.attempt),
        "HOLDFAST_FENCE": str(job.fence),
        "HOLDFAST_OWNER": _safe(job._lease.take.owner),
    }


def _safe(text: str) -> str:
    return text.replace("\0", "\\0")  # a variable can't contain this character
