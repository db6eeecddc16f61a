"""Names become keys and names again, whatever bytes they have."""

from __future__ import annotations

import pytest

from holdfast.core.model import Claim, Leave
from holdfast.errors import ConfigError
from holdfast.stores.redis.keys import (
    BUCKETS,
    bucket_of,
    keys_of,
    name_of,
    pattern_of,
    state_of,
    tag_of,
)
from holdfast.stores.redis.scripts import ADDRESS_MAX, Requests
from tests.stores.redis.verbs import claim

NAMES = (
    "x",
    " ",
    "a:b",
    "{a}b",
    "}",
    "{}",
    "a{17}:b",
    "two\nlines\r\n$3",
    "nul\0nul",
    "*?[a-z]^\\",
    "grüße/日本語/🔒",
    "x" * 512,
    "ü" * 256,
    "x}:y",
    "holdfast:{17}:x",
)


def test_a_name_is_found_again_in_its_keys_and_no_two_share_one() -> None:
    seen: set[bytes] = set()
    for name in NAMES:
        raw = name.encode()
        state, *others = keys = keys_of("holdfast", raw)
        assert name_of("holdfast", state) == name
        assert state_of("holdfast", bucket_of(raw), raw) == state
        assert [name_of("holdfast", key) for key in others] == [None] * 3
        # All four are in one slot, as the first braces contain only the bucket's number.
        assert all(key.startswith(f"holdfast:{tag_of(bucket_of(raw))}".encode()) for key in keys)
        assert max(map(len, keys)) <= len(raw) + 20
        assert seen.isdisjoint(keys[:3])
        seen.update(keys[:3])


def test_buckets_are_used_evenly() -> None:
    counts = [0] * BUCKETS
    for number in range(BUCKETS * 100):
        counts[bucket_of(b"job-%d" % number)] += 1
    assert min(counts) > 50
    assert max(counts) < 200


def test_a_foreign_key_is_no_name() -> None:
    for key in (
        b"other:{3}:x",
        b"holdfast:{4}:x",  # in a bucket that isn't the name's
        b"holdfast:{3}:",
        b"holdfast:{03}:x",
        b"holdfast:{3}x",
        b"holdfast:{3}:\xff",
    ):
        assert name_of("holdfast", key) is None


def test_a_pattern_has_nothing_to_interpret() -> None:
    assert pattern_of("holdfast", rb"a*b?[c]\d") == rb"holdfast:{*}:a\*b\?\[c\]\\d*"


def test_the_number_of_remembered_requests_stays_bounded() -> None:
    requests = Requests()
    for number in range(5000):
        requests.join(claim(f"n{number}"), True)
        requests.leave(Leave(f"n{number}", "0" * 32, 0))
    assert len(requests._joins) <= 2048
    assert len(requests._leaves) <= 2048


def test_what_can_not_be_packed_is_refused() -> None:
    requests = Requests()
    for wrong in ("", "t", "ü" * 32):
        with pytest.raises(ConfigError, match="32 bytes"):
            requests.join(Claim(wrong, claim().spec), True)
    with pytest.raises(ConfigError, match="address"):
        requests.join(claim(), True, b"a" * (ADDRESS_MAX + 1))
