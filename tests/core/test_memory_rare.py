"""The memory store: rare states of the model."""

from __future__ import annotations

import pytest

from holdfast.core.guard.model import Busy, Duty, Entry, Wish
from holdfast.core.model import Claim, Held, Kind, Leave, Spec
from holdfast.stores.memory import values
from holdfast.stores.memory.line import Lines

SPEC = Spec("x", Kind.LOCK, 1, 1, 5.0, "me")


def test_a_release_with_min_hold_after_the_lease_keeps_nothing() -> None:
    lines = Lines()
    late, other = Claim("1" * 32, SPEC), Claim("2" * 32, SPEC)
    lines.join(late, False, 0.0)
    assert lines.leave(Leave("x", late.id, 1, 30.0, False, 5.0), 6.0)[0] is False
    assert isinstance(lines.join(other, False, 6.0)[0], Held)


def test_entries_that_have_expired_are_removed_as_others_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(values, "SWEEP_AT", 4)
    state = values.Values()
    for number in range(5):
        wish = Wish(Entry("g", str(number)), str(number), "me", 5.0)
        state.begin(wish, 10.0 * (number == 4), None)
    assert [*state._entries] == [Entry("g", "4")]


def test_a_repeated_request_for_the_refresh_lease_gets_the_rest_of_it() -> None:
    state, wish = values.Values(), Wish(Entry("g", "k"), "id", "me", 5.0)
    first = state.begin(wish, 10.0, None)
    assert isinstance(first, Duty)
    again = state.begin(wish, 12.0, None)
    assert again == first._replace(expires_in=3.0)


def test_a_waiter_of_a_value_is_forgotten_when_it_gets_the_lease_or_goes() -> None:
    state, entry = values.Values(), Entry("g", "k")
    state.begin(Wish(entry, "first", "me", 5.0), 10.0, None)
    second, third = (Wish(entry, name, "me", 5.0, wait=True) for name in ("second", "third"))
    assert isinstance(state.begin(second, 11.0, "box"), Busy)
    assert isinstance(state.begin(third, 11.0, "box"), Busy)
    assert isinstance(state.begin(second, 16.0, "box"), Duty)
    assert [*state._entries[entry].waiting] == ["third"]
    state.unlisten(third, 22.0)
    assert not state._entries
