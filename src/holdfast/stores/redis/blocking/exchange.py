"""The steps between a request and its final answer on one connection, hidden from the caller.

If the server doesn't know our scripts, they are loaded; if a script requires recovery, recovery is
asked; if the settings require replicas, replicas confirm.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....runtime.blocking import boottime
from ..complaints import NOSCRIPT, ServerSaid
from ..config import Settings
from ..library import ALL_SCRIPTS, Script, load_command, packed
from ..recovery import Recovery, Unconfirmed, Verdict, asks, grants, still_barred, wait_words
from ..scripts import Call, ending
from .link import Link


class Exchange:
    """The steps of the port on a connection that one thread has alone."""

    #: The scripts to load if the server doesn't know one of ours.
    _scripts: Sequence[Script] = ALL_SCRIPTS

    def __init__(self, settings: Settings) -> None:
        self.recovery = Recovery(settings, boottime)
        self.replicas = settings.replicas
        #: True if the server reads scripts only without their first line.
        self._old = False

    def _wire(self, link: Link, call: Call) -> bytes:
        return (call.for_old() if self._old else call).head + link.ending

    def _mended(self, link: Link, call: Call, reply: Any, until: float) -> Any:
        """The final reply to a call. Loads the scripts first if the server doesn't know them, and
        asks recovery if the script requires it."""
        if _is_unknown(reply):
            reply = self._load(link, until) or self._again(link, call, until)
        if asks(reply):
            verdict = self._judge(link, until, call.bucket)
            if isinstance(verdict, ServerSaid):
                return verdict
            return still_barred(call, reply, verdict) or self._again(link, call, until)
        return reply

    def _again(self, link: Link, call: Call, until: float) -> Any:
        return link.ask(self._wire(link, call), boottime(), until)

    def _judge(self, link: Link, until: float, bucket: int = 0) -> Verdict | ServerSaid:
        """Ask recovery about its records, and note the run id of the server for further calls."""
        found = self._verdict(link, self.recovery.asked(bucket), until)
        if isinstance(found, Verdict):
            link.ending = ending(found.run_id)
        return found

    def _verdict(self, link: Link, call: Call, until: float) -> Verdict | ServerSaid:
        reply = self._again(link, call, until)
        if _is_unknown(reply):
            reply = self._load(link, until) or self._again(link, call, until)
        return self.recovery.verdict(reply)

    def _load(self, link: Link, until: float) -> ServerSaid | None:
        """Load all scripts; return the server's error if that fails."""
        wrong: ServerSaid | None = None
        for old in (False, True)[self._old :]:
            said = link.ask_many([load_command(one, old) for one in self._scripts], until)
            wrong = next((one for one in said if isinstance(one, ServerSaid)), None)
            if wrong is None:
                self._old = old
                return None
        return wrong

    def _ask_again(
        self, link: Link, calls: Sequence[Call], places: list[int], replies: list[Any], until: float
    ) -> None:
        """Send these calls again, and replace their replies."""
        said = link.ask_many([self._wire(link, calls[at]) for at in places], until)
        for at, reply in zip(places, said, strict=True):
            replies[at] = reply

    def _mend(self, link: Link, calls: Sequence[Call], replies: list[Any], until: float) -> None:
        """As `_mended`, for many calls; replace their replies."""
        again = [at for at, reply in enumerate(replies) if _is_unknown(reply)]
        if again and self._load(link, until) is None:
            self._ask_again(link, calls, again, replies, until)
        groups: dict[int, list[int]] = {}
        for at, reply in enumerate(replies):
            if asks(reply):
                groups.setdefault(self.recovery.scope(calls[at].bucket), []).append(at)
        for again in groups.values():
            if isinstance(self._judge(link, until, calls[again[0]].bucket), Verdict):
                self._ask_again(link, calls, again, replies, until)

    # -- replicas ----------------------------------------------------------------------------

    def _confirm(self, link: Link, call: Call, reply: Any, until: float) -> None:
        """Wait until replicas confirm a grant; raises ``Unconfirmed``."""
        if grants(call, reply):
            now = boottime()
            said = link.ask(packed(*wait_words(self.replicas, until - now)), now, until)
            wrong = self.recovery.unconfirmed(said, self.replicas)
            if wrong is not None:
                raise wrong

    def _confirmed_of(
        self, link: Link, calls: Sequence[Call], replies: list[Any], until: float
    ) -> list[Any]:
        """The replies, with an error in the place of each grant that isn't confirmed."""
        for call, reply in zip(calls, replies, strict=True):
            try:
                self._confirm(link, call, reply, until)
            except Unconfirmed as wrong:
                pairs = zip(calls, replies, strict=True)
                return [wrong if grants(one, said) else said for one, said in pairs]
            if grants(call, reply):
                break  # WAIT confirms all earlier writes, too
        return replies


def _is_unknown(reply: Any) -> bool:
    """True if the reply is that the server has no such script."""
    return reply.__class__ is ServerSaid and reply.code == NOSCRIPT
