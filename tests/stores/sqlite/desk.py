"""A store without the core above it: its verbs as plain calls, and claims to send."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from holdfast.core.model import (
    Change,
    Claim,
    Granted,
    Held,
    Joined,
    Kind,
    Leave,
    LineRecord,
    Renewal,
    Spec,
    Standing,
    Waiting,
)
from holdfast.runtime.blocking import run_sync as run
from holdfast.stores.sqlite import open_blocking
from holdfast.url import find

WITHIN_S = 10.0


def claim(name: str = "refund", ttl: float = 30.0, **other: Any) -> Claim:
    """A new claim with its own secret id."""
    spec = Spec(name, Kind.LOCK, 1, 1, ttl, "somebody", "")
    return Claim(secrets.token_hex(16), spec._replace(**other))


@dataclass
class Clock:
    """The store's clock in this process, which moves only when a test moves it."""

    now: float = 5_000.0


class Desk:
    """One client of the embedded store, for threads."""

    def __init__(self, path: Path | str, options: str = "") -> None:
        self.store = open_blocking(find(f"sqlite://{path}{options}")[1])
        self.port: Any = self.store._port  # type: ignore[attr-defined]
        self.engine: Any = self.port.engine

    def join(self, wanted: Claim, wait: bool = True, within: float = WITHIN_S) -> Joined:
        """Enter the line."""
        return run(self.store.join(wanted, wait, within))

    def hold(self, wanted: Claim, seconds: float = WITHIN_S) -> int:
        """Wait as the core does until the claim is held, and return the fence."""
        end = time.monotonic() + seconds
        answer: Joined = self.join(wanted)
        try:
            while isinstance(answer, Waiting):
                assert time.monotonic() < end, f"not served within {seconds} s: {answer}"
                push = self.wait(wanted, answer, answer.retry_in)
                if push is not None:
                    return push.fence
                answer = self.turn(wanted, answer.ticket)
            assert isinstance(answer, Held), answer
            return answer.fence
        finally:
            self.store.unlisten(wanted)

    def renew(self, held: Claim, ticket: int) -> Standing:
        """Renew one held claim and return its state."""
        (answer,) = self.renew_all([Renewal(held, ticket, held.spec.ttl)])
        assert not isinstance(answer, Exception), answer
        return answer

    def renew_all(self, renewals: list[Renewal]) -> list[Standing | Exception]:
        """Renew a batch of claims and return one state or error for each."""
        return run(self.store.renew(renewals, WITHIN_S))

    def turn(self, waiter: Claim, ticket: int) -> Standing:
        """Ask for a claim that waits and return its state."""
        return run(self.store.turn(waiter, ticket, WITHIN_S))

    def change(self, held: Claim, ticket: int, **other: Any) -> Standing:
        """Change the id or the owner of a held claim and return its state."""
        return run(self.store.change(Change(held, ticket, held.spec.ttl, **other), WITHIN_S))

    def leave(self, left: Claim, ticket: int = 0, within: float = WITHIN_S, **other: Any) -> bool:
        """Release a hold or withdraw a waiting claim."""
        return run(self.store.leave(Leave(left.spec.name, left.id, ticket, **other), within))

    def wait(self, waiter: Claim, waiting: Waiting, seconds: float) -> Granted | None:
        """Sleep until a wake-up arrives, at most for ``seconds``."""
        return run(self.store.wait(waiter, waiting, seconds))

    def lines(self, prefix: str = "") -> list[LineRecord]:
        """Return the lines as ``holdfast ls`` and ``inspect`` read them."""
        return run(self.store.inspect(prefix, WITHIN_S))

    def free(self, name: str = "refund") -> bool:
        """Return True if a new claim is granted immediately."""
        wanted = claim(name)
        answer = self.join(wanted, wait=False)
        if isinstance(answer, Held):
            assert self.leave(wanted, answer.fence)
            return True
        return False

    def close(self) -> None:
        """End the session."""
        run(self.store.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
