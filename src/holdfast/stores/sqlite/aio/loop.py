"""The engine under asyncio: one worker thread does blocking work, in the order of the requests.

The loop itself only listens: to the socket at which wake-ups arrive, and to the FIFOs of the
sessions that it watches. A request is queued in the first step of its coroutine, before the
coroutine suspends. So a release or a withdrawal is carried out once it has begun, even if its task
never runs again. Nor can it overtake the request that it undoes. A request that acquires, renews or
reads is skipped if its caller has stopped waiting before the worker gets to it. Otherwise an
overloaded store would do useless work, and releases would wait behind that work.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import math
import threading
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Generic, Protocol, TypeVar

from ....core.model import Granted
from ....errors import StoreUnavailable
from ....runtime.aio import another_loop
from ....runtime.blocking import boottime, clock_patched, inside
from ....runtime.starting.blocking import DaemonThread
from ....runtime.timers.aio import later
from ..blocking.session import ENDED, NONE, Alarm
from ..blocking.wake import LoopBox

T = TypeVar("T")
Answer = asyncio.Future[Any]
#: Minimum time limit, in seconds, for a request that the worker begins late, because it may be a
#: release.
LATE_S = 0.25
#: The verbs that are skipped if their caller no longer waits for the reply.
TAKES = {"join", "join_free", "turn", "take", "begin"}
RENEWS = {"renew", "change", "extend", "prolong"}
LOOKS = {"inspect", "jobs", "letters", "look", "peek", "read", "survey"}
LEFT_OUT = frozenset(TAKES | RENEWS | LOOKS)
#: Maximum seconds for the workers to finish their requests when the interpreter ends.
EXIT_S = 5.0
CLOSE_S = 2.0


class Ways(Protocol):
    """The attributes that all engines have."""

    label: str

    def close(self, within: float) -> None:
        """End the session, and close the files."""
        ...

    def forked(self) -> None:
        """Forget the parent's state, in the child of a fork."""
        ...


E = TypeVar("E", bound=Ways)


@dataclass(slots=True)
class Job:
    """One request on its way to the worker."""

    work: Callable[..., Any]
    args: tuple[Any, ...]
    due: float
    loop: asyncio.AbstractEventLoop
    answer: Answer

    @inside
    def run(self) -> None:
        """Do the work, and pass its outcome to the loop, unless the loop is closed."""
        if self.answer.done() and getattr(self.work, "__name__", "") in LEFT_OUT:
            return
        result: Any = None
        wrong: BaseException | None = None
        try:
            result = self.work(*self.args, max(LATE_S, self.due - boottime()))
        except BaseException as raised:
            wrong = raised
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(_settle, self.answer, result, wrong)


def _settle(answer: Answer, result: Any, wrong: BaseException | None) -> None:
    if answer.done():
        return
    if wrong is not None:
        answer.set_exception(wrong)
    else:
        answer.set_result(result)


#: Running workers, and their queues.
_working: dict[threading.Thread, SimpleQueue[Job | None]] = {}


def _work(jobs: SimpleQueue[Job | None]) -> None:
    """Run jobs until None comes. It refers to no client, so that an unused client is collected."""
    try:
        while (job := jobs.get()) is not None:
            job.run()
            del job
    finally:
        _working.pop(threading.current_thread(), None)


def _finish() -> None:
    """Finish the queued requests when the interpreter ends."""
    end = boottime() + EXIT_S
    for thread, jobs in list(_working.items()):
        jobs.put(None)
        thread.join(max(0.0, end - boottime()))


class Worker:
    """A thread that is started with the first job.

    It is a daemon thread, because an idle one must not keep the interpreter from ending. Requests
    that are queued at that time are finished in an exit handler, which runs before threads stop.
    """

    def __init__(self) -> None:
        self.jobs: SimpleQueue[Job | None] = SimpleQueue()
        self.thread: threading.Thread | None = None
        weakref.finalize(self, self.jobs.put, None).atexit = False

    def put(self, job: Job) -> None:
        """Queue a job; never blocks."""
        self.jobs.put(job)
        if self.thread is None:
            self._begin()

    def _begin(self) -> None:
        thread = DaemonThread(target=_work, args=(self.jobs,), name="holdfast-sqlite")
        _working[thread] = self.jobs
        atexit.unregister(_finish)
        atexit.register(_finish)
        try:
            thread.start()
            self.thread = thread
        except BaseException as wrong:
            if not thread.give_up():  # a second thread would change the order of the jobs
                self.thread = thread
                raise
            _working.pop(thread, None)  # the next job starts a thread, which also runs this job
            if not isinstance(wrong, RuntimeError):
                raise
            raise StoreUnavailable(
                f"the embedded store can't start its worker thread: {wrong}; end some threads "
                "of this process, or raise its limit (ulimit -u)"
            ) from None

    def end(self) -> None:
        """End the thread after the jobs that are queued."""
        self.jobs.put(None)


class Loop(Generic[E]):
    """One engine under one event loop: its requests, and the wake-ups that arrive for it."""

    _loop: asyncio.AbstractEventLoop | None

    def __init__(self, make: Callable[[LoopBox], E]) -> None:
        self.mail = LoopBox()
        self.engine = make(self.mail)
        self._worker = Worker()
        self._loop = None
        self._start()

    def _start(self) -> None:
        #: The futures of the waiters, by the name that their wake-ups carry.
        self._sleepers: dict[str, Answer] = {}
        #: By watched session: the descriptor, and the futures that the session's end wakes.
        self._alarms: dict[str, tuple[Alarm, set[Answer]]] = {}
        self._reading = -1
        self._closed = False
        #: For each request without an answer: its deadline, and its time limit in seconds.
        self._due: dict[Answer, tuple[float, float]] = {}
        #: The time at which the common timer of these requests fires.
        self._looks_at = math.inf
        self._timer: asyncio.Handle | None = None

    def _here(self) -> asyncio.AbstractEventLoop:
        """Return the running loop; raise if it isn't the loop of this client."""
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            raise another_loop()
        return loop

    async def call(self, work: Callable[..., T], *args: Any) -> T:
        """Queue the work at once, then await it; its last argument is the time limit."""
        loop = self._here()
        if self._closed:
            raise StoreUnavailable(f"this client of {self.engine.label} is closed")
        within: float = args[-1]
        answer: Answer = loop.create_future()
        due = boottime() + within
        self._worker.put(Job(work, args[:-1], due, loop, answer))
        self._due[answer] = due, within
        try:
            if due < self._looks_at or clock_patched():
                self._look_later(loop, min(due, self._looks_at))
            result: T = await answer
        finally:
            self._due.pop(answer, None)
        return result

    def _look_later(self, loop: asyncio.AbstractEventLoop, at: float) -> None:
        """Set the common timer. A timer for each request would cost more, and nearly all requests
        are answered in time."""
        if self._timer is not None:
            self._timer.cancel()
        self._looks_at = at
        self._timer = later(loop, at - boottime(), _look, weakref.ref(self))

    def end_overdue(self) -> None:
        """Fail the requests that have no answer in time, and set the timer for the others."""
        now = boottime()
        self._looks_at, self._timer = math.inf, None
        for answer, (due, within) in list(self._due.items()):
            if due <= now:
                _overdue(answer, self.engine.label, within)
                del self._due[answer]
        if self._due and self._loop is not None and not self._closed:
            self._look_later(self._loop, min(due for due, _ in self._due.values()))

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        """Listen at the current socket of this client."""
        fd = self.mail.fd
        if fd != self._reading:
            if self._reading >= 0:
                loop.remove_reader(self._reading)
            self._reading = fd
            loop.add_reader(fd, self._poked)
            self._poked()

    def _poked(self) -> None:
        for claim_id, fence in self.mail.read():
            answer = self._sleepers.get(claim_id)
            if answer is not None:
                _settle(answer, Granted(fence), None)
            else:
                self.mail.keep(claim_id, fence)

    async def _sleep(
        self, name: str, seconds: float, sessions: Iterable[str] = ()
    ) -> Granted | None:
        """Sleep until woken by this name, until one of the sessions has ended, or until ``seconds``
        have passed."""
        loop = self._here()
        self._read(loop)
        early = self.mail.early(name)
        if early is not None:
            return Granted(early)
        answer: Answer = loop.create_future()
        self._sleepers[name] = answer
        timer = later(loop, max(0.0, seconds), _settle, answer, None, None)
        try:
            for session in sessions:
                self._watch(loop, session, answer)
            granted: Granted | None = await answer
            return granted
        finally:
            timer.cancel()
            self._sleepers.pop(name, None)
            for session in sessions:
                self._unwatch(loop, session, answer)

    # -- watching sessions -----------------------------------------------------------------

    def _alarm(self, session: str) -> Alarm:
        """A descriptor that hangs up when a session ends; see ``session.Others.alarm``."""
        return NONE

    def _watch(self, loop: asyncio.AbstractEventLoop, session: str, answer: Answer) -> None:
        known = self._alarms.get(session)
        if known is not None:
            known[1].add(answer)
            return
        alarm = self._alarm(session)
        if alarm is ENDED:
            _settle(answer, None, None)
        if alarm.fd < 0:
            return
        try:
            loop.add_reader(alarm.fd, self._alarmed, loop, session)
        except OSError:
            return
        self._alarms[session] = (alarm, {answer})

    def _alarmed(self, loop: asyncio.AbstractEventLoop, session: str) -> None:
        alarm, answers = self._alarms.pop(session)
        loop.remove_reader(alarm.fd)
        for answer in answers:
            _settle(answer, None, None)

    def _unwatch(self, loop: asyncio.AbstractEventLoop, session: str, answer: Answer) -> None:
        known = self._alarms.get(session)
        if known is None:
            return
        known[1].discard(answer)
        if not known[1]:
            del self._alarms[session]
            loop.remove_reader(known[0].fd)

    # -- the end ---------------------------------------------------------------------------

    async def close(self) -> None:
        """Close the engine and the sockets, after all earlier requests."""
        loop = self._here()
        if self._closed:
            return
        try:
            await self.call(self.engine.close, CLOSE_S)
        finally:
            self._closed = True
            self._worker.end()
            if self._reading >= 0:
                loop.remove_reader(self._reading)
                self._reading = -1
            if self._timer is not None:
                self._timer.cancel()
            self.mail.shut()

    def abandon(self) -> None:
        """Close without the loop, which has ended: the worker ends the session."""
        loop = self._loop
        if self._closed or loop is None:
            return
        self._closed = True
        due = boottime() + CLOSE_S
        self._worker.put(Job(self.engine.close, (), due, loop, asyncio.Future(loop=loop)))
        self._worker.end()
        self._alarms.clear()
        self._due.clear()
        self._reading = -1
        self.mail.shut()

    def forked(self) -> None:
        """Start again in the child of a fork.

        The worker doesn't exist in the child, and the loop and the watched sessions are the
        parent's.
        """
        self.engine.forked()
        _working.clear()
        self._worker = Worker()
        self._loop = None
        self._start()


def _look(loop: weakref.ref[Loop[Any]]) -> None:
    """Called by the timer. Its weak reference doesn't keep an unused client alive."""
    found = loop()
    if found is not None:
        found.end_overdue()


def _overdue(answer: Answer, label: str, within: float) -> None:
    _settle(
        answer,
        None,
        StoreUnavailable(
            f"{label} did not answer within {within:.3g} s: its worker is still busy with this "
            "or an earlier request"
        ),
    )
