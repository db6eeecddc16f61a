"""The token of a detached hold: it survives the round trip, and nothing else is accepted."""

from __future__ import annotations

import base64
import json
from typing import Any
from zlib import crc32

import pytest

from holdfast import Client, ConfigError, Loss, NotHeld
from holdfast.core import token
from holdfast.core.model import RWLOCK_CAPACITY, Claim, Kind, Spec

CLAIM = Claim(
    "0123456789abcdef" * 2, Spec("n\0é", Kind.RWLOCK, RWLOCK_CAPACITY, 1, 12.5, "me", "m")
)
PASSED = token.Passed("sqlite:///x", CLAIM, 7)
TEXT = token.write(PASSED)


@pytest.mark.parametrize("fence", [1, 1 << 53, (1 << 63) - 1])
def test_a_token_goes_round(fence: int) -> None:
    text = token.write(PASSED._replace(fence=fence))
    assert text.isascii()
    assert "=" not in text
    read = token.read(text)
    assert read == PASSED._replace(fence=fence)
    assert type(read.claim.spec.kind) is Kind


def test_the_repr_of_a_token_hides_its_secret() -> None:
    assert CLAIM.id not in repr(PASSED)


def changed(**fields: Any) -> str:
    names = ["store", "id", "fence", "name", "kind", "capacity", "weight", "ttl", "owner", "meta"]
    values = ["memory://", CLAIM.id, 7, "x", "lock", 1, 1, 30.0, "me", ""]
    return packed(list((dict(zip(names, values, strict=True)) | fields).values()))


def packed(body: Any) -> str:
    return signed(json.dumps(body).encode())


def signed(raw: bytes) -> str:
    """Return a token of this content, with the right checksum."""
    both = raw + crc32(b"hf2." + raw).to_bytes(4, "big")
    return "hf2." + base64.urlsafe_b64encode(both).decode().rstrip("=")


def test_the_example_that_is_changed_below_is_whole() -> None:
    assert token.read(changed()).fence == 7


def test_a_token_is_refused_with_any_letter_cut_off_or_changed() -> None:
    others = [TEXT[:at] for at in range(len(TEXT))]
    others += [TEXT[:at] + TEXT[at + 1 :] for at in range(len(TEXT))]
    for letter in "A-_.é \n=":
        others += [TEXT[:at] + letter + TEXT[at:] for at in range(len(TEXT) + 1)]
        others += [TEXT[:at] + letter + TEXT[at + 1 :] for at in range(len(TEXT))]
    for text in others:
        if text != TEXT:
            with pytest.raises(ConfigError, match=r"cut or altered|is not the token"):
                token.read(text)


WRONG: dict[str, list[Any]] = {
    "id": ["short", "x" * 32, 7],
    "fence": ["7", 0, 1 << 63, True],
    "name": [7, ""],
    "kind": ["mutex"],
    "capacity": [0],
    "weight": [2, 1.5],
    "ttl": [float("inf"), "30"],
    "meta": [None],
    "owner": [""],
    "store": ["", 7],
}
LEFT = [(-1.0, None, True), (0.0, -1.0, True), (float("nan"), None, True), (0.0, "1", True)]
NO_TOKENS = [
    *(changed(**{field: value}) for field, values in WRONG.items() for value in values),
    *(changed(least=a, longest=b, renews=c) for a, b, c in [*LEFT, (0.0, None, 1)]),
    changed(least=0.0, longest=None),
    *map(packed, ({}, [], [1] * 10, [1] * 11)),
    *(signed(b"[" * 100_000), signed(b"\xff\xfe"), "hf2.é", "hf1." + changed()[4:], changed()[:-3]),
    *("", None, 7),
]


@pytest.mark.parametrize("text", NO_TOKENS)
def test_what_is_no_token_is_refused_without_showing_it(text: Any) -> None:
    with pytest.raises(ConfigError, match=r"hold\.detach\(\)") as refusal:
        token.read(text)
    assert CLAIM.id not in str(refusal.value)
    assert refusal.value.__context__ is None or refusal.value.__suppress_context__


def test_terms_go_round() -> None:
    for left in (token.Left(2.5), token.Left(0.0, 7.5), token.Left(renews=False)):
        assert token.read(token.write(PASSED._replace(left=left))).left == left


def test_an_adopted_hold_keeps_what_is_left_of_its_terms() -> None:
    with Client("memory://adopted-terms") as ours, Client("memory://adopted-terms") as theirs:
        least = theirs.adopt(ours.lock("least", min_hold=60).acquire().detach())
        assert least.release()
        assert ours.lock("least").acquire(timeout=0) is None

        hard = theirs.adopt(ours.lock("hard", ttl=0.5, auto_renew=False).acquire().detach())
        assert hard.wait_lost(30) is Loss.EXPIRED

        longest = theirs.adopt(ours.lock("longest", ttl=0.5, max_hold=1.5).acquire().detach())
        assert longest.wait_lost(30) is Loss.MAX_HOLD
        assert ours.lock("longest").acquire(timeout=30)


def test_a_hold_is_detached_for_another_time_than_its_ttl() -> None:
    with Client("memory://for-a-time") as ours, Client("memory://for-a-time") as theirs:
        text = ours.lock("x", ttl=0.5).acquire().detach(ttl=3600)
        (claim,) = ours.inspect("x")[0].holders
        assert 3590 < claim.expires_in <= 3600
        assert theirs.adopt(text).ttl == 3600
        hold = ours.lock("y", ttl=0.5).acquire()
        for wrong in (0, -1, 86_401, float("nan"), "30"):
            with pytest.raises(ConfigError, match="ttl"):
                hold.detach(ttl=wrong)  # type: ignore[arg-type]
        hold.check()
        hold.release()


def test_a_token_of_another_store_is_refused_and_its_store_is_named() -> None:
    with Client("memory://this") as this, Client("memory://that") as that:
        text = this.lock("x").acquire().detach()
        with pytest.raises(ConfigError, match=r"isn't in memory://that.*is of memory://this"):
            that.adopt(text)
        this.adopt(text).release()
        with pytest.raises(NotHeld, match="expired, or its adopter has ended it"):
            this.adopt(text)
