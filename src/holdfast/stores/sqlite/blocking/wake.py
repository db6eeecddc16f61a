"""Wake-ups: one datagram to the claim that has just become a holder.

A waiter carries an address, the name of a Unix datagram socket in ``sessions/``. A client that
releases a claim sends a wake-up to the address of each new holder. A wake-up may be lost (the
socket is closed, or its queue is full): then the waiter learns of its grant when it next asks. So
no waiter depends on wake-ups.

Each thread takes a socket from a pool for the time of one wait, so that a wake-up wakes exactly one
thread. An uncontended join makes no socket.
"""

from __future__ import annotations

import atexit
import errno
import os
import select
import socket
import struct
from collections.abc import Callable, Iterable
from functools import cache
from weakref import finalize

from ....core.model import Granted
from ....runtime.blocking import boottime
from ....runtime.opening.blocking import datagrams
from .folder import Folder, folder, is_address
from .owned import O_PATH, admit
from .paths import Place
from .session import ENDED, NONE, Alarm

_VERSION = 1
_FENCE = struct.Struct("<BQ")
#: The longest path that fits a socket address, less the terminating zero.
PATH_MAX = 107
_BIG = 256


def pack(claim_id: str, fence: int) -> bytes:
    """Return the datagram that means: this claim is a holder now."""
    return _FENCE.pack(_VERSION, fence) + claim_id.encode()


def unpack(data: bytes) -> tuple[str, int]:
    """Return claim id and fence of a datagram; an empty id if `pack` didn't make it."""
    if len(data) <= _FENCE.size or data[0] != _VERSION:
        return "", 0
    return data[_FENCE.size :].decode("utf-8", "replace"), _FENCE.unpack_from(data)[1]


class Post:
    """Sends wake-ups, and makes the sockets at which wake-ups arrive."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._there = folder(place)
        # A socket address has room for 107 bytes only. So longer paths go through a descriptor, and
        # so do paths that another user could redirect.
        long = len(os.fsencode(place.sessions)) + 32 > PATH_MAX
        self._wary = place.shared and O_PATH > 0
        self.folder = f"/proc/self/fd/{self._there.fd}" if long or self._wary else place.sessions
        self._sender = _sender()
        self._count = 0

    def send(self, address: str, claim_id: str, fence: int) -> bool:
        """Send a wake-up; return False if it is certain that no client listens at the address."""
        if not is_address(address):
            return True
        try:
            if self._wary:
                self._send_unfollowed(pack(claim_id, fence), address)
            else:
                self._sender.sendto(pack(claim_id, fence), f"{self.folder}/{address}")
        except OSError as wrong:
            return wrong.errno not in (errno.ECONNREFUSED, errno.ENOENT)
        return True

    def _send_unfollowed(self, data: bytes, address: str) -> None:
        """Send a datagram to the socket of this name; never follow a link."""
        fd = self._there.open(address, O_PATH)
        try:
            self._sender.sendto(data, f"/proc/self/fd/{fd}")
        finally:
            os.close(fd)

    def open_box(self, session: str) -> Mailbox | None:
        """Make a socket of this session; None if that fails: then the waiter must poll."""
        self._count += 1
        address = f"{session}.{self._count}"
        try:
            box = _datagram()
            try:
                # Linux gives the file the mode of the socket, so the file is never open to other
                # users.
                os.fchmod(box.fileno(), self.place.file_mode)
                box.bind(f"{self.folder}/{address}")
                admit(self._there.fd, address, self.place.file_mode)
            except BaseException:
                box.close()
                raise
        except OSError:
            return None
        return Mailbox(box, address, self._there)


@cache
def _sender() -> socket.socket:
    """The socket from which the whole process sends: it has no name and receives nothing."""
    made = _datagram()
    atexit.register(made.close)
    return made


def nothing(session: str) -> Alarm:
    """The alarm of a waiter that watches no session."""
    return NONE


def _datagram() -> socket.socket:
    made = datagrams()
    made.setblocking(False)
    return made


class Mailbox:
    """A bound socket that receives wake-ups."""

    def __init__(self, box: socket.socket, address: str, there: Folder) -> None:
        self.socket = box
        self.fd = box.fileno()
        self.address = address
        self._there = there
        # Without `__del__`: if mailbox and socket are garbage, Python can finalize the socket
        # first, and warn.
        finalize(self, box.close).atexit = False

    def read_one(self) -> tuple[str, int]:
        """The first (claim id, fence) that has arrived, or an empty id."""
        try:
            return unpack(self.socket.recv(_BIG))
        except OSError:
            return "", 0

    def read(self) -> list[tuple[str, int]]:
        """All wake-ups that have arrived."""
        found = []
        while (one := self.read_one())[0]:
            found.append(one)
        return found

    def close(self) -> None:
        """Close the socket and remove its file."""
        self.fd = -1
        self.socket.close()
        self._there.unlink(self.address)


class Boxes:
    """The sockets of one client with threads: each serves one waiter at a time."""

    def __init__(self) -> None:
        self._idle: list[Mailbox] = []
        self._used: dict[str, Mailbox] = {}

    def address(self, claim_id: str, post: Post, session: str) -> str | None:
        """Return the address for this claim, the same at each call; called inside the file
        mutex."""
        box = self._used.get(claim_id)
        if box is None:
            box = self._check_out(post, session)
            if box is None:
                return None
            self._used[claim_id] = box
        return box.address

    def _check_out(self, post: Post, session: str) -> Mailbox | None:
        while self._idle:
            box = self._idle.pop()
            if box.address.startswith(session):
                box.read()
                return box
            box.close()
        return post.open_box(session)

    def known(self, claim_id: str) -> str | None:
        """Return the address of this claim, or None if it has none."""
        box = self._used.get(claim_id)
        return box.address if box is not None else None

    def listening(self, claim_id: str) -> bool:
        """Does this claim have a socket?"""
        return claim_id in self._used

    def release(self, claim_id: str) -> None:
        """Free the claim's socket for another claim."""
        box = self._used.pop(claim_id, None)
        if box is not None and box.fd >= 0:
            self._idle.append(box)

    def wait(
        self, claim_id: str, alarm: Callable[[str], Alarm], watch: Iterable[str], seconds: float
    ) -> Granted | None:
        """Sleep until woken, until a session that is watched has ended, or the time-out has
        expired."""
        alarms = [alarm(session) for session in watch]
        if ENDED in alarms:
            return None
        box = self._used.get(claim_id)
        poll = select.poll()
        if box is not None:
            poll.register(box.fd, select.POLLIN)
        for one in alarms:
            if one.fd >= 0:
                poll.register(one.fd, 0)
        end = boottime() + seconds
        while (left := end - boottime()) > 0:
            for fd, _ in poll.poll(left * 1000):
                if box is None or fd != box.fd:
                    return None
                found, fence = box.read_one()
                if found == claim_id:
                    return Granted(fence)
        return None

    def close(self) -> None:
        """Close all sockets."""
        used, self._used = self._used, {}
        idle, self._idle = self._idle, []
        for box in [*used.values(), *idle]:
            box.close()

    def forked(self) -> None:
        """In the child: close only our copies. The files stay, because they are the parent's."""
        self._used, self._idle = {}, []


class LoopBox:
    """The one socket of a client under asyncio. The worker thread makes it, the loop reads it."""

    def __init__(self) -> None:
        self._boxes: list[Mailbox] = []
        self._known: dict[str, str] = {}
        self._early: dict[str, int] = {}

    @property
    def fd(self) -> int:
        """The descriptor of the socket, which exists only if a claim has an address."""
        return self._boxes[-1].fd

    def address(self, claim_id: str, post: Post, session: str) -> str | None:
        """Return the address for this claim; called inside the file mutex."""
        if not self._boxes or not self._boxes[-1].address.startswith(session):
            box = post.open_box(session)
            if box is None:
                return None
            self._boxes.append(box)
        self._known[claim_id] = self._boxes[-1].address
        return self._boxes[-1].address

    def known(self, claim_id: str) -> str | None:
        """Return the address of this claim, or None if it has none."""
        return self._known.get(claim_id)

    def release(self, claim_id: str) -> None:
        """Forget the claim, which no longer waits."""
        self._known.pop(claim_id, None)
        self._early.pop(claim_id, None)

    def read(self) -> list[tuple[str, int]]:
        """Return (claim id, fence) of all wake-ups that have arrived."""
        return self._boxes[-1].read() if self._boxes else []

    def keep(self, claim_id: str, fence: int) -> None:
        """Keep a wake-up that came before its claim began to sleep, if the claim still waits."""
        if claim_id in self._known:
            self._early[claim_id] = fence

    def early(self, claim_id: str) -> int | None:
        """Return, once, the fence of a wake-up that `keep` has kept; else None."""
        return self._early.pop(claim_id, None)

    def close(self) -> None:
        """Do nothing: the loop closes the sockets after it has stopped listening."""

    def shut(self) -> None:
        """Close all sockets."""
        boxes, self._boxes = self._boxes, []
        for box in boxes:
            box.close()

    def forked(self) -> None:
        """In the child: forget the parent's sockets."""
        self._boxes, self._known, self._early = [], {}, {}
