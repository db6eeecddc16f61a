"""The two faces offer the same names and arguments, and their docstrings promise the same."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any, get_overloads

import pytest

import holdfast.aio
import holdfast.sync
from tests.tidy.covered import enough

#: Members of only one face, with the reason. "Class.member", "Class.member(argument)" or
#: "function".
ALONE = {
    "default_client": "a client for asyncio belongs to its event loop, so none can be everybody's",
    "lock": "likewise",
    "Client.lock(cancel_on_lost)": "a task can be cancelled from outside, a thread can't",
}
#: Docstrings that differ on purpose, with the reason.
WORDED = {
    "Client": "a client belongs to threads or to one event loop",
    "Client.lock": "one has cancel_on_lost, which can only be had for tasks",
}
#: A word of the asyncio face -> the word of the face for threads.
WORDS = [
    (r"\basync for\b", "for"),
    (r"\basync with\b", "with"),
    (r"\b(?:async|await) ", ""),
    (r"\bAsync(?=[A-Z])", ""),
    (r"\basyncio\.(?=Lock|Semaphore)", "threading."),
    (r"\bfor asyncio\b", "for threads"),
    (r"\b(?:Awaitable|Coroutine|Pending)\[(?:Any, Any, )?(.+?)\](?=$|\])", r"\1"),
    (r"__a(enter|exit)__", r"__\1__"),
    (r"\s+", " "),
]
SPECIAL = {"__call__", "__enter__", "__exit__", "__init__", "__reduce__"}


def plain(text: str) -> str:
    """Return a text of the asyncio face in the words of the face for threads."""
    for word, instead in WORDS:
        text = re.sub(word, instead, text)
    return text.strip()


def offers(thing: Any) -> dict[str, Any]:
    """Return the public members of a module, or those defined by a class, by plain name."""
    named = {plain(name): member for name, member in vars(thing).items()}
    return {n: m for n, m in named.items() if not n.startswith("_") or n in SPECIAL}


def classes(face: Any) -> dict[str, type]:
    """Return the classes of a face, by the names of the face for threads."""
    late = {plain(name): getattr(face, name) for name in face.__all__}  # some come when asked for
    everything = {**offers(face), **late}
    return {n: m for n, m in everything.items() if inspect.isclass(m) and _at_home(m, face)}


def functions(face: Any) -> set[str]:
    return {n for n, m in offers(face).items() if inspect.isfunction(m) and _at_home(m, face)}


def _at_home(member: Any, face: Any) -> bool:
    return str(member.__module__).startswith(face.__name__)


def forms(member: Any, path: str) -> list[str]:
    """Return the overloads of a member, or else its signature, without excused parameters."""
    if isinstance(member, property):
        member = member.fget
    if not inspect.isfunction(member):
        return [type(member).__name__]
    return [_form(one, path) for one in get_overloads(member) or [member]]


def _form(function: Any, path: str) -> str:
    signature = inspect.signature(function)
    kept = [p for n, p in signature.parameters.items() if f"{path}({n})" not in ALONE]
    return plain(str(signature.replace(parameters=kept)).replace("'", ""))


def differences(threads: Any, loop: Any, path: str) -> Iterator[str]:
    """Return the differences between a class and its twin."""
    ours, theirs = offers(threads), offers(loop)
    for name in sorted(ours.keys() ^ theirs.keys()):
        if f"{path}.{name}" not in ALONE:
            yield f"{path}.{name} is only for {'threads' if name in ours else 'asyncio'}"
    for name in sorted(ours.keys() & theirs.keys()):
        where = f"{path}.{name}"
        one, other = ours[name], theirs[name]
        if forms(one, where) != forms(other, where):
            yield f"{where}: {forms(one, where)} and {forms(other, where)}"
        yield from _wordings(one, other, where)


def _wordings(one: Any, other: Any, where: str) -> Iterator[str]:
    says, said = plain(inspect.getdoc(one) or ""), plain(inspect.getdoc(other) or "")
    if says != said and where not in WORDED:
        yield f"{where} is described as\n    {says}\n  and as\n    {said}"


def test_the_faces_have_the_same_classes_and_functions() -> None:
    assert {"Lock", "Hold", "Queue", "Delivery", "Worker"} <= classes(holdfast.sync).keys()
    assert classes(holdfast.sync).keys() == classes(holdfast.aio).keys()
    enough("classes of a face", classes(holdfast.sync))
    enough("functions of a face", functions(holdfast.sync))
    assert (functions(holdfast.sync) ^ functions(holdfast.aio)) - ALONE.keys() == set()


@pytest.mark.parametrize("name", classes(holdfast.sync))
def test_a_class_and_its_twin_offer_the_same(name: str) -> None:
    one, other = classes(holdfast.sync)[name], classes(holdfast.aio)[name]
    found = [*differences(one, other, name), *_wordings(one, other, name)]
    if [plain(base.__name__) for base in one.__bases__] != [
        plain(base.__name__) for base in other.__bases__
    ]:
        found.append(f"{name} is made of {one.__bases__} and of {other.__bases__}")
    assert not found, "\n".join(["", *found])


def test_every_excuse_is_still_needed() -> None:
    for excuse in ALONE:
        assert _is_alone(excuse), f"{excuse} is in both faces now"


def _is_alone(excuse: str) -> bool:
    path, _, argument = excuse.rstrip(")").partition("(")
    owner, _, member = path.rpartition(".")
    twins = [classes(face)[owner] if owner else face for face in (holdfast.sync, holdfast.aio)]
    if argument:
        twins = [inspect.signature(offers(twin)[member]).parameters for twin in twins]
        return (argument in twins[0]) != (argument in twins[1])
    return (member in offers(twins[0])) != (member in offers(twins[1]))


class _Plain:
    def same(self, a: int) -> int:
        """Await nothing."""

    def other(self, a: int = 1) -> int:
        """It does one thing."""

    def missing(self) -> None: ...


class _Async:
    async def same(self, a: int) -> int:
        """Await nothing."""

    async def other(self, a: int = 2) -> int:
        """It does another thing."""


def test_planted_differences_are_found() -> None:
    found = list(differences(_Plain, _Async, "X"))
    assert [re.split(r"[: ]", one)[0] for one in found] == ["X.missing", "X.other", "X.other"]
