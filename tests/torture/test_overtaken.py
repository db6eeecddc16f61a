"""An undo never overtakes the request that it undoes. Work of any verb can be given up while its
request is on the way, waits in a queue, or isn't committed yet; nothing is left of it."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import urlsplit

import hiredis
import pytest

import holdfast
from holdfast import AsyncClient, HoldfastError
from holdfast.runtime.blocking import boottime, run_sync
from holdfast.testing import lag
from holdfast.testing.conformance import pulse
from holdfast.testing.faces import FACES, Face
from holdfast.testing.faults import CHUNKS, Proxy, delay_request
from holdfast.url import find
from tests.shared_stores import STORES as ALL
from tests.shared_stores import url_of
from tests.torture.given_up import CASES, Case, Given
from tests.torture.scale import seed_of, times

lag.watch()

#: If an interrupt arrives while a socket is made, nothing refers to the socket, and the collector
#: closes it.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

STORES = [one for one in ALL if one != "memory"]
CUTS = times(300, 6)
#: Maximum number of attempts in all: work that ends before it can be given up is tried again.
TRIES = 3 * CUTS
#: Maximum seconds that the next client waits. A claim that is left would stay for 5 s or more.
LEFT_S = 0.5
#: Seconds within which the work of a closed client must get its error.
STUCK_S = 15.0
#: Maximum delay of a request in seconds. Its undo takes another connection and isn't delayed.
LATE_S = 0.01
#: Seconds until the next try, if a signal arrives while no request is on the way.
AGAIN_S = 0.00002
#: Seconds until the next interrupt, if a finalizer has swallowed one.
SWALLOWED_S = 0.5
_STORES = str(Path(holdfast.__file__).parent / "stores")
#: The message that ends a call of a PostgreSQL function, and commits it.
SYNC = b"S\0\0\0\x04"


def _commits_apart(data: bytes) -> int:
    """A splitter for the proxy: bytes that arrive together are one message, except a `SYNC` at the
    end."""
    return len(data) - len(SYNC) if data.endswith(SYNC) and data != SYNC else len(data)


class _Chosen:
    """Choose one request about a name, or the message that commits it, after ``skip`` other
    requests."""

    def __init__(self, name: str, skip: int, commit: bool) -> None:
        raw = name.encode()
        self._words = (raw, raw.hex().encode(), raw.hex().upper().encode())
        self._skip, self._commit, self._next = skip, commit, False

    def __call__(self, message: bytes) -> bool:
        if self._next and message == SYNC:
            return True
        self._next = False
        if not any(word in message for word in self._words):
            return False
        self._skip -= 1
        self._next = self._commit and self._skip < 0
        return self._skip < 0 and not self._commit


@pytest.fixture(autouse=True)
def numbers_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let hiredis write numbers as text. hiredis 3.5 writes a number by its repr, where Python
    checks for signals; after a Ctrl-C there it uses a null pointer. redis-py passes numbers when it
    connects: the protocol and the database."""
    packed = hiredis.pack_command

    def pack(words: tuple[Any, ...]) -> bytes:
        return packed(tuple(str(word) if isinstance(word, int) else word for word in words))

    monkeypatch.setattr(hiredis, "pack_command", pack)


@contextlib.contextmanager
def _struck(after: float) -> Iterator[None]:
    """Raise Ctrl-C after ``after`` seconds, or as soon after that as a request is on the way."""

    def strike(_: int, frame: FrameType | None) -> None:
        while frame is not None and not frame.f_code.co_filename.startswith(_STORES):
            frame = frame.f_back
        if over:
            return
        signal.setitimer(signal.ITIMER_REAL, AGAIN_S if frame is None else SWALLOWED_S)
        if frame is not None:
            raise KeyboardInterrupt

    over = False
    before = signal.signal(signal.SIGALRM, strike)
    try:
        signal.setitimer(signal.ITIMER_REAL, after)
        yield
    finally:
        over = True  # a late one that wasn't seen yet has no effect after this
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


async def _thread_gives_up(work: Callable[[], Coroutine[Any, Any, Any]], after: float) -> bool:
    try:
        with _struck(after):
            await work()
    except KeyboardInterrupt:
        return True
    return False


async def _task_gives_up(work: Callable[[], Coroutine[Any, Any, Any]], after: float) -> bool:
    task = asyncio.create_task(work())
    await asyncio.sleep(after)
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()  # raises the error of the work
    return task.cancelled()


GIVES_UP = {"sync": _thread_gives_up, "aio": _task_gives_up}


class Cuts:
    """Cuts of one case at random moments: its work is begun and given up."""

    def __init__(self, face: Face, urls: tuple[str, str], proxy: Proxy | None, name: str) -> None:
        self._face, self._urls, self._proxy, self._name = face, urls, proxy, name
        self._dice = random.Random(seed_of(f"cuts of {name}"))
        self._names = self.cut = 0
        self.left: list[str] = []

    async def run(self, case: Case) -> None:
        ours, other = (self._face.client(url) for url in self._urls)
        async with ours, other:
            spans = [await self._whole(case, await self._given(case, ours, other)) for _ in "123"]
            while self.cut < CUTS and self._names < TRIES:
                await self._one(case, await self._given(case, ours, other), min(spans))

    async def _given(self, case: Case, ours: AsyncClient, other: AsyncClient) -> Given:
        """Prepare the case with a new name, and return its arguments."""
        self._names += 1
        given = Given(self._face, ours, other, f"{self._name}-{self._names}")
        return given._replace(made=await case.prepare(given)) if case.prepare else given

    async def _whole(self, case: Case, given: Given) -> float:
        """Return the seconds that the whole work takes; for endless work, those of the part after
        it."""
        began = time.monotonic()
        if not case.endless:
            await case.work(given)
            span = time.monotonic() - began
            await case.after(given._replace(cut=False))
            return span
        await case.after(given)
        return time.monotonic() - began

    async def _given_up(self, case: Case, given: Given, after: float) -> bool:
        """Start the work and give up after ``after`` seconds; return False if it had ended before
        that."""
        return await GIVES_UP[self._face.name](lambda: case.work(given), after)

    async def _one(self, case: Case, given: Given, span: float) -> None:
        how = self._dice.choice(["soon", "late", "uncommitted"])
        late = self._dice.uniform(0, LATE_S) if how != "soon" and self._proxy else 0.0
        armed = None
        if late and self._proxy is not None:
            commit = how == "uncommitted" and self._proxy.wire is not CHUNKS
            chosen = _Chosen(given.name, self._dice.choice([0, 0, 1]), commit)
            armed = self._proxy.arm(chosen, delay_request(late))
        after = self._dice.uniform(0, span + late)
        cut = await self._given_up(case, given, max(after, 1e-6))
        if armed is not None:
            armed.disarm()
        self.cut += cut
        began = boottime()
        await case.after(given._replace(cut=cut))
        took = boottime() - began
        late_by_itself = lag.since(began) + pulse.since(began)
        if took > LEFT_S + 2 * span + LATE_S + late_by_itself:
            self.left.append(
                f"{given.name}: {how} by {late * 1e3:.1f} ms, given up after {after * 1e3:.1f} ms "
                f"of {span * 1e3:.1f} ms: {took:.2f} s"
            )


class Closes(Cuts):
    """The same, but the client is closed during the work, by another thread or task."""

    async def run(self, case: Case) -> None:
        async with self._face.client(self._urls[1]) as other:
            spans = []
            while self._names < CUTS + len("123"):
                async with self._face.client(self._urls[0]) as ours:
                    async with ours.lock(f"{self._name}-warm"):  # it is connected
                        pass
                    given = await self._given(case, ours, other)
                    if len(spans) < len("123"):
                        spans.append(await self._whole(case, given))
                    else:
                        await self._one(case, given, min(spans))

    async def _given_up(self, case: Case, given: Given, after: float) -> bool:
        actor = self._face.start(lambda: case.work(given))
        await self._face.sleep(after)
        await given.ours.close()
        try:
            await actor.result(STUCK_S)
        except HoldfastError:
            return True
        return False


def play(
    kind: type[Cuts], request: pytest.FixtureRequest, store: str, face: str, verb: str, name: str
) -> Cuts:
    """Cut one verb on one store, and check that nothing is left."""
    case = CASES[verb]
    if case.needs and not getattr(find(f"{store}://")[0].CAPABILITIES, case.needs):
        pytest.skip(f"{store} has no {case.needs}")
    with contextlib.ExitStack() as ends:
        proxy = None
        if store == "sqlite":
            url = by_proxy = url_of(store, request, name)
        else:
            url = url_of(store, request, name)
            place = urlsplit(url)
            wire = CHUNKS._replace(requests=_commits_apart) if store == "postgresql" else CHUNKS
            proxy = ends.enter_context(Proxy(place.hostname or "", place.port or 0, wire))
            by_proxy = url.replace(f"{place.hostname}:{place.port}", f"127.0.0.1:{proxy.port}")
            ends.enter_context(pulse.felt(url))
        cuts = kind(FACES[face], (by_proxy, url), proxy, name)
        main = cuts.run(case)
        asyncio.run(main) if face == "aio" else run_sync(main)
    assert not cuts.left, "\n".join(cuts.left)
    return cuts


@pytest.mark.usual(8)
@pytest.mark.parametrize("verb", CASES)
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("store", STORES)
def test_what_is_given_up_at_any_moment_leaves_nothing_behind(
    request: pytest.FixtureRequest, own_name: str, store: str, face: str, verb: str
) -> None:
    cuts = play(Cuts, request, store, face, verb, own_name)
    # Requests of the embedded store take microseconds, so in a usual run perhaps no attempt is cut.
    assert cuts.cut >= times(CUTS // 10, 0)


@pytest.mark.usual(4)
@pytest.mark.parametrize("verb", [verb for verb in CASES if verb not in ("settle", "detach")])
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("store", STORES)
def test_what_is_on_its_way_when_its_client_closes_leaves_nothing_behind(
    request: pytest.FixtureRequest, own_name: str, store: str, face: str, verb: str
) -> None:
    play(Closes, request, store, face, verb, own_name)
