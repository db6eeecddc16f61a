"""Each stored bit of a refresh guard is flipped once: values are still computed and stored."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast import Client, ConfigError, HoldfastError
from holdfast.core.guard.model import Abandon, Busy, Duty, Entry, Failing, Finish, Wish
from holdfast.stores.redis import value_replies as replies
from holdfast.stores.redis.value_calls import ValueRequests
from holdfast.stores.redis.value_keys import HEAD_BYTES, MARK
from tests.servers.fixtures import NewRedis
from tests.stores.redis.verbs import LABEL, START, Verbs

#: The refresh lease, and the pause after a failure.
LEASE_S, PAUSE_S = 2.0, 3.0
#: Within this time a caller gets the refresh lease, whatever bit was flipped.
SOON_S = 15.0
ID, OTHER = "a" * 32, "b" * 32
REQUESTS = ValueRequests()


class Desk:
    """The refresh lease of one entry, requested by plain calls on the test's clock."""

    def __init__(self, verbs: Verbs, key: str) -> None:
        self.verbs, self.entry = verbs, Entry("flipped", key)
        self.place = REQUESTS.place(self.entry)
        self.duty = self.place.duty.split(b"\r\n")[1]

    def begin(self, id_: str, seat: bytes = b"") -> object:
        wish = Wish(self.entry, id_, "somebody", LEASE_S)
        return replies.begun(self.verbs.ask(REQUESTS.begin(wish, seat)), self.place, LABEL)

    def finish(self, id_: str, fence: int) -> bool:
        finish = Finish(self.entry, id_, fence, b"value", 60.0, 0.0, 0.0, 0.1)
        return replies.yes(self.verbs.ask(REQUESTS.finish(finish)), LABEL)

    def fields(self) -> dict[bytes, bytes]:
        """Return the stored fields of the refresh lease."""
        return self.verbs.client.hgetall(self.duty)


def computing(desk: Desk) -> None:
    """One caller has the refresh lease, and another one waits."""
    assert isinstance(desk.begin(ID), Duty)
    assert isinstance(desk.begin(OTHER, b"1 somewhere"), Busy)


def failing(desk: Desk) -> None:
    """After a failure no caller may compute for a while."""
    assert isinstance(desk.begin(ID), Duty)
    abandon = Abandon(desk.entry, ID, LEASE_S, PAUSE_S, PAUSE_S, "no such thing")
    assert replies.yes(desk.verbs.ask(REQUESTS.abandon(abandon)), LABEL)
    assert isinstance(desk.begin(OTHER, b"1 somewhere"), Failing)


def kept_after(desk: Desk) -> float | str:
    """Return the seconds until a third caller computes and stores a value, or why it can't."""
    passed, said = LEASE_S, ""
    while passed < 120:
        passed += 0.5
        desk.verbs.at(START + passed)
        try:
            answer = desk.begin("c" * 32)
            if isinstance(answer, Duty):
                stored = desk.finish("c" * 32, answer.fence)
                return passed if stored else f"not stored under {answer.fence}"
            said = repr(answer)
        except HoldfastError as clear:
            said = f"clear: {clear}"
    return said


@pytest.mark.parametrize("scene", [computing, failing])
def test_no_flipped_bit_keeps_a_value_from_being_computed_and_stored(
    new_redis: NewRedis, scene: Callable[[Desk], None]
) -> None:
    with Verbs(new_redis(), clock=True) as verbs:
        verbs.at(START)
        shape = Desk(verbs, "shape")
        scene(shape)
        shown = shape.fields().items()
        bits = [(field, bit) for field, raw in shown for bit in range(8 * len(raw))]
        assert len(bits) > 500
        late: dict[str, float | str] = {}
        for field, bit in bits:
            verbs.at(START)
            desk = Desk(verbs, f"{field.hex()}-{bit}")
            scene(desk)
            whole = bytearray(desk.fields()[field])
            if bit >= 8 * len(whole):
                continue
            whole[bit // 8] ^= 1 << bit % 8
            verbs.client.hset(desk.duty, field, bytes(whole))
            took = kept_after(desk)
            if isinstance(took, str) or took > LEASE_S + SOON_S:
                late[f"{field!r} bit {bit}"] = took
    assert late == {}


def test_a_value_whose_head_is_flipped_is_computed_again_or_served(new_redis: NewRedis) -> None:
    server = new_redis()
    wrong: list[str] = []
    with Verbs(server) as verbs, Client(server.url) as client:
        guard = client.guard("values", ttl=60)
        for bit in range(8 * HEAD_BYTES):
            key = f"bit {bit}"
            assert guard.get(lambda: "value", key=key) == "value"
            name = REQUESTS.place(Entry("values", key)).value.split(b"\r\n")[1]
            verbs.client.setbit(name, bit, 1 - verbs.client.getbit(name, bit))
            computed = 0

            def again() -> str:
                nonlocal computed
                computed += 1
                return "value"

            try:
                for _ in range(3):
                    assert guard.get(again, key=key) == "value"
                guard.inspect(key)
            except ConfigError as foreign:  # it could be a key of another program
                if bit >= 8 * len(MARK):
                    wrong.append(f"bit {bit}: {foreign}")
            except HoldfastError as failed:
                wrong.append(f"bit {bit}: {failed!r:.150}")
            if computed > 1:
                wrong.append(f"bit {bit}: computed {computed} times")
            assert wrong == []
