"""Values in an external cache, refresh leases in the store: guarantees and weak points."""

from __future__ import annotations

import base64
import logging
import math
import time
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import Client, ConfigError, EntryState, Guard, NotSupported, StoreUnavailable
from holdfast.caches import blocking, mapping
from holdfast.core.guard import elsewhere, refresh
from holdfast.core.guard.codec import ELSEWHERE
from holdfast.core.guard.model import Entry, Finish
from holdfast.core.guard.ports import guards_of
from holdfast.runtime.blocking import run_sync
from tests.caches.conftest import Made, Shelf


def never() -> Any:
    raise AssertionError("there is a value")


def once(shelf: Shelf, verb: str, then: Callable[[], object]) -> None:
    """Call a function just before the next call of this verb of the cache."""

    def before(asked: str, key: str) -> None:
        if asked == verb:
            shelf.before = lambda verb, key: None
            then()

    shelf.before = before


def kept(guard: Guard) -> Any:
    """Return the store's record of the entry, which has a marker instead of the value."""
    (value,) = run_sync(guards_of(guard._ctx.store).read([Entry(guard.name, "")], 5))
    return value


def test_a_fresh_value_is_one_read_of_the_cache_and_the_store_is_not_asked(
    made: Made, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard = made()
    assert guard.get(lambda: "text") == "text"
    assert (len(shelf.values), kept(guard).data) == (1, ELSEWHERE)
    assert (guard.inspect().size, guard.inspect().version) == (len(b"ttext"), kept(guard).version)
    shelf.asked.clear()
    monkeypatch.setattr(guard._elsewhere, "_guards", None)
    assert guard.get(never) == "text"
    assert shelf.asked == ["get"]


def test_guards_made_again_over_one_cache_share_their_state(shelf: Shelf, own_name: str) -> None:
    def guard(cache: object) -> Guard:
        return client.guard(own_name, ttl=60, cache=cache)

    values: dict[str, Any] = {}
    with Client(f"memory://{own_name}") as client:
        plain, mapped = guard(shelf), guard(values)
        assert plain._shared is guard(shelf)._shared
        assert mapped._shared is guard(values)._shared is guard(mapping(values))._shared
        assert len({plain._shared, mapped._shared, guard(None)._shared}) == 3


def test_what_the_cache_has_lost_is_computed_by_one(made: Made, shelf: Shelf) -> None:
    ours, theirs = made(), made()
    assert ours.get(lambda: 1) == 1
    shelf.values.clear()
    assert ours.inspect().state is EntryState.MISSING
    assert theirs.get(lambda: 2) == 2
    assert ours.get(never) == 2


def test_what_the_cache_brings_back_from_before_is_not_taken_for_the_present(
    made: Made, shelf: Shelf
) -> None:
    assert made(ttl=0.2, stale=60).get(lambda: 1) == 1
    before = dict(shelf.values)
    time.sleep(0.25)
    assert made(stale=60).get(lambda: 2) == 2
    shelf.values.update(before)
    assert made(stale=60).get(lambda: 3) == 3


def test_what_is_invalidated_while_it_is_computed_never_gets_into_the_cache(
    made: Made, shelf: Shelf
) -> None:
    ours, theirs = made(), made()

    def old() -> str:
        assert theirs.invalidate() == 0
        return "old"

    assert ours.get(old) == "old"
    assert "set" not in shelf.asked
    assert theirs.get(lambda: "new") == "new"


def test_what_is_invalidated_while_it_is_written_is_taken_out_again(
    made: Made, shelf: Shelf
) -> None:
    ours, theirs = made(), made()
    once(shelf, "set", theirs.invalidate)
    assert ours.get(lambda: "old") == "old"
    assert shelf.values == {}
    assert ours.stats().refused == 1
    assert theirs.get(lambda: "new") == "new"
    assert ours.get(never) == "new"


def test_what_is_taken_out_again_is_only_our_own(made: Made, shelf: Shelf) -> None:
    ours, theirs = made(), made()

    def meanwhile() -> None:
        theirs.invalidate()
        assert theirs.get(lambda: "new") == "new"
        newer = dict(shelf.values)
        # Their value is written last: it is in the cache when this guard checks for its own value.
        once(shelf, "get", lambda: shelf.values.update(newer))

    once(shelf, "set", meanwhile)
    assert ours.get(lambda: "old") == "old"
    assert made().get(never) == "new"


def test_an_invalidation_empties_the_cache(made: Made, shelf: Shelf) -> None:
    ours, theirs = made(), made()
    assert ours.get_many(["a", "b"], str.upper) == {"a": "A", "b": "B"}
    assert theirs.invalidate("a", "z") == 1
    assert len(shelf.values) == 1
    assert ours.get_many(["a", "b"], str.title) == {"a": "A", "b": "B"}


def test_a_cache_that_fails_is_a_store_that_does_not_answer(
    made: Made, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refresh, "SILENCE_S", 0.2)
    monkeypatch.setattr(refresh, "DOWN_S", 0.2)

    def broken(verb: str, key: str) -> None:
        raise LookupError("no route to the cache")

    guard, patient = made(), made(on_store_error="compute")
    shelf.before = broken
    with pytest.raises(StoreUnavailable, match=r"Shelf\) failed: LookupError: no route"):
        guard.get(never)
    assert patient.get(lambda: "alone") == "alone"
    assert shelf.values == {}
    shelf.before = lambda verb, key: None
    assert guard.get(lambda: "stored") == "stored"


def test_a_foreign_value_counts_as_missing_and_is_logged_once(
    made: Made, shelf: Shelf, caplog: pytest.LogCaptureFixture
) -> None:
    guard = made()
    assert guard.get(lambda: 1) == 1
    (key,) = shelf.values
    whole = shelf.values[key]
    for number, junk in enumerate(["b'HF1'", b"", b"HF1", whole[:30], 7, b"x" * 99, ["HF1"]]):
        shelf.values[key] = junk
        with caplog.at_level(logging.WARNING, "holdfast"):
            assert guard.get(lambda number=number: number) == number
    assert len(caplog.records) == 1
    assert "that holdfast did not write" in caplog.text


def test_keys_are_plain_short_and_never_two_at_one() -> None:
    texts = ["", "a", "a/b", "a:b", "{a}", "a b\n", "\N{SNOWMAN}", "k" * 512, "%", "%25", "K" * 512]
    texts += ["\N{SNOWMAN}" * 170, "é" * 100, "holdfast:"]
    keys = {elsewhere.key_of(Entry(guard or "g", key)) for guard in texts for key in texts}
    assert len(keys) == len({(guard or "g", key) for guard in texts for key in texts})
    for key in keys:
        assert key.isascii()
        assert key.isprintable()
        assert " " not in key
        assert len(key) <= 200


@pytest.mark.parametrize("data", [b"b", b"t" + "\N{SNOWMAN}".encode() * 9, b"j[1]"])
def test_a_value_comes_back_as_bytes_or_as_text(data: bytes) -> None:
    raw = elsewhere.wrap(Finish(Entry("g", ""), "id", 7, data, 10, 5, 0, 0.25), now=1000.0)
    for form in (raw, bytearray(raw), memoryview(raw), base64.b64encode(raw).decode()):
        assert elsewhere.unwrap(form, 1002.0) == (data, 8.0, 13.0, 0.25, 7)


def test_ages_that_are_no_numbers_are_no_value() -> None:
    raw = elsewhere.wrap(Finish(Entry("g", ""), "id", 7, b"t", math.nan, 5, 0, 0.25), now=0.0)
    assert elsewhere.unwrap(raw, 0.0) is None


def test_a_guard_without_the_cache_is_refused_and_starts_empty_afterwards(
    made: Made,
) -> None:
    with_cache, without = made(), made(cache=None)
    assert with_cache.get(lambda: 1) == 1
    with pytest.raises(ConfigError, match="give it the same cache="):
        without.get(never)
    assert without.invalidate() == 1
    assert without.get(lambda: 2) == 2
    with_cache.invalidate()
    assert without.get(lambda: 3) == 3
    assert made(cache=Shelf()).get(lambda: 4) == 4


def test_a_clock_that_is_an_hour_ahead_computes_too_often_and_one_at_a_time(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, ahead = made(), made()
    assert ours.get(lambda: 1) == 1
    real = blocking.Port.wall
    monkeypatch.setattr(ahead._elsewhere._cache, "wall", lambda: real() + 3600)  # type: ignore[union-attr]
    assert ahead.get(lambda: 2) == 2
    assert ahead.get(never) == ours.get(never) == 2


@pytest.mark.parametrize("cache", ["default", 7, Shelf, object()])
def test_what_is_no_cache_is_refused(made: Made, cache: object) -> None:
    with pytest.raises(ConfigError, match="it needs get"):
        made(cache=cache)


def test_a_cache_for_asyncio_is_refused_by_threads(made: Made) -> None:
    class Plain(Shelf):
        async def get(self, key: str) -> Any:
            return None

    class Sly(Shelf):
        def get(self, key: str) -> Any:
            return Awaited()

    class Awaited:
        def __await__(self) -> Any:
            yield

    with pytest.raises(ConfigError, match="AsyncClient"):
        made(cache=Plain())
    with pytest.raises(ConfigError, match="must be awaited"):
        made(cache=Sly()).get(never)


def test_a_store_without_guards_gives_the_reason_and_names_cache() -> None:
    pytest.importorskip("kazoo")
    with Client("zookeeper://127.0.0.1:1") as client:
        assert not client.supports("guards")
        with pytest.raises(NotSupported, match=r"memory of each server.*majority.*cache="):
            client.guard("g", ttl=60, cache=Shelf())
