"""The file mutex: one kernel lock that every verb takes, one process at a time.

At most one thread of one process is inside, so SQLite never meets contention. The lock is flock,
which belongs to the open file. A POSIX record lock belongs to the process, and would be dropped
when *any* descriptor of the file is closed. The kernel frees the flock when its owner dies, even by
``kill -9``.

Entry has three steps, each limited by the time that the caller has: the threads of this client
queue at a mutex; the first of them tries the kernel lock a few times; then a porter thread waits
for it in the kernel's queue. The porter has a separate open file. With a shared one, a porter that
gets the lock after its caller gave up could unlock the lock of the next caller.

A caller runs ``enter`` *inside* a ``try`` and the steps of ``exit`` in its ``finally``. ``enter``
and these steps are safe, even if they run several times, and wherever an interrupt comes (see
`Way._locked`).
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from fcntl import LOCK_EX, LOCK_NB, LOCK_UN, flock
from itertools import chain, repeat
from queue import Empty, SimpleQueue

from ....errors import StoreUnavailable
from ....runtime.blocking import boottime
from ....runtime.greenlets import greenlets
from ....runtime.starting.blocking import DaemonThread
from .header import PID, SIZE, Header
from .owned import open_file
from .paths import Place, unusable

_TRY = LOCK_EX | LOCK_NB
#: Seconds in which a caller only yields the CPU between two tries. A verb lasts 10 to 200 us, so
#: most waits end in this time.
_YIELD_S = 0.0003
#: Seconds of sleep before each of the next tries; after these tries the porter takes over.
_NAPS_S = (0.0001,) * 8 + (0.0003,) * 6
#: Seconds between two tries if there is no porter, for example with greenlets.
_NAP_S = 0.001


class Replaced(Exception):
    """The file mutex's path leads to another file than the one that we have open."""


class Damaged(Replaced):
    """A file contains impossible values: its generation ends, and a new one begins."""


class Gate:
    """The kernel lock of one store, as one client sees it."""

    _porter: Porter | None = None
    #: Our descriptor, and the one that has the lock while we are inside: ours or the porter's.
    fd = held = -1
    _pid = 0

    def __init__(self, place: Place) -> None:
        self.place = place
        self.path = place.gate
        self._pid = os.getpid()
        self.fd = self.held = _open(place)
        info = os.fstat(self.fd)
        self.file = (info.st_dev, info.st_ino)

    def enter(self, within: float) -> None:
        """Take the kernel lock within ``within`` seconds, or raise StoreUnavailable."""
        try:
            flock(self.fd, _TRY)
        except BlockingIOError:
            self.queue(within)

    def queue(self, within: float) -> None:
        """Wait for the kernel lock, which another client holds."""
        begun = boottime()
        end = begun + within
        naps: Iterator[float] = iter(_NAPS_S)
        if greenlets():  # to wait for a porter would block them all, and the caller's time-out
            naps = chain(naps, repeat(_NAP_S))
        while True:
            now = boottime()
            over = now >= max(end, begun + _YIELD_S)
            if now - begun < _YIELD_S:
                os.sched_yield()
            elif not over:
                if (nap := next(naps, None)) is None:
                    if self._has_porter():
                        break
                    naps = repeat(_NAP_S)
                    continue
                time.sleep(nap)
            try:
                flock(self.fd, _TRY)
            except BlockingIOError:
                # The caller gives up only after a last try: this process may have been stopped.
                if over:
                    raise StoreUnavailable(self.stuck(within)) from None
                continue
            return
        if self._porter is None or not self._porter.fetch(self, end - boottime()):
            raise StoreUnavailable(self.stuck(within))

    def _has_porter(self) -> bool:
        """Is there a porter, or can one start? CPython 3.12 starts none while the interpreter
        ends."""
        if self._porter is None:
            with contextlib.suppress(RuntimeError):
                self._porter = Porter(self)
        return self._porter is not None

    def exit(self) -> None:
        """Release the kernel lock, whichever descriptor holds it."""
        held, self.held = self.held, self.fd
        if held >= 0:
            flock(held, LOCK_UN)

    def moved(self) -> bool:
        """Does the path lead to another file now? Then our lock excludes no other client."""
        try:
            info = os.stat(self.path)
        except OSError:
            return True
        return info.st_ino != self.file[1] or info.st_dev != self.file[0]

    def map(self) -> Header:
        """Map the header; called inside the file mutex."""
        try:
            return Header(self.fd, self.path)
        except StoreUnavailable:
            raise
        except OSError as wrong:
            raise unusable(self.path, wrong) from None

    def stuck(self, within: float) -> str:
        """A message about the process that holds the file mutex."""
        text = f"the file mutex {self.path} of the store was not free within {within:.3g} s"
        pid = 0
        with contextlib.suppress(OSError):
            page = memoryview(os.pread(self.fd, SIZE, 0))
            pid = page.cast("Q")[PID] if len(page) == SIZE else 0
        if not pid:
            return text + "; it seems busy: try again, or find its users with fuser"
        return text + f": {describe(pid)}"

    def close(self) -> None:
        """Unlock and close the file. A close alone would leave it locked by a forked child's copy
        of the descriptor."""
        porter, self._porter = self._porter, None
        if porter is not None:
            porter.dismiss()
        fd, self.fd, self.held = self.fd, -1, -1
        if fd >= 0:
            if self._pid == os.getpid():  # In a child it would unlock the parent's.
                flock(fd, LOCK_UN)
            os.close(fd)

    def __del__(self) -> None:
        self.close()

    def forked(self) -> None:
        """In the child: close our copies, so that they don't keep the file mutex locked if the
        parent dies inside the mutex. Closing a copy doesn't unlock; only LOCK_UN would."""
        porter, self._porter = self._porter, None
        fds = [self.fd, porter.fd if porter else -1]
        self.fd = self.held = -1
        for fd in fds:
            with contextlib.suppress(OSError):
                if fd >= 0:
                    os.close(fd)


class Porter:
    """A daemon thread that waits in the kernel's queue for a caller with a time limit.

    It has at most one caller at a time (the client's mutex ensures that). A request carries one
    token, and the thread that takes the token decides. A porter that has got the lock takes the
    token to hand the lock over; a caller that gives up takes it to withdraw. This is one atomic
    step of the interpreter. So there is no mutex that an interrupt could leave locked, and always
    exactly one of the two threads is responsible for the lock.
    """

    def __init__(self, gate: Gate) -> None:
        self.fd = _open(gate.place)
        info = os.fstat(self.fd)
        if (info.st_dev, info.st_ino) != gate.file:
            os.close(self.fd)
            raise Replaced
        self.requests: SimpleQueue[Request | None] = SimpleQueue()
        self.thread = DaemonThread(target=self._main, name="holdfast-gate")
        try:
            self.thread.start()
        except BaseException:
            if self.thread.give_up():
                os.close(self.fd)
            else:  # it has begun, but no request will come
                self.dismiss()
            raise

    def fetch(self, gate: Gate, seconds: float) -> bool:
        """Wait for the lock; True: the descriptor ``gate.held`` has the lock."""
        request = Request()
        try:
            self.requests.put(request)
            request.ready.acquire(True, max(0.0, seconds))
        finally:
            try:
                request.token.pop()
                mine = False
            except IndexError:
                gate.held = self.fd
                mine = True
        return mine

    def dismiss(self) -> None:
        """End the thread as soon as it isn't in the kernel's queue."""
        self.requests.put(None)

    def _main(self) -> None:
        request = self.requests.get()
        while request is not None:
            flock(self.fd, LOCK_EX)
            # The caller may have given up, and its client may have queued another request.
            while request is not None and not request.deliver():
                try:
                    request = self.requests.get_nowait()
                except Empty:
                    flock(self.fd, LOCK_UN)
                    break
            if request is not None:
                request = self.requests.get()
        flock(self.fd, LOCK_UN)
        os.close(self.fd)


class Request:
    """A caller's request for the lock: the token, and the lock that wakes the caller."""

    __slots__ = ("ready", "token")

    def __init__(self) -> None:
        self.token = [True]
        self.ready = threading.Lock()
        self.ready.acquire()

    def deliver(self) -> bool:
        """Hand the lock over; False if the caller has given up."""
        try:
            self.token.pop()
        except IndexError:
            return False
        self.ready.release()
        return True


def _open(place: Place) -> int:
    """Open the file mutex's file, making it with the right mode if it isn't there."""
    return open_file(place.gate, place)[0]


def describe(pid: int) -> str:
    """A message about a process, with the remedy, as far as /proc shows it."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            state = file.read().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return (
            f"process {pid} was the last to enter and no longer runs here (or is in another "
            "container); a child of it may keep the file open: find it with fuser"
        )
    command = command_of(pid) or "no command line"
    if state in "Tt":
        return f"process {pid} ({command}) holds it and is stopped: kill -CONT {pid}, or end it"
    return f"process {pid} ({command}) holds it, in state {state}: see what blocks that process"


def command_of(pid: int) -> str:
    """The command line of a process, or its beginning; empty if /proc doesn't show it."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as raw:
            words = raw.read(200).replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return ""
    return "".join(c if c.isprintable() else "?" for c in words)
