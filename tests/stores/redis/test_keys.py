"""Names become keys and names again, whatever bytes they have; requests are whole commands."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import pytest

from holdfast.core.model import Claim, Held, Keep, Kind, Leave, Renewal, Spec
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
from holdfast.stores.redis.library import JOIN, LEAVE, SCRIPTS
from holdfast.stores.redis.scripts import ADDRESS_MAX, KEEP_MAX, Requests, ending
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


def parsed(wire: bytes) -> list[bytes]:
    """Return the words of one whole command."""
    head, _, rest = wire.partition(b"\r\n")
    words = []
    for _ in range(int(head[1:])):
        length, _, rest = rest.partition(b"\r\n")
        size = int(length[1:])
        words.append(rest[:size])
        assert rest[size : size + 2] == b"\r\n"
        rest = rest[size + 2 :]
    assert rest == b""
    return words


def test_each_request_is_one_whole_command_with_the_tag_at_its_end() -> None:
    requests = Requests("other.prefix")
    one = claim("ü\r\n", owner="o\r\n$1", meta="m\0")
    keep = Keep(one, 7, 30.0)
    calls = [
        requests.join(one, True),
        requests.join(one, False, b"here"),
        requests.batches([keep] * 3, range(3), by_bucket=False)[0][0].call,
        requests.stand(keep._replace(weight=1, new_id=secrets.token_hex(16)), b"here"),
        requests.leave(Leave(one.spec.name, one.id, 7)),
        requests.break_(one.spec.name, 7),
        requests.leave(Leave(one.spec.name, one.id, 7, 1.0, True)),
        requests.resize(one.spec.name, 3),
        requests.inspect(one.spec.name),
        requests.guard([bucket_of(one.spec.name.encode())], 5.0, False),
        requests.reclaim(keep, 5.0),
        requests.join_free([one]),
        requests.leave_all([Leave(one.spec.name, one.id, 7)]),
    ]
    for call in calls:
        for run_id, tag in ((b"", b""), (b"r" * 40, b"7f")):
            words = parsed(call.head + ending(run_id, tag))
            assert words[0] == b"EVALSHA"
            assert words[1] == call.script.sha
            assert words[-2:] == [run_id, tag]
            keys = words[3 : 3 + int(words[2])]
            assert all(key.startswith(b"other.prefix:{%d}" % call.bucket) for key in keys)
    assert {call.script for call in calls} == set(SCRIPTS)


def test_the_bytes_of_a_spec_are_packed_once_and_never_mixed_up() -> None:
    # Given two specs that differ only in their owner, used in turn
    requests = Requests()
    mine, theirs = claim(owner="mine"), claim(owner="theirs")
    for _ in range(2):
        for one in (mine, theirs):
            head = requests.join(one, True).head
            assert one.spec.owner.encode() in head
            assert one.id.encode() in head
    # Then the way to join makes a difference, too
    shown = {requests.join(mine, wait, at).head for wait in (True, False) for at in (b"", b"a")}
    assert len(shown) == 4
    # And the number of remembered requests stays bounded
    for number in range(5000):
        requests.join(claim(f"n{number}"), True)
        requests.leave(Leave(f"n{number}", mine.id, 0))
    assert len(requests._joins) <= 2048
    assert len(requests._leaves) <= 2048


def test_batches_have_at_most_a_hundred_claims_and_in_a_cluster_one_bucket() -> None:
    requests = Requests()
    keeps = [Keep(claim(f"n{number}"), 1, 30.0) for number in range(250)]
    keeps[7] = Keep(claim("\ud800"), 1, 30.0)
    keeps[8] = Keep(Claim("short", keeps[9].claim.spec), 1, 30.0)
    plain, wrong = requests.batches(keeps, range(250), by_bucket=False)
    assert [len(batch.places) for batch in plain] == [100, 100, 48]
    assert set(wrong) == {7, 8}
    assert isinstance(wrong[7], UnicodeEncodeError)
    assert isinstance(wrong[8], ConfigError)
    apart, _ = requests.batches(keeps, range(250), by_bucket=True)
    assert sorted(i for batch in apart for i in batch.places) == sorted(set(range(250)) - {7, 8})
    for batch in apart:
        names = [keeps[i].claim.spec.name.encode() for i in batch.places]
        assert {bucket_of(name) for name in names} == {batch.call.bucket}
        assert len(batch.places) <= KEEP_MAX


def test_a_renewal_is_packed_once_and_sent_as_any_other() -> None:
    requests = Requests()
    keeps = [Keep(claim(f"ü{number}"), number + 1, 30.0) for number in range(3)]
    renewals = [Renewal(*keep[:3]) for keep in keeps]

    def sent(some: Sequence[Keep]) -> bytes:
        ((places, call, held),), wrong = requests.batches(some, range(3), by_bucket=False)
        assert (places, wrong) == ([0, 1, 2], {})
        assert held == [Held(keep.ticket, keep.ttl) for keep in some]
        return call.head

    # When renewals are sent twice, and equal keeps once
    heads = {sent(keeps), sent(renewals), sent(renewals)}
    # Then the bytes are the same, and the packed bytes are used again
    assert len(heads) == 1
    ready = [one.ready for one in renewals]
    sent(renewals)
    assert all(one.ready is before for one, before in zip(renewals, ready, strict=True))
    # And another ttl is packed again
    longer = [Renewal(one.claim, one.ticket, 60.0) for one in renewals]
    assert sent(longer) == sent([one._replace(ttl=60.0) for one in keeps]) != heads.pop()


def test_what_can_not_be_packed_is_refused() -> None:
    requests = Requests()
    spec = Spec("x", Kind.LOCK, 1, 1, 30.0, "me")
    for wrong in ("", "t", "ü" * 32):
        with pytest.raises(ConfigError, match="32 bytes"):
            requests.join(Claim(wrong, spec), True)
    with pytest.raises(ConfigError, match="address"):
        requests.join(claim(), True, b"a" * (ADDRESS_MAX + 1))


def test_a_script_for_a_server_before_7_has_no_first_line() -> None:
    for script in SCRIPTS:
        assert not script.plain.startswith(b"#!")
        assert b"--" not in script.text
    assert LEAVE.text.startswith(b"#!lua flags=allow-oom\n")
    assert JOIN.text == JOIN.plain
    call = Requests().leave(Leave("x", "0" * 32, 1)).for_old()
    assert LEAVE.plain_sha in call.head
    assert LEAVE.sha not in call.head
