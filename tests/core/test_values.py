"""Payloads and guard values: exactly the values that come back unchanged are accepted."""

from __future__ import annotations

import array
import collections
import datetime as dt
import re
import sys
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import ConfigError
from holdfast.core.guard import codec
from holdfast.core.queue import payload
from holdfast.core.values import DEPTH_MAX
from tests import values
from tests.torture.scale import FULL, seed_of

MOST = 1 << 20
Pack = Callable[[Any], bytes]


@pytest.fixture(params=["payload", "value"])
def pack(request: pytest.FixtureRequest) -> Pack:
    """The pack function of a queue, and that of a guard."""
    if request.param == "payload":
        return lambda value: payload.pack(value, MOST)
    return lambda value: codec.pack(value, None, MOST)


def test_only_a_payload_that_would_come_back_changed_is_refused(pack: Pack) -> None:
    rolls = values.Rolls(seed_of("values"))
    for _ in range(100_000 if FULL else 2000):
        value, comes_back = values.drawn(rolls)
        if comes_back:
            assert values.back(payload.unpack(pack(value))) == values.back(value)
        else:
            with pytest.raises(ConfigError, match=r"comes back unchanged; (payload|value)"):
                pack(value)


@pytest.mark.parametrize("limit", [0, 640, 4300, 10_000])
def test_the_limit_of_this_interpreter_changes_nothing_for_others(limit: int, pack: Pack) -> None:
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(limit)
    try:
        for number in (10**4300, -(10**4300), 10**9000):
            with pytest.raises(ConfigError, match=re.escape("['a'][1] is a number of more than")):
                pack({"a": [1, number]})
        assert pack([10**639]) == b"j[1" + b"0" * 639 + b"]"
        if limit != 640:
            assert len(pack(10**4300 - 1)) == 4301
    finally:
        sys.set_int_max_str_digits(before)


@pytest.mark.parametrize(
    "value, said",
    [
        ({1: "a"}, "[1] is under a key of the type int, which would come back as str"),
        ({"a": [0, {None: 1}]}, "['a'][1][None] is under a key of the type NoneType"),
        ({"a": [[], (1, 2)]}, "['a'][1] has the type tuple and would come back as list: write"),
        ([values.Number.ONE], "[0] has the type Number and would come back as int: write int("),
        (values.Text("a"), " has the type Text and would come back as str: write str(...) of it"),
        (collections.OrderedDict(), " has the type OrderedDict and would come back as dict"),
        ([1, float("nan")], "[1] is nan, which JSON doesn't have: write None or text"),
        ({"a": float("-inf")}, "['a'] is -inf, which JSON doesn't have"),
        ("\ud800", " has half a surrogate pair"),
        ({"a": ["b", "\udc80"]}, "['a'][1] has half a surrogate pair"),
        ({"\udc80": 1}, r"['\udc80'] is under a key with half a surrogate pair"),
        ([b"x"], "[0] has the type bytes: write text in its place, or bytes as the whole"),
        ([dt.date(2026, 1, 2)], "[0] has the type date: write its isoformat()"),
        ({1, 2}, " has the type set: write it as one of these"),
        (memoryview(array.array("i", [1])), " is a view of other things than bytes"),
        (["a", "a", ("a",), ("a",)], "[2] has the type tuple"),
    ],
)
def test_the_error_names_the_place_and_what_to_write(value: Any, said: str, pack: Pack) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        pack(value)


def test_the_error_of_a_guard_value_recommends_a_codec() -> None:
    with pytest.raises(ConfigError, match=r"value\[0\] has .* \(or give the guard a codec\)$"):
        codec.pack([()], None, MOST)


def test_what_contains_itself_is_refused_in_a_moment(pack: Pack) -> None:
    wide: list[Any] = []
    wide += [wide, wide]
    with pytest.raises(ConfigError, match=r"\[0\]\[\.\.\.\] has more than 100 levels, or contains"):
        pack(wide)


def test_a_view_that_was_released_is_refused(pack: Pack) -> None:
    view = memoryview(b"a")
    view.release()
    with pytest.raises(ConfigError, match="can't be read: operation forbidden on released"):
        pack(view)


def test_with_little_stack_left_a_value_is_refused_or_packed(pack: Pack) -> None:
    inner: list[Any] = []
    for _ in range(DEPTH_MAX - 1):
        inner = [inner]
    came = set()

    def sink() -> None:
        try:
            came.add(payload.unpack(pack(inner)) == inner)
        except ConfigError:
            came.add(False)
        sink()

    with pytest.raises(RecursionError):
        sink()
    assert came == {True, False}
