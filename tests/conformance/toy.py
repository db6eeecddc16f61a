"""A toy server and its store, as the author of a store outside holdfast would write them.

The server keeps the lines of the memory store. A request is one line of text: a verb, the login,
and the pickled arguments; a reply is one pickled line. Waiters are not woken: they ask.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import math
import pickle
import socket
import socketserver
import sys
import threading
import time
import types
from collections.abc import Sequence
from typing import Any

from holdfast.core.model import (
    Capabilities,
    Change,
    Claim,
    Granted,
    Held,
    Joined,
    Leave,
    Renewal,
    Waiting,
)
from holdfast.errors import ConfigError, StoreUnavailable
from holdfast.stores.memory.line import Lines
from holdfast.url import BUILTIN, StoreURL

CAPABILITIES = Capabilities(
    store="toy", wakes_waiters=False, wakeup_grants=False, durable_fences=False
)
FAULTS = (
    "a repeated join enters again",
    "a late join enters after its leave",
    "a release without a reply counts as done",
    "a fence is given twice",
    "a silent server is waited for",
    "Ctrl-C is taken for a lost reply",
    "a try looks at each claim of its line",
    "a break needs a right that no page names",
    "a missing right is taken for a server that is away",
    "a refused login is shown",
    "a restart forgets all holds",
)
PASSWORD = "hush-hush"
#: The verbs of a worker.
WORK = "join", "renew", "turn", "change", "leave", "break_", "join_free", "inspect", "resize"
#: The verbs of each user; the user without a name has all rights and no password.
RIGHTS = {"app": WORK, "looker": ("inspect",)}


class Server(socketserver.ThreadingTCPServer):
    """Lines in memory, behind a port."""

    daemon_threads = allow_reuse_address = True

    def __init__(self, fault: str = "", port: int = 0, lines: Lines | None = None) -> None:
        super().__init__(("127.0.0.1", port), _Talk)
        self.fault = fault
        self.lines, self.lock = lines or Lines(), threading.Lock()
        self.port: int = self.server_address[1]
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def refusal(self, verb: str, login: str) -> ConfigError | None:
        """The error for a login that may not use this verb, or None."""
        user, _, password = login.partition(":")
        may = RIGHTS.get(user, ())
        if not user or (password == PASSWORD and verb in may and not self.odd(verb)):
            return None
        said = "no right to " + verb if password == PASSWORD else "a wrong password"
        return ConfigError(f"{said}: {login if self.fault == FAULTS[9] else user}")

    def odd(self, verb: str) -> bool:
        return self.fault == FAULTS[7] and verb == "break_"

    def restart(self) -> Server:
        """End it, and return its successor at the same port, with the lines."""
        self.shutdown()
        self.server_close()
        return Server(self.fault, self.port, None if self.fault == FAULTS[10] else self.lines)

    def answer(self, verb: str, args: tuple[Any, ...]) -> Any:
        """Carry out a verb."""
        now, lines = time.monotonic(), self.lines
        with self.lock:
            if verb == "join":
                claim: Claim = args[0]
                if self.fault == FAULTS[0]:
                    claim = claim._replace(id=f"{claim.id}{lines.next_ticket}")
                if self.fault == FAULTS[3] and claim.spec.name not in lines.lines:
                    lines.next_ticket = 7
                return lines.join(claim, args[1], now)[0]
            if verb == "renew":
                return [lines.renew(one, now)[0] for one in args[0]]
            if verb == "turn":
                return lines.turn(args[0], now)[0]
            if verb == "leave":
                leave: Leave = args[0]
                if self.fault == FAULTS[1]:
                    leave = leave._replace(suspect=False)
                return lines.leave(leave, now)[0]
            if verb == "inspect":
                return lines.inspect(args[0], now, args[1])
            found = getattr(lines, verb)(*args, now)
            return found[0]


class _Talk(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        server: Any = self.server
        with contextlib.suppress(OSError):
            for line in self.rfile:
                verb, login, args = line.decode().split(" ")
                reply = server.refusal(verb, login)
                reply = reply or server.answer(verb, pickle.loads(base64.b64decode(args)))
                self.wfile.write(base64.b64encode(pickle.dumps(reply)) + b"\n")


class ToyStore:
    """The store: one request at a time on one connection; a subclass opens and asks."""

    capabilities = CAPABILITIES
    batch_max, patience = 100, 4.0
    watch_every = lease_max = math.inf
    fault = ""

    def __init__(self, url: StoreURL) -> None:
        host, _, port = url.host.partition(":")
        self.address, self.label = (host, int(port)), f"toy://{url.host}"
        self.login = url.secret
        self.lost = (OSError, EOFError, *((KeyboardInterrupt,) if self.fault == FAULTS[5] else ()))

    async def ask(self, within: float, verb: str, *args: Any) -> Any:
        raise NotImplementedError

    async def join(self, claim: Claim, wait: bool, within: float) -> Joined:
        if self.fault == FAULTS[6] and not wait:
            for line in await self.inspect(claim.spec.name, within, True):
                for _ in line.claims:
                    await self.inspect(claim.spec.name, within, True)
        return await self.ask(within, "join", claim, wait)

    async def renew(self, renewals: Sequence[Renewal], within: float) -> Any:
        return await self.ask(within, "renew", list(renewals))

    async def turn(self, claim: Claim, ticket: int, within: float) -> Any:
        return await self.ask(within, "turn", claim, ticket)

    async def change(self, change: Change, within: float) -> Any:
        return await self.ask(within, "change", change)

    async def leave(self, leave: Leave, within: float) -> bool:
        try:
            return await self.ask(within, "leave", leave)
        except StoreUnavailable:
            if self.fault == FAULTS[2]:
                return True
            raise

    async def break_(self, name: str, ticket: int, within: float) -> bool:
        return await self.ask(within, "break_", name, ticket)

    async def join_free(self, claims: Sequence[Claim], within: float) -> list[Held] | None:
        return await self.ask(within, "join_free", list(claims))

    async def leave_all(self, leaves: Sequence[Leave], within: float) -> list[bool]:
        return [await self.leave(leave, within) for leave in leaves]

    async def wait(self, claim: Claim, waiting: Waiting, seconds: float) -> Granted | None:
        await self.sleep(min(seconds, 0.1))
        return None

    async def sleep(self, seconds: float) -> None:
        raise NotImplementedError

    async def inspect(self, prefix: str, within: float, exact: bool = False) -> Any:
        return await self.ask(within, "inspect", prefix, exact)

    async def resize(self, name: str, capacity: int, within: float) -> Any:
        return await self.ask(within, "resize", name, capacity)

    async def changed(self, within: float) -> bool:
        return False

    def unlisten(self, claim: Claim) -> None:
        pass

    async def close(self) -> None:
        pass

    def forked(self) -> None:
        pass

    def request(self, verb: str, args: tuple[Any, ...]) -> bytes:
        return f"{verb} {self.login} {base64.b64encode(pickle.dumps(args)).decode()}\n".encode()

    def read(self, line: bytes) -> Any:
        answer = pickle.loads(base64.b64decode(line))
        if not isinstance(answer, ConfigError):
            return answer
        raise StoreUnavailable(str(answer)) if self.fault == FAULTS[8] else answer

    def limit(self, within: float) -> float:
        return 5.0 if self.fault == FAULTS[4] else within


class Blocking(ToyStore):
    """For threads: a connection per request, which is slow and safe."""

    async def ask(self, within: float, verb: str, *args: Any) -> Any:
        try:
            with socket.create_connection(self.address, self.limit(within)) as one:
                one.settimeout(self.limit(within))
                one.sendall(self.request(verb, args))
                # A finalizer would swallow Ctrl-C.
                with one.makefile("rb") as lines:
                    line = lines.readline()
            return self.read(line)
        except self.lost as wrong:
            raise StoreUnavailable(f"{self.label} did not answer: {wrong}") from wrong

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class Aio(ToyStore):
    """For one event loop."""

    async def ask(self, within: float, verb: str, *args: Any) -> Any:
        # In a separate task, because a time-out of asyncio cancels the task in which it was set,
        # and a part of holdfast's requests belongs to no task.
        asking = asyncio.ensure_future(self.asked(self.request(verb, args)))
        try:
            if not (await asyncio.wait([asking], timeout=self.limit(within)))[0]:
                raise StoreUnavailable(f"{self.label} is silent")
            return self.read(asking.result())
        except self.lost as wrong:
            raise StoreUnavailable(f"{self.label} did not answer: {wrong!r}") from wrong
        finally:
            asking.cancel()

    async def asked(self, request: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(*self.address, limit=1 << 24)
        try:
            writer.write(request)
            return await reader.readline()
        finally:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                writer.close()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def install(fault: str = "") -> None:
    """Make ``toy://`` a scheme of holdfast in this process, with this mistake in the store."""
    module = types.ModuleType("toy_store")
    made: dict[str, Any] = {
        "CAPABILITIES": CAPABILITIES,
        "OPTIONS": {},
        "open_blocking": type("Blocking", (Blocking,), {"fault": fault}),
        "open_aio": type("Aio", (Aio,), {"fault": fault}),
    }
    vars(module).update(made)
    sys.modules["toy_store"] = module
    BUILTIN["toy"] = "toy_store"
