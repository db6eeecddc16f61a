"""The description of a server that the kit needs, and what one run has of it."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...aio import AsyncClient
from ...core.model import ClaimRecord
from ...errors import NotSupported
from ..faces import Face, now
from ..faults import CHUNKS, Proxy, Wire
from ..faults.proxy import Match
from ..promise import PromiseBroken

#: The lease of each hold of this kit, in seconds.
TTL_S = 3.0
_numbers = itertools.count()


@dataclass(frozen=True)
class Bench:
    """A server under test. The kit puts a `Proxy` between one client and the server."""

    #: Returns the URL of the store if its server is at this host and port.
    url: Callable[[str, int], str]
    host: str
    port: int
    #: For each verb, bytes that its requests contain and other requests don't, or a function of
    #: the bytes. ``join`` enters a line, ``leave`` releases, ``renew`` renews a hold, ``turn`` is
    #: the question of a waiter; ``join_free`` and ``leave_all`` are for several names. A verb that
    #: isn't here is not tested.
    verbs: Mapping[str, Match]
    #: Where a message begins and ends.
    wire: Wire = CHUNKS
    #: The password in the URL; no message may contain it.
    secret: str = ""
    #: Seconds after which a claim that nothing renews is gone: the ttl, or the session.
    gone_s: float = TTL_S + 2.0
    #: The requests of each verb of `products`; the growth of the others is checked, too.
    requests: Mapping[str, int] = field(default_factory=dict)
    #: Verbs that send a request for each claim of a line.
    grows: Collection[str] = ()
    #: Like ``url``, for a user that has only the rights that the store's page names.
    least: Callable[[str, int], str] | None = None
    #: URLs that the server refuses (a wrong password, a missing right, an unknown certificate),
    #: each with a pattern of the error.
    refused: Mapping[str, str] = field(default_factory=dict)
    #: Ends the server and starts it again.
    restart: Callable[[], object] | None = None


class Floor:
    """One run on a bench: a client behind a proxy, and a client that reaches the server without."""

    def __init__(self, bench: Bench, face: Face, proxy: Proxy) -> None:
        self.bench, self.face, self.proxy = bench, face, proxy
        self.name = f"server-kit:{os.getpid()}:{next(_numbers)}"
        self.fences = [0]

    @contextlib.asynccontextmanager
    async def clients(
        self, url: Callable[[str, int], str] | None = None, proxy: Proxy | None = None
    ) -> AsyncGenerator[tuple[AsyncClient, AsyncClient]]:
        """The client behind the proxy, and the direct one; both have sent some verbs already."""
        bench, url = self.bench, url or self.bench.url
        async with (
            self.face.client(url("127.0.0.1", (proxy or self.proxy).port)) as ours,
            self.face.client(url(bench.host, bench.port)) as other,
        ):
            for client in (ours, other):
                hold: Any = await client.lock(f"{self.name}:first", ttl=TTL_S).acquire(timeout=20)
                await hold.extend()
                await hold.release()
            yield ours, other

    async def claims(self, client: AsyncClient, name: str) -> tuple[ClaimRecord, ...]:
        """Return the claims in the line of this name."""
        found = await client.inspect(name, exact=True)
        return found[0].claims if found else ()

    async def waits(self, client: AsyncClient, name: str, number: int = 1) -> None:
        """Wait until this number of claims wait in the line of this name."""
        end = now() + 20.0
        while sum(not one.held for one in await self.claims(client, name)) < number:
            assert now() < end, f"not {number} wait for {name!r}"
            await self.face.sleep(0.02)

    async def is_free(self, client: AsyncClient, name: str, within: float) -> None:
        """Check that the name is granted within this time, by a fence that is greater than all
        before, and that nothing is left in its line afterwards."""
        hold = await client.lock(name, ttl=TTL_S).acquire(timeout=within)
        assert hold is not None, f"{name!r} isn't free after {within:g} s"
        self.noted(hold)
        await hold.release()
        await self.is_empty(client, name)

    async def is_empty(self, client: AsyncClient, name: str) -> None:
        """Check that the line of this name is or becomes empty."""
        end = now() + self.bench.gone_s + 5.0
        while left := await self.claims(client, name):
            assert now() < end, f"claims are left: {left}"
            await self.face.sleep(0.05)

    def noted(self, hold: Any) -> None:
        """Note the fence of a new hold, which must be greater than all before."""
        with contextlib.suppress(NotSupported):
            if hold.fence <= self.fences[-1]:
                raise PromiseBroken(f"the fence {hold.fence} came after {self.fences[-1]}")
            self.fences.append(hold.fence)
