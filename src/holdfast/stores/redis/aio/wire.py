"""One connection that all tasks share: requests of one tick of the loop leave in one write.

The server answers in order, so the replies are matched to the requests by their order. Each reply
also contains the tag of its request. If order and tag don't agree, the connection is dropped, so a
reply is never used for another request. If the caller is cancelled or runs out of time, the request
keeps its place in the order, and its reply is ignored. So a later request, such as the undo, can't
overtake it.

redis-py makes the connection and shakes hands; after that `Wire` reads and writes the bytes.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections import deque
from collections.abc import Callable
from typing import Any

from ....errors import StoreUnavailable
from ....runtime.blocking import boottime
from ....runtime.timers.aio import later
from ..blocking.resp import NO_REPLY, NOTHING, REPLY_BYTES_MAX, TOO_LONG, Push, new_reader, strange
from ..complaints import DEMOTED, NOSCRIPT, ServerSaid
from ..library import packed
from ..recovery import Recovery, asks
from ..scripts import Call
from .answer import Answer, Answers, new_answer, new_answers, wake_all
from .exchange import BY_PUSH, LOADING, PLAIN, SEVERAL, Exchange, Slot

#: Maximum number of requests under way on a connection; one more is refused.
QUEUE_MAX = 50_000
#: Seconds without any data after which a connection with a request under way is given up.
STALL_S = 1.0
#: Minimum seconds between two searches for overdue requests.
SWEEP_S = 0.002
#: Maximum number of bytes in one read.
ROOM = 1 << 16
#: Errors after which the connection is no longer used: it leads to no primary.
_OVER = DEMOTED | {"LOADING", "MOVED"}


class Wire(Exchange, asyncio.BufferedProtocol):
    """One connection, from the handshake to its end.

    ``heard`` is called with each message that arrives on a channel, and returns the answer of the
    task to wake. ``ended`` is called once, when the connection can no longer be used. ``ear``: True
    for a connection of RESP2 that only listens.
    """

    def __init__(
        self,
        label: str,
        heard: Callable[[bytes], Answer | None],
        ended: Callable[[Wire], None],
        recovery: Recovery,
        ear: bool = False,
    ) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(recovery, loop)
        self.label = label
        self._heard = heard
        self._ended = ended
        self._ear = ear
        self._room = memoryview(bytearray(ROOM))
        self._reader = new_reader()
        #: Number of bytes of an unfinished reply, without bytes that came with another reply.
        self._unread = 0
        self._pending: deque[Slot] = deque()
        self._out: list[bytes] = []
        self._flushing = self._crowded = self._paused = False
        self.heard_at = boottime()
        self._sweep_at = math.inf
        self._sweeper: asyncio.Handle | None = None
        #: True if an error of the server showed that the connection leads to no primary.
        self.unfit = False
        self.gone = loop.create_future()

    def take_over(self, connection: Any) -> None:
        """Take over the bytes of this connection of redis-py."""
        # Keep redis-py's connection: when Python frees it, its stream closes the transport.
        self._connection, self._stream = connection, connection._writer
        self._transport: asyncio.Transport = self._stream.transport
        connection._reader = connection._writer = None
        self._transport.set_protocol(self)

    # -- asking ----------------------------------------------------------------------------

    def command(self, *words: bytes, within: float) -> Answer:
        """Send a command that isn't a script."""
        return self._plain(words, PLAIN, within)

    def confirmed(self, *words: bytes, within: float) -> Answer:
        """Send a command that a push answers: SUBSCRIBE, or PING on a connection that listens."""
        return self._plain(words, BY_PUSH, within)

    def _plain(self, words: tuple[bytes, ...], tag: bytes, within: float) -> Answer:
        answer = new_answer(self._loop)
        self._post(packed(*words), tag, within, words[0].decode(), answer, 1)
        return answer

    def _post(
        self,
        data: bytes,
        tag: bytes,
        within: float,
        what: Call | str,
        answer: Answer,
        tries: int,
    ) -> None:
        now = boottime()
        due = now + within
        pending = self._pending
        if self.over or len(pending) >= QUEUE_MAX:
            answer.set_exception(StoreUnavailable(self.over or self._too_much()))
            return
        if due < self._sweep_at:
            self._sweep_next(due)
        if pending or self._crowded or self._paused:
            self._out.append(data)
            if not self._flushing and not self._paused:
                self._loop.call_soon(self._flush)
                self._flushing = True
        else:
            self._transport.write(data)  # no other request is under way
        pending.append((answer, tag, due, now, what, tries))

    def _flush(self) -> None:
        self._flushing = False
        if self._paused or self.over:
            return
        out, self._out = self._out, []
        self._crowded = len(out) > 1
        self._transport.write(b"".join(out))

    def pause_writing(self) -> None:
        """The peer doesn't read: hold back the requests that follow."""
        self._paused = True

    def resume_writing(self) -> None:
        """The peer reads again."""
        self._paused = False
        if self._out:
            self._flush()

    def fetch(self, data: bytes, count: int, within: float) -> Answers:
        """Read ``count`` values by the requests packed in ``data``; the replies are a list, two for
        each value."""
        answers = new_answers(self._loop, 2 * count)
        self._post(data, SEVERAL, within, "GET", answers, 1)
        return answers

    # -- answers ---------------------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:
        """The buffer for the bytes that arrive."""
        return self._room

    def buffer_updated(self, nbytes: int) -> None:
        """``nbytes`` bytes have arrived: pass on the whole replies among them."""
        self.heard_at = boottime()
        reader = self._reader
        gets, pending = reader.gets, self._pending
        given: list[Answer] = []
        try:
            reader.feed(self._room, 0, nbytes)
            while (reply := gets()) is not NOTHING:
                if type(reply) is list and pending and (slot := pending[0])[1] == reply[0]:
                    answer, value = slot[0], reply[1]
                    if value.__class__ is list and asks(value):
                        self._judge(slot, value)
                    elif not answer.done():
                        given.append(answer)
                        answer.give(value)
                elif isinstance(reply, Push) or self._ear:
                    self._pushed(reply, given)
                    continue
                elif pending and pending[0][1] is SEVERAL:
                    if not self._part(pending[0][0], reply, given):
                        continue
                else:
                    self._odd(reply)
                if self.over:
                    return
                pending.popleft()  # only now, as Ctrl-C may come between any two lines
            if given:
                self._unread = 0
            else:
                self._unfinished(nbytes)
        except NO_REPLY as wrong:
            why = wrong if isinstance(wrong, ValueError) else strange(wrong)
            self.drop(f"{self.label} sent a reply that no request expects: {why}")
        finally:
            if given:
                wake_all(given)

    def _unfinished(self, nbytes: int) -> None:
        """Count bytes that complete no answer; raise ``ValueError`` if a reply is too long."""
        self._unread = self._unread + nbytes if self._reader.has_data() else 0
        if self._unread > REPLY_BYTES_MAX:
            raise ValueError(TOO_LONG)

    def _part(self, answers: Any, reply: Any, given: list[Answer]) -> bool:
        """Add one of several replies; return True if it is the last one. The replies to PTTL and
        GET alternate: a number where none is expected shows that the replies are out of step."""
        if reply.__class__ is not ServerSaid and (reply.__class__ is int) == len(answers.parts) % 2:
            raise ValueError("the replies are out of step")
        answers.parts.append(reply)
        if len(answers.parts) < answers.count:
            return False
        if not answers.done():
            given.append(answers)
            answers.give(answers.parts)
        if reply.__class__ is ServerSaid and self._astray(reply):
            self._leave(reply)
        return True

    def _odd(self, reply: Any) -> None:
        """Handle a reply without a tag: an error, or the reply to a plain command."""
        if not self._pending:
            raise ValueError("no request is under way")
        answer, tag, _, _, what, _ = slot = self._pending[0]
        if what is LOADING:
            self._loaded(reply)
        if isinstance(reply, ServerSaid):
            if reply.code == NOSCRIPT and not isinstance(what, str):
                self._load(slot, reply)
                return
        elif tag is not PLAIN:
            raise ValueError("the tag is of another request")
        if not answer.done():
            answer.set_result(reply)
        if isinstance(reply, ServerSaid) and self._astray(reply):
            self._leave(reply)

    def _astray(self, reply: ServerSaid) -> bool:
        """True if an error shows that the connection leads to no primary."""
        return reply.code in _OVER

    def _leave(self, reply: ServerSaid) -> None:
        self.unfit = True
        self.drop(f"{self.label} can't answer now: {reply}")

    def _pushed(self, reply: Any, given: list[Answer]) -> None:
        if not isinstance(reply, list):
            self._odd(reply)
            if not self.over:
                self._pending.popleft()
        elif reply[0] in (b"message", b"smessage"):
            answer = self._heard(reply[2])
            if answer is not None:
                given.append(answer)
                answer.give(None)
        elif reply[0] in (b"subscribe", b"ssubscribe", b"pong"):
            answer, tag, *_ = self._pending[0]
            if tag is not BY_PUSH:
                raise ValueError("a push came in place of a reply")
            self._pending.popleft()
            if not answer.done():
                answer.set_result(None)

    # -- time ------------------------------------------------------------------------------

    def _sweep_next(self, due: float) -> None:
        before = self._sweeper
        self._sweeper = later(self._loop, due - boottime(), self._sweep)
        self._sweep_at = due
        if before is not None:
            before.cancel()

    def _sweep(self) -> None:
        """End the requests whose time-out has expired; drop a connection that gets no data."""
        soonest = now = boottime()
        try:
            soonest = self._end_late(now)
        finally:  # as Ctrl-C may come between any two lines
            self._sweeper, self._sweep_at = None, math.inf
            if soonest < math.inf and not self.over:
                self._sweep_next(max(soonest, now + SWEEP_S))

    def _end_late(self, now: float) -> float:
        """End the requests whose time-out has expired; return when the next time-out expires."""
        soonest = math.inf
        late = False
        for answer, _, due, sent, what, _ in self._pending:
            if answer.done():
                continue
            if due <= now + SWEEP_S / 2:
                late = True
                answer.set_exception(StoreUnavailable(self._late(what, now - sent)))
            elif due < soonest:
                soonest = due
        if late and now - max(self.heard_at, self._pending[0][3]) >= STALL_S:
            self.drop(f"{self.label} has sent nothing for {STALL_S:g} s")
        return soonest

    def _late(self, what: Call | str, seconds: float) -> str:
        word = what if isinstance(what, str) else what.script.name
        return f"{self.label} did not answer a {word} within {seconds:.3g} s"

    def _too_much(self) -> str:
        return f"{len(self._pending)} requests are under way to {self.label}, which is the maximum"

    # -- the end ---------------------------------------------------------------------------

    @property
    def under_way(self) -> int:
        """The number of requests that have no answer yet."""
        return len(self._pending)

    def leak(self) -> None:
        """Close the socket in the child of a fork, and change nothing else.

        A usual close can send data, such as the end of TLS, which would end the parent's session.
        """
        self.over = "it belongs to the parent process"
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, self._transport.get_extra_info("socket").fileno())
        os.close(nothing)

    @property
    def transport(self) -> asyncio.BaseTransport:
        """The transport of this connection."""
        return self._transport

    def drop(self, why: str) -> None:
        """Stop using the connection: all requests under way end with ``StoreUnavailable``."""
        self._finish(why)
        self._transport.abort()

    def close(self) -> None:
        """Close the connection after all requests under way have been written."""
        self._flush()
        self._finish(f"the connection to {self.label} was closed")
        self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """The transport has ended."""
        self._finish(f"the connection to {self.label} was lost" + (f": {exc}" if exc else ""))
        if not self.gone.done():
            self.gone.set_result(None)

    def _finish(self, why: str) -> None:
        if self.over:
            return
        self.over = why
        if self._sweeper is not None:
            self._sweeper.cancel()
        pending, self._pending = self._pending, deque()
        for slot in pending:
            if not slot[0].done():
                slot[0].set_exception(StoreUnavailable(why))
        self._ended(self)
