"""Network faults between the workers and a server: requests and replies are lost, late or cut off.

In a run with ``weather`` the workers connect through a :class:`~holdfast.testing.faults.Proxy`. The
seed of the run determines the kinds of the faults, but not their exact moments.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import NamedTuple
from urllib.parse import urlsplit

from ...errors import ConfigError
from ..faults import (
    DROP_PUSH,
    DROP_REPLY,
    DROP_REQUEST,
    HOLD_REPLY,
    HOLD_REQUEST,
    MYSQL,
    RESET_REPLY,
    RESET_REQUEST,
    RESP,
    Armed,
    Fault,
    Proxy,
    Wire,
    delay_reply,
    delay_request,
)

#: Mean seconds between two faults. The mean is long, because one fault can delay a sender for a
#: long time.
EVERY_S = 0.4
#: Maximum seconds by which a held message and a late message are delayed. The client of such a
#: message can have given up before the message arrives.
HELD_S_MAX = 6.0
LATE_S_MAX = 1.0


class Speech(NamedTuple):
    """The protocol of a server.

    ``wire`` splits its messages; a request of a verb contains the bytes ``verb``, and a push the
    bytes ``push``; ``port`` is the default port.
    """

    wire: Wire
    verb: bytes
    push: bytes
    port: int


_REDIS = Speech(RESP, b"EVALSHA", b"message", 6379)
#: This protocol has no pushes, so no message contains these bytes.
_MYSQL = Speech(MYSQL, b"CALL ", b"no push", 3306)
_SPEECHES = {"redis": _REDIS, "valkey": _REDIS, "mysql": _MYSQL, "mariadb": _MYSQL}


class Weather:
    """Network faults in front of the server of the URL ``store``; clients connect to ``url``."""

    def __init__(self, store: str, dice: random.Random) -> None:
        parts = urlsplit(store)
        speech = _SPEECHES.get(parts.scheme)
        if speech is None or not parts.hostname:
            raise ConfigError(
                f"network faults are not supported for {parts.scheme}://, "
                f"only for {', '.join(_SPEECHES)}, with one server"
            )
        self._speech, self._dice = speech, dice
        self._proxy = Proxy(parts.hostname, parts.port or speech.port, speech.wire)
        login, at, _ = parts.netloc.rpartition("@")
        self.url = parts._replace(netloc=f"{login}{at}127.0.0.1:{self._proxy.port}").geturl()
        #: The faults that were applied to messages, with counts.
        self.faults: Counter[str] = Counter()
        self._armed: list[tuple[str, Armed]] = []
        #: The faults that hold messages, each with the time at which it ends.
        self._held: list[tuple[float, Armed]] = []
        self._next = 0.0

    def blow(self, now: float) -> None:
        """Arm a fault for the next message if a fault is due; end the faults whose time is up."""
        for entry in [entry for entry in self._held if entry[0] <= now]:
            self._held.remove(entry)
            entry[1].let_go()
        if now < self._next:
            return
        self._next = now + self._dice.random() * 2 * EVERY_S
        fault = self._fault()
        mark = self._speech.push if fault.of == "push" else self._speech.verb
        armed = self._proxy.arm(mark, fault)
        self._armed.append((f"{fault.what} {fault.of}", armed))
        if fault.what == "hold":
            self._held.append((now + self._dice.random() * HELD_S_MAX, armed))

    def _fault(self) -> Fault:
        late = self._dice.random() * LATE_S_MAX
        return self._dice.choice(
            (
                DROP_REQUEST,
                DROP_REPLY,
                DROP_PUSH,
                HOLD_REQUEST,
                HOLD_REPLY,
                RESET_REQUEST,
                RESET_REPLY,
                delay_request(late),
                delay_reply(late),
            )
        )

    def calm(self) -> None:
        """End all faults, and forward the held messages."""
        self._next = float("inf")
        for _, armed in self._held:
            armed.let_go()
        self._held.clear()
        for what, armed in self._armed:
            armed.disarm()
            self.faults[what] += armed.hits
        self._armed.clear()

    def close(self) -> None:
        """Reset all connections, and accept no more."""
        self._proxy.close()
