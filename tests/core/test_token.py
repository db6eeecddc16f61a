"""The token of a detached hold: it goes round whole, and nothing else passes for one."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from holdfast import Client, ConfigError, Loss
from holdfast.core import token
from holdfast.core.model import RWLOCK_CAPACITY, Claim, Kind, Spec

CLAIM = Claim(
    "0123456789abcdef" * 2, Spec("n\0é", Kind.RWLOCK, RWLOCK_CAPACITY, 1, 30.0, "me", "m")
)


@pytest.mark.parametrize("fence", [1, 1 << 53, (1 << 63) - 1])
def test_a_token_goes_round(fence: int) -> None:
    text = token.write(CLAIM, fence, 12.5, 1)
    assert text.isascii()
    assert "=" not in text
    claim, read, left = token.read(text, "you")
    assert (read, left) == (fence, token.Left())
    assert claim.id == CLAIM.id
    assert claim.spec == CLAIM.spec._replace(ttl=12.5, owner="you")
    assert type(claim.spec.kind) is Kind


def changed(**fields: Any) -> str:
    names = ["id", "fence", "name", "kind", "capacity", "weight", "ttl", "meta"]
    body = dict(zip(names, [CLAIM.id, 7, "x", "lock", 1, 1, 30.0, ""], strict=True)) | fields
    return packed(list(body.values()))


def packed(body: Any) -> str:
    return "hf1." + base64.urlsafe_b64encode(json.dumps(body).encode()).decode().rstrip("=")


def test_the_example_that_is_changed_below_is_whole() -> None:
    assert token.read(changed(), "you")[1] == 7


@pytest.mark.parametrize(
    "text",
    [
        changed(id="short"),
        changed(id="x" * 32),
        changed(id=7),
        changed(fence="7"),
        changed(fence=0),
        changed(fence=1 << 63),
        changed(fence=True),
        changed(name=7),
        changed(name=""),
        changed(kind="mutex"),
        changed(capacity=0),
        changed(weight=2),
        changed(weight=1.5),
        changed(ttl=float("inf")),
        changed(ttl="30"),
        changed(meta=None),
        changed(least=-1.0, longest=None, renews=True),
        changed(least=0.0, longest=-1.0, renews=True),
        changed(least=float("nan"), longest=None, renews=True),
        changed(least=0.0, longest="1", renews=True),
        changed(least=0.0, longest=None, renews=1),
        changed(least=0.0, longest=None),
        packed({}),
        packed([]),
        packed([1] * 8),
        packed([1] * 9),
        "hf1." + base64.urlsafe_b64encode(b"[" * 100_000).decode(),
        "hf1." + base64.urlsafe_b64encode(b"\xff\xfe").decode(),
        "hf1.é",
        "hf2." + changed()[4:],
        changed()[:-3],
        "",
        None,
        7,
    ],
)
def test_what_is_no_token_is_refused_without_showing_it(text: Any) -> None:
    with pytest.raises(ConfigError, match=r"hold\.detach\(\)") as refusal:
        token.read(text, "you")
    assert CLAIM.id not in str(refusal.value)
    assert refusal.value.__suppress_context__


def test_terms_go_round() -> None:
    for left in (token.Left(2.5), token.Left(0.0, 7.5), token.Left(renews=False)):
        assert token.read(token.write(CLAIM, 7, 12.5, 1, left), "you")[2] == left


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
