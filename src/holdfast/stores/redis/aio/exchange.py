"""The steps between a request and its final answer on a shared connection, hidden from the caller.

If the server doesn't know our scripts, they are loaded; if a script requires recovery, recovery is
asked. The request is then sent again, under a new tag; its answer still goes to the same caller.
"""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any, TypeAlias

from ....errors import StoreUnavailable
from ....runtime.blocking import boottime
from ..complaints import ServerSaid
from ..library import ALL_SCRIPTS, Script, load_command, tail
from ..recovery import Recovery, Reply, still_barred
from ..scripts import Call
from .answer import Answer, new_answer

#: A request under way: its answer, its tag, its deadline, the time when it was sent, its call or
#: command, and the number of times it was sent. A plain tuple, because a tuple is fast to make.
Slot: TypeAlias = "tuple[Answer, bytes, float, float, Call | str, int]"

#: Maximum number of times that a call is sent: the first time, after loading the scripts, after
#: loading the texts for old servers, after recovery was asked, and one more as a reserve.
TRIES_MAX = 5
#: The name of a request that loads a script.
LOADING = "SCRIPT LOAD"
#: Tags of requests that call no script: one plain reply, a push as the reply, several replies.
PLAIN, BY_PUSH, SEVERAL = b"-", b">", b"*"
_TAGS = tuple(b"%x" % n for n in range(1 << 12))
_TAILS = tuple(map(tail, _TAGS))
_MASK = len(_TAGS) - 1


class Exchange(ABC):
    """Handles the replies that aren't the final answer."""

    #: The scripts to load if the server doesn't know one of ours.
    _scripts: Sequence[Script] = ALL_SCRIPTS

    def __init__(self, recovery: Recovery, loop: asyncio.AbstractEventLoop) -> None:
        self._recovery = recovery
        self._loop = loop
        #: Requests to recovery that are under way, by `Recovery.scope`.
        self._judging: dict[int, Answer] = {}
        #: The run id of the server, packed as an argument of scripts.
        self.server = tail(b"")
        #: The server is too old for scripts whose first line is ``#!lua``.
        self._old = False
        self._loading = 0
        self._load_failed: ServerSaid | None = None
        self._number = random.randrange(len(_TAGS))
        #: The reason why the connection can no longer be used; empty if it can.
        self.over = ""

    @abstractmethod
    def _post(
        self, data: bytes, tag: bytes, within: float, what: Call | str, answer: Answer, tries: int
    ) -> None:
        """Send these bytes; the reply becomes the result of ``answer``."""

    def send(self, call: Call, within: float) -> Answer:
        """Send a script's call; the answer is its reply, or the value ``ServerSaid``."""
        answer = new_answer(self._loop)
        if self._old:
            call = call.for_old()
        number = self._number = (self._number + 1) & _MASK
        data = call.head + self.server + _TAILS[number]
        self._post(data, _TAGS[number], within, call, answer, 1)
        return answer

    def _post_call(self, call: Call, within: float, answer: Answer, tries: int) -> None:
        number = self._number = (self._number + 1) & _MASK
        data = call.head + self.server + _TAILS[number]
        self._post(data, _TAGS[number], within, call, answer, tries)

    def _load(self, slot: Slot, reply: ServerSaid) -> None:
        """The server doesn't know the script: load all scripts, and send the call again.

        If the caller no longer waits, send nothing: the call could be a join that no caller needs.
        """
        answer, _, due, _, call, tries = slot
        if answer.done() or isinstance(call, str):
            return
        if tries >= TRIES_MAX:
            answer.set_result(self._load_failed or reply)
            return
        within = due - boottime()
        if not self._loading:
            self._load_failed = None
            for script in self._scripts:
                self._loading += 1
                command = load_command(script, self._old)
                self._post(command, PLAIN, within, LOADING, self._unheeded(), 1)
        if self._old:
            call = call.for_old()
        self._post_call(call, within, answer, tries + 1)

    def _loaded(self, reply: Any) -> None:
        """Handle the reply to SCRIPT LOAD, before the reply to the repeated call is read."""
        self._loading -= 1
        if isinstance(reply, ServerSaid):
            self._load_failed = reply
            # Before 7.0 a script can't begin with #!lua; the next try loads the texts without this
            # line.
            self._old = self._old or reply.code == "ERR"

    def _judge(self, slot: Slot, reply: Reply) -> None:
        """Ask recovery, because a script requires it, unless the caller no longer waits."""
        answer, _, due, _, call, tries = slot
        if answer.done() or isinstance(call, str):
            return
        if tries >= TRIES_MAX:
            answer.set_result(reply)
            return
        scope = self._recovery.scope(call.bucket)
        judging = self._judging.get(scope)
        if judging is None or judging.done():
            asked = self._recovery.asked(call.bucket)
            judging = self._judging[scope] = self.send(asked, due - boottime())
        judging.add_done_callback(partial(self._judged, slot, reply))

    def _judged(self, slot: Slot, reply: Reply, judging: Answer) -> None:
        answer, _, due, _, call, tries = slot
        failure = None if judging.cancelled() else judging.exception()
        if answer.done() or isinstance(call, str):
            return
        if failure is not None or judging.cancelled():
            answer.set_exception(failure or StoreUnavailable(self.over))
            return
        verdict = self._recovery.verdict(judging.result())
        if isinstance(verdict, ServerSaid):
            answer.set_result(verdict)
            return
        self.server = tail(verdict.run_id)
        barred = still_barred(call, reply, verdict)
        if barred is None:
            self._post_call(call, due - boottime(), answer, tries + 1)
        else:
            answer.set_result(barred)

    def _unheeded(self) -> Answer:
        """A new answer that no task waits for; if it fails, asyncio logs no warning."""
        answer = new_answer(self._loop)
        answer.add_done_callback(lambda one: one.cancelled() or one.exception())
        return answer
