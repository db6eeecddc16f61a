"""A port of the store that sends plain calls at the moment that the test has set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from holdfast.stores.redis.scripts import Call
from holdfast.stores.redis.value_keys import Place
from tests.stores.redis.verbs import LABEL, Verbs


class PlainPort:
    """See ``store.Port``; ``tag`` returns the tag of the next call."""

    label, clustered = LABEL, False

    def __init__(self, verbs: Verbs, tag: Callable[[], bytes] = bytes) -> None:
        self.verbs, self.tag = verbs, tag

    async def ask(self, call: Call, within: float) -> Any:
        return self.verbs.ask(call, self.tag())

    async def ask_many(self, calls: Sequence[Call], within: float) -> list[Any]:
        return [self.verbs.ask(call, self.tag()) for call in calls]

    async def fetch(self, places: Sequence[Place], within: float) -> list[Any]:
        keys = [(word, place.value) for place in places for word in (b"PTTL", b"GET")]
        return [self.verbs.raw(b"*2\r\n$%d\r\n%b\r\n%b" % (len(w), w, key)) for w, key in keys]
