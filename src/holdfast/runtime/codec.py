"""Requests to the procedures of a server, from tables: one row for each verb.

A row lists the parameters of a procedure in order, as in ``claim.id:t wait:yes $window``. A
parameter is an argument of the verb, a field of its first argument, or (after a ``$``) a constant.
After the colon is its *kind*: the name of the function that packs the value. A ``*`` as in
``renewals*ttl:us`` means: this field of each item of the argument. The arguments of a verb have the
order in which its row first names them. The store provides the kinds, and makes a request from the
packed values.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from itertools import repeat
from operator import attrgetter, itemgetter
from typing import Any, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
A = TypeVar("A")
#: ``operator.call``; checkers of types can't match its type with ``map``.
call: Any = operator.call
#: Packs one value.
Pack = Callable[[Any], Any]
#: A parameter: the source of its value, and its kind.
Field = tuple[str, str]


class Row(ABC, Generic[P, A]):
    """A verb in a table. On an instance of the table, the row is a function that makes a request.
    The function is made at its first use, and only once.
    """

    def __init__(self, fields: str) -> None:
        self.name, self._fields = "", fields

    def __set_name__(self, _: type[object], name: str) -> None:
        self.name = name

    def __get__(self, table: Any, _: type[object]) -> Callable[P, A]:
        made: Callable[P, A] = self.made(table, parsed(self._fields))
        vars(table)[self.name] = made
        return made

    @abstractmethod
    def made(self, table: Any, fields: list[Field]) -> Callable[P, A]:
        """Return the function for this instance of the table."""


def parsed(fields: str) -> list[Field]:
    """Return the parameters of a row.

    >>> parsed("claim.id:t renewals*ttl:us $window")
    [('claim.id', 't'), ('renewals', '*ttl:us'), ('$window', '')]
    """
    found = []
    for field in fields.split():
        source, star, path = field.partition("*")
        if not star:
            source, _, path = field.partition(":")
        found.append((source, star + path))
    return found


def reader(paths: Iterable[str]) -> Callable[[Any], Iterable[Any]]:
    """Return a function that reads these fields of a record. If all paths are empty, the function
    repeats the record itself.

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
    paths, names = zip(*parsed(fields), strict=True)
    read, packs = reader(paths), [kinds[name] for name in names]
    return lambda record: b"".join(map(call, packs, read(record)))


def encoder(
    fields: list[Field],
    pack: Callable[[str], Pack],
    constants: Mapping[str, Any],
    request: Callable[[tuple[Any, ...]], A],
) -> Callable[..., A]:
    """Return a function that packs its arguments as the parameters of a row.

    ``pack`` returns the function that packs a kind, and ``request`` makes a request from all
    parameters.

    >>> row = parsed("a.real:n $c a.imag:n b:n")
    >>> encoder(row, {"n": str}.__getitem__, {"c": "-"}, "/".join)(7, 8)
    '7/-/0/8'
    """
    roots = [source.partition(".")[0] for source, _ in fields]
    names = list(dict.fromkeys(root for root in roots if root[0] != "$"))
    # Values are packed in this order: fields of the first argument, the other arguments, constants.
    first = [at for at, root in enumerate(roots) if root in names[:1]]
    others = [roots.index(name) for name in names[1:]]
    places = [*first, *others, *(at for at, root in enumerate(roots) if root[0] == "$")]
    order: Callable[[tuple[Any, ...]], tuple[Any, ...]] = tuple
    if places != sorted(places):
        order = itemgetter(*map(places.index, range(len(places))))
    read = reader(fields[at][0].partition(".")[2] for at in first)
    packs = [pack(fields[at][1]) for at in first]
    more = [pack(fields[at][1]) for at in others]
    fixed = tuple(constants[root[1:]] for root in roots if root[0] == "$")

    def one(record: Any) -> A:
        return request(order((*map(call, packs, read(record)), *fixed)))

    def several(record: Any, *rest: Any) -> A:
        return request(order((*map(call, packs, read(record)), *map(call, more, rest), *fixed)))

    if not names:
        return lambda: request(fixed)
    return several if others else one
