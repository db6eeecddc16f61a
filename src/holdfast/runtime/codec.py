"""Requests to the procedures of a server, from tables: one row for each verb.

A row lists the parameters of a procedure in order, as in ``claim.id:t wait:yes $window``. Each is a
field of the first argument, or an argument, with its *kind*, which names the function that packs
it; or a constant, after a ``$``. The arguments of a verb have the order in which its row first
names them. The store brings the kinds, and makes a request from the packed values.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from itertools import repeat
from operator import attrgetter, call, itemgetter
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

P = ParamSpec("P")
A = TypeVar("A")
#: Packs one value.
Pack = Callable[[Any], Any]
_FIELD = re.compile(r"([\w.$]+):?(\S*)")


class Field(NamedTuple):
    """One parameter: where its value comes from, and its kind."""

    source: str
    kind: str


class Row(ABC, Generic[P, A]):
    """A verb in a table: on an instance, a function that makes a request of its arguments.

    The function is made when it is first used.
    """

    def __init__(self, fields: str) -> None:
        self.name = ""
        self.fields = [Field(*found) for found in _FIELD.findall(fields)]

    def __set_name__(self, _: type[object], name: str) -> None:
        self.name = name

    def __get__(self, table: Any, _: type[object]) -> Callable[P, A]:
        made: Callable[P, A] = self.made(table)
        vars(table)[self.name] = made
        return made

    @abstractmethod
    def made(self, table: Any) -> Callable[P, A]:
        """Return the function for this instance of the table."""


def reader(paths: Iterable[str]) -> Callable[[Any], Iterable[Any]]:
    """Return a function that reads these fields of a record; no paths: the record, for each.

    >>> reader(["real"])(7), reader(["real", "imag"])(7), next(reader(["", ""])(7))
    ((7,), (7, 0), 7)
    """
    known = [path for path in paths if path]
    if not known:
        return repeat
    read = attrgetter(*known)
    return read if len(known) > 1 else lambda record: (read(record),)


def packed(fields: str, kinds: Mapping[str, Pack]) -> Callable[[Any], bytes]:
    """Return a function that packs these fields of a record, one after the other.

    >>> packed("real:n imag:n", {"n": lambda number: b"%d;" % number})(7)
    b'7;0;'
    """
    found = _FIELD.findall(fields)
    read, packs = reader(path for path, _ in found), [kinds[kind] for _, kind in found]
    return lambda record: b"".join(map(call, packs, read(record)))


def encoder(
    fields: list[Field],
    pack: Callable[[str], Pack],
    constants: Mapping[str, Any],
    request: Callable[[tuple[Any, ...]], A],
) -> Callable[..., A]:
    """Return a function that packs its arguments as the parameters of a row.

    ``pack`` finds what packs a kind, and ``request`` makes a request of all parameters.

    >>> parts = [Field("a.real", "n"), Field("$c", ""), Field("a.imag", "n"), Field("b", "n")]
    >>> encoder(parts, {"n": str}.__getitem__, {"c": "-"}, "/".join)(7, 8)
    '7/-/0/8'
    """
    roots = [field.source.partition(".")[0] for field in fields]
    names = [*dict.fromkeys(root for root in roots if root[0] != "$")]
    first, rest = names[:1], names[1:]
    # The order in which values are packed: fields of the first argument, the others, constants.
    places = [at for at, root in enumerate(roots) if root in first]
    packs = [pack(fields[at].kind) for at in places]
    read = reader(fields[at].source.partition(".")[2] for at in places)
    places += [roots.index(name) for name in rest]
    others = [pack(fields[at].kind) for at in places[len(packs) :]]
    places += [at for at, root in enumerate(roots) if root[0] == "$"]
    fixed = tuple(constants[roots[at][1:]] for at in places[len(packs) + len(others) :])
    order: Callable[[tuple[Any, ...]], tuple[Any, ...]] = tuple
    if places != sorted(places):
        order = itemgetter(*(places.index(at) for at in range(len(fields))))

    def one(record: Any) -> A:
        return request(order((*map(call, packs, read(record)), *fixed)))

    def several(record: Any, *more: Any) -> A:
        return request(order((*map(call, packs, read(record)), *map(call, others, more), *fixed)))

    if not names:
        return lambda: request(fixed)
    return several if rest else one
