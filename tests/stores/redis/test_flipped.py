"""Each stored bit of a line on Redis is flipped once, while its holder dies."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast import HoldfastError
from holdfast.core.model import Claim, Full, Gone, Held, Mismatch, Renewal
from tests.stores.redis.verbs import START, Verbs, claim, fence, ticket

#: The ttl of the holder, and of each later claim.
TTL_S = 2.0
#: A flipped bit of a time can make a lease this long (see the page of this store).
LONGEST_S = 10.0
#: The seconds between two requests for the line.
ASKED_S = 1.0


def fields(verbs: Verbs, name: str) -> Iterator[tuple[bytes, bytes]]:
    for key in sorted(verbs.client.keys(f"*{name}*")):
        if verbs.client.type(key) == b"hash":
            for field in sorted(verbs.client.hkeys(key)):
                yield key, field


def free_after(verbs: Verbs, name: str, waits: Claim | None) -> float | str:
    """Return the seconds until a later claim holds the name, or why no claim ever does."""
    passed = TTL_S
    said = ""
    while passed < 120:
        passed += ASKED_S
        verbs.at(START + passed)
        try:
            if waits is not None:
                answer = verbs.turn(waits)
                if isinstance(answer, Held):
                    return passed
                if isinstance(answer, Gone):
                    waits = None
                said = repr(answer)
                continue
            answer = verbs.join(claim(name, ttl=TTL_S), False)
        except HoldfastError as clear:
            return f"clear: {clear}"
        if isinstance(answer, Held):
            return passed
        if isinstance(answer, (Mismatch, Full)):
            return f"clear: {answer}"
        said = repr(answer)
    return f"locked: {said}"


def bits_of(verbs: Verbs, waiting: bool) -> list[tuple[int, int]]:
    """Return each bit of a line with or without a waiter: the number of its field, and its own."""
    verbs.at(START)
    name = f"shape{waiting}"
    fence(verbs.join(claim(name, ttl=TTL_S)))
    if waiting:
        ticket(verbs.join(claim(name, ttl=TTL_S)))
    return [
        (number, bit)
        for number, (key, field) in enumerate(fields(verbs, name))
        for bit in range(8 * len(verbs.client.hget(key, field) or b""))
    ]


def flip(verbs: Verbs, name: str, number: int, bit: int) -> bytes:
    """Flip this bit of this field of a line; return the field, or b"" if it is shorter here."""
    key, field = [*fields(verbs, name)][number]
    whole = bytearray(verbs.client.hget(key, field) or b"")
    if bit >= 8 * len(whole):
        return b""
    whole[bit // 8] ^= 1 << bit % 8
    verbs.client.hset(key, field, bytes(whole))
    return bytes(field)


@pytest.mark.usual(1)
@pytest.mark.parametrize("waiting", [False, True])
def test_no_flipped_bit_locks_a_name(verbs: Verbs, waiting: bool) -> None:
    bits = bits_of(verbs, waiting)
    assert len(bits) > 500
    late: dict[str, float | str] = {}
    for number, bit in bits:
        name = f"n{int(waiting)}-{number}-{bit}"
        verbs.at(START)
        fence(verbs.join(claim(name, ttl=TTL_S)))
        waits = None
        if waiting:
            waits = claim(name, ttl=TTL_S)
            ticket(verbs.join(waits))
        if not (field := flip(verbs, name, number, bit)):
            continue
        took = free_after(verbs, name, waits)
        if not (isinstance(took, str) and took.startswith("clear")) and (
            isinstance(took, str) or took > TTL_S + LONGEST_S + 2 * ASKED_S
        ):
            late[f"{field!r} bit {bit}"] = took
    assert late == {}


@pytest.mark.usual(0)
def test_no_flipped_bit_lets_a_second_one_in_that_both_keep(verbs: Verbs) -> None:
    two: list[str] = []
    for number, bit in bits_of(verbs, True):
        name = f"n{number}-{bit}"
        verbs.at(START)
        holder, waits = claim(name, ttl=TTL_S), claim(name, ttl=TTL_S)
        renewal = Renewal(holder, fence(verbs.join(holder)), TTL_S)
        ticket(verbs.join(waits))
        if not (field := flip(verbs, name, number, bit)):
            continue
        both = 0
        for turn in range(1, 9):  # both ask for longer than any lease that they had before
            verbs.at(START + turn * TTL_S / 4)
            try:
                (first,) = verbs.renew([renewal])
                both += isinstance(verbs.turn(waits), Held) and isinstance(first, Held)
            except HoldfastError:
                break
        if both >= 5:
            two.append(f"{field!r} bit {bit}")
    assert two == []
