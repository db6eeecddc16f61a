"""Each refusal of a server becomes an error that names the cause and the remedy."""

from __future__ import annotations

import pytest

from holdfast.core.model import Gone, Held, Refused, Renewal, Waiting
from holdfast.errors import ConfigError, StoreUnavailable
from holdfast.stores.redis.complaints import complaint, said
from tests.servers.fixtures import NewRedis
from tests.servers.redis_server import RedisServer, old_program
from tests.stores.redis.verbs import LABEL, Verbs, claim


@pytest.mark.parametrize(
    "line, words",
    [
        ("MOVED 3999 127.0.0.1:6381", "redis+cluster://"),
        ("ASK 3999 127.0.0.1:6381", "redis+cluster://"),
        ("TRYAGAIN Multiple keys request during rehashing of slot", "being moved"),
        ("CLUSTERDOWN Hash slot not served", "the cluster lacks a node"),
        ("READONLY You can't write against a read only replica.", "a replica"),
        ("MASTERDOWN Link with MASTER is down", "lost its primary"),
        ("LOADING Redis is loading the dataset in memory", "reading its data"),
        ("BUSY Redis is busy running a script.", "SCRIPT KILL"),
        ("NOREPLICAS Not enough good replicas to write.", "min-replicas"),
        ("MISCONF Redis is configured to save RDB snapshots", "the disk"),
        ("ERR max number of clients reached", "maxclients"),
        ("NOAUTH Authentication required.", "requires a password"),
        ("WRONGPASS invalid username-password pair", "the user or the password is wrong"),
        ("NOPERM this user has no permissions to access one of the channels", "&holdfast"),
        ("NOPERM this user has no permissions to access one of the keys", "~holdfast:"),
        ("NOPROTO unsupported protocol version", "protocol=2"),
        ("ERR DB index is out of range", "no database with that number"),
        ("ERR SELECT is not allowed in cluster mode", "only database 0"),
        ("ERR unknown command 'EVALSHA'", "no command EVALSHA: it is older than Redis 6.2"),
        ("ERR unknown subcommand 'LOAD'. Try SCRIPT HELP.", "no command LOAD"),
        ("ERR Error compiling script (new function): user_script:1", "6.2"),
        ("SURPRISE what is this", "doesn't expect"),
    ],
)
def test_an_error_reply_becomes_an_error_with_its_cause_or_remedy(line: str, words: str) -> None:
    wrong = complaint(said(line), LABEL)
    assert words in str(wrong)
    assert LABEL in str(wrong)
    assert line in str(wrong)


@pytest.mark.parametrize(
    "user, remedy",
    [
        ("poor", "ACL SETUSER poor +time"),
        ("po{}or", "give the user 'po{}or' +time"),
        ("", "user +"),
    ],
)
def test_the_remedy_grants_the_right_only_to_the_user_that_lacks_it(user: str, remedy: str) -> None:
    who = f"User {user} has" if user else "this user has"
    told = str(complaint(said(f"NOPERM {who} no permissions to run the 'time' command"), LABEL))
    assert remedy in told
    assert "..." not in told


def test_foreign_waiters_are_named_and_left_alone_and_cost_the_holder_nothing(
    shared_redis: RedisServer, own_name: str
) -> None:
    with Verbs(shared_redis) as verbs:
        # Given a hold, and a foreign key in the place of the waiters' key
        one, two, three = (claim(own_name) for _ in range(3))
        key = verbs.keys(own_name)[1]
        held = verbs.join(one)
        assert isinstance(held, Held)
        verbs.client.rpush(key, "theirs")
        # When a waiter joins, then the key is unchanged, and so is the hold
        with pytest.raises(ConfigError, match=f"~{own_name} is a list, not a hash"):
            verbs.join(two)
        assert isinstance(verbs.join(two, wait=False), Refused)
        assert verbs.renew([Renewal(one, held.fence, 30.0)]) == [Held(held.fence, 30.0)]
        assert verbs.client.type(key) == b"list"
        # When another program overwrites the key while a claim waits, and the holder releases
        verbs.client.delete(key)
        assert isinstance(verbs.join(two), Waiting)
        verbs.client.set(key, "theirs")
        # Then the error is repeated until the key is removed; after that the line works again
        for verb in (lambda: verbs.gone(one), lambda: verbs.join(three)):
            with pytest.raises(ConfigError, match="is a string"):
                verb()
        verbs.client.delete(key)
        assert isinstance(verbs.turn(two), Gone)
        assert isinstance(verbs.join(three), Held)
        assert not verbs.gone(one)


@pytest.mark.parametrize("old", [False, True], ids=["usual", "6.2"])
def test_without_memory_holds_are_renewed_and_new_claims_are_refused(
    old: bool, new_redis: NewRedis
) -> None:
    server = new_redis(server=old_program()) if old else new_redis()
    with Verbs(server, old=old) as verbs:
        # Given a lone hold, a hold with waiters behind it, and no memory left
        lone, one, two, three = claim("lone"), claim(), claim(), claim()
        fences = [verbs.join(c) for c in (lone, one, two, three)]
        assert isinstance(fences[0], Held)
        assert isinstance(fences[1], Held)
        assert isinstance(fences[3], Waiting)
        server.ask("CONFIG", "SET", "maxmemory", "1")
        # When, then: a join is refused cleanly
        for name in ("lone", "refund", "new"):
            newcomer = claim(name)
            with pytest.raises(StoreUnavailable, match="maxmemory"):
                verbs.join(newcomer)
            assert not verbs.gone(newcomer)
        assert isinstance(verbs.join(claim("lone"), wait=False), Refused)
        assert verbs.client.exists(*verbs.keys("new")[:3]) == 0
        # And holds are renewed, and their release grants the waiters
        renewals = [Renewal(lone, fences[0].fence, 30.0), Renewal(one, fences[1].fence, 30.0)]
        assert all(isinstance(kept, Held) for kept in verbs.renew(renewals))
        assert isinstance(verbs.turn(two), Waiting)
        assert verbs.gone(lone)
        assert verbs.gone(one)
        assert isinstance(verbs.turn(two), Held)
        assert verbs.gone(two, suspect=True)
        assert isinstance(verbs.turn(three), Held)
        assert verbs.resize("refund", 2) is not None
        assert verbs.gone(three, after=1.0)
        # And when there is memory again, a join is granted
        server.ask("CONFIG", "SET", "maxmemory", "0")
        assert isinstance(verbs.join(claim("lone")), Held)
