"""A generator of values for queues and guards: values that must come back equal, and others."""

from __future__ import annotations

import array
import collections
import datetime as dt
import decimal
import enum
import fractions
import math
import random
import types
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple


class Number(enum.IntEnum):
    """A value that is equal to a number, but has a different type."""

    ONE = 1


class Word(enum.StrEnum):
    """A value that is equal to a text, but has a different type."""

    A = "a"


class Plain(enum.Enum):
    """An enumeration that is equal to nothing else."""

    A = 1


class Text(str):
    """A text of a subclass of str."""

    __slots__ = ()


class Whole(int):
    """A number of a subclass of int."""


class Real(float):
    """A number of a subclass of float."""


class Octets(bytes):
    """Bytes of a subclass of bytes."""


class Several(list[Any]):
    """A list of a subclass of list."""


class Pair(NamedTuple):
    """A tuple that would come back as a list."""

    a: Any
    b: Any


Rolls = random.Random
HALVES = ("\ud800", "\udfff", "a\udc80", "\ud83d\ude00")
TEXTS = (
    "",
    "a",
    "\0",
    "\x7f\x80\x9f\xa0",
    "é\N{SNOWMAN}\U0001f600\U0010ffff",
    "\ufeff",
    "\ufffe\uffff",
    "\u2028\u2029\u202e",
    '"\\/\b\f\n\r\t',
    "e\u0301",
    "NaN",
    "null",
    "1",
    " " * 50,
)
FLOATS = (0.0, -0.0, 1.0, 0.1, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 1e16, 1e22)
INTS = (0, 1, -1, 2**31, 2**53 + 1, 2**63, -(2**64) - 1, 10**40, 10**639, 1 - 10**4300)

#: Leaves that come back equal.
LEAVES: tuple[Callable[[Rolls], Any], ...] = (
    lambda rolls: rolls.choice(TEXTS),
    lambda rolls: "".join(chr(_scalar(rolls)) for _ in range(rolls.randrange(12))),
    lambda rolls: rolls.choice(FLOATS) * rolls.choice((1, -1)),
    lambda rolls: rolls.uniform(-1, 1) * 10.0 ** rolls.randrange(-300, 300),
    lambda rolls: rolls.choice(INTS[:-1]),
    lambda rolls: rolls.randrange(-(1 << 70), 1 << 70),
    lambda rolls: rolls.random() < 0.5,
    lambda rolls: None,
    lambda rolls: {},
    lambda rolls: [],
)
#: Values that don't come back equal, alone or inside another value.
ODD: tuple[Callable[[Rolls], Any], ...] = (
    lambda rolls: (),
    lambda rolls: (leaf(rolls), leaf(rolls)),
    lambda rolls: Pair(1, leaf(rolls)),
    lambda rolls: Number.ONE,
    lambda rolls: Word.A,
    lambda rolls: Plain.A,
    lambda rolls: Text("a"),
    lambda rolls: Whole(1),
    lambda rolls: Real(1.5),
    lambda rolls: Octets(b"a"),
    lambda rolls: Several([1]),
    lambda rolls: collections.OrderedDict(a=1),
    lambda rolls: collections.defaultdict(list, a=[]),
    lambda rolls: collections.Counter("aab"),
    lambda rolls: collections.deque([1]),
    lambda rolls: types.MappingProxyType({"a": 1}),
    lambda rolls: math.nan,
    lambda rolls: rolls.choice((math.inf, -math.inf)),
    lambda rolls: rolls.choice(HALVES),
    lambda rolls: {rolls.choice(HALVES): 1},
    lambda rolls: 10**4300,
    lambda rolls: -(10**5000),
    lambda rolls: dt.datetime(2026, 1, 2, tzinfo=dt.UTC),
    lambda rolls: dt.date(2026, 1, 2),
    lambda rolls: dt.time(1),
    lambda rolls: dt.timedelta(1),
    lambda rolls: decimal.Decimal("1.10"),
    lambda rolls: fractions.Fraction(1, 3),
    lambda rolls: uuid.UUID(int=rolls.getrandbits(128)),
    lambda rolls: {1},
    lambda rolls: frozenset(),
    lambda rolls: range(3),
    lambda rolls: 1j,
    lambda rolls: array.array("i", [1]),
    lambda rolls: memoryview(array.array("i", [1])),
    lambda rolls: object(),
    lambda rolls: int,
    lambda rolls: len,
    lambda rolls: iter([1]),
    lambda rolls: {1: "a"},
    lambda rolls: {1: "a", "1": "b"},
    lambda rolls: {rolls.choice((None, True, 1.5, (1,), b"a", Word.A, Text("a"))): leaf(rolls)},
    lambda rolls: _deep(101, rolls),
    lambda rolls: _cycle(rolls),  # noqa: PLW0108 # it is defined below
)
#: Values that come back equal only if they are the whole value.
WHOLES: tuple[Callable[[Rolls], Any], ...] = (
    lambda rolls: rolls.randbytes(rolls.randrange(20)),
    lambda rolls: bytearray(rolls.randbytes(rolls.randrange(20))),
    lambda rolls: memoryview(rolls.randbytes(8))[:: rolls.choice((1, 2))],
)


def drawn(rolls: Rolls) -> tuple[Any, bool]:
    """Return a value, and whether it comes back equal."""
    chance = rolls.random()
    if chance < 0.1:
        return rolls.choice(WHOLES)(rolls), True
    if chance < 0.2:
        return leaf(rolls), True
    if chance < 0.3:
        return rolls.choice(ODD)(rolls), False
    if chance < 0.35:
        return _deep(100, rolls), True
    if chance < 0.7:
        return _tree(rolls, leaf(rolls)), True
    return _tree(rolls, rolls.choice((*ODD, *WHOLES))(rolls)), False


def back(value: Any) -> str:
    """Return a text that identifies a value after its round trip, with its types.

    1, True and 1.0 give three texts; 0.0 and -0.0 give two.
    """
    return (
        _told(bytes(value)) if isinstance(value, bytes | bytearray | memoryview) else _told(value)
    )


def _told(value: Any) -> str:
    if type(value) is int:
        return hex(value)  # of any length
    if type(value) is list:
        return f"[{','.join(map(_told, value))}]"
    if type(value) is dict:
        return f"{{{','.join(f'{key!r}:{_told(item)}' for key, item in value.items())}}}"
    return f"{type(value).__name__} {value!r}"


def leaf(rolls: Rolls) -> Any:
    """Return a value that contains no other value and comes back equal."""
    return rolls.choice(LEAVES)(rolls)


def _scalar(rolls: Rolls) -> int:
    code = rolls.choice((rolls.randrange(256), rolls.randrange(0x110000)))
    return code if not 0xD800 <= code < 0xE000 else 0x20


def _tree(rolls: Rolls, inner: Any) -> Any:
    """Return lists and mappings around this value."""
    for _ in range(rolls.randrange(1, 6)):
        others = [leaf(rolls) for _ in range(rolls.randrange(4))]
        at = rolls.randrange(len(others) + 1)
        parts = [*others[:at], inner, *others[at:]]
        if rolls.random() < 0.5:
            inner = parts
        else:
            inner = {f"{rolls.choice(TEXTS)}{nth}": one for nth, one in enumerate(parts)}
    return inner


def _deep(levels: int, rolls: Rolls) -> Any:
    inner: Any = []
    for _ in range(levels - 1):
        inner = [inner] if rolls.random() < 0.5 else {"a": inner}
    return inner


def _cycle(rolls: Rolls) -> Any:
    one: list[Any] = [leaf(rolls)]
    one.append(rolls.choice(([one, one], {"a": one})))
    return one
