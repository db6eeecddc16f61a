"""Log messages of a worker whose store does not answer: after a second, then each minute."""

from __future__ import annotations

from collections.abc import Callable

from ...errors import StoreUnavailable

#: Seconds of failures before the first message.
FIRST_S = 1.0
#: Seconds between two messages while the store continues failing.
AGAIN_S = 60.0


class Silence:
    """The failures of a store since its last reply, for all loops of one worker."""

    def __init__(
        self, now: Callable[[], float], tell: Callable[[StoreUnavailable | None], None]
    ) -> None:
        self._now = now
        #: Called with the failure; with None when the store answers again.
        self.tell = tell
        self._due: float | None = None
        self._told = False

    def failed(self, failure: StoreUnavailable, sent: float) -> None:
        """Note that the request that was sent at ``sent`` failed; call ``tell`` if it is due."""
        now = self._now()
        due = sent + FIRST_S if self._due is None else self._due
        self._due = due
        if now >= due:
            self._due = now + AGAIN_S
            self._told = True
            self.tell(failure)

    def answered(self) -> None:
        """Note that the store answered a request; call ``tell`` if failures were reported."""
        if self._due is not None:
            self._due = None
            if self._told:
                self._told = False
                self.tell(None)
