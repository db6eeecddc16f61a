"""Each refusal of a real server becomes an error that names the cause and the remedy."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from holdfast.core.model import Claim, Gone, Held, Keep, Refused, Waiting
from holdfast.errors import ConfigError, HoldfastError, StoreUnavailable
from holdfast.stores.redis.complaints import ServerSaid, complaint, said
from holdfast.stores.redis.library import packed
from tests.servers.fixtures import NewRedis
from tests.servers.process import free_port, until
from tests.servers.redis_server import RedisServer, old_program
from tests.stores.redis.verbs import LABEL, Verbs, claim


def told(verbs: Verbs, *words: str) -> tuple[ServerSaid, HoldfastError]:
    """Return the error reply to a command, and the exception that it becomes."""
    reply = verbs.raw(packed(*(word.encode() for word in words)))
    assert isinstance(reply, ServerSaid), reply
    return reply, complaint(reply, LABEL)


def joining(verbs: Verbs, wanted: Claim | None = None) -> str:
    """Return the text of the error that a join raises."""
    with pytest.raises(StoreUnavailable) as failure:
        verbs.join(wanted or claim())
    return str(failure.value)


def test_a_server_that_wants_a_password(new_redis: NewRedis) -> None:
    server = new_redis(password="hunter2")
    with Verbs(server, load=False) as verbs:
        _, wrong = told(verbs, "AUTH", "hunter3")
        # Two requests only, because the server closes the connection after the second one.
        for ask in (lambda: told(verbs, "PING")[1], lambda: verbs.join(claim())):
            with pytest.raises(ConfigError, match="requires a password"):
                raise ask()
    assert isinstance(wrong, ConfigError)
    assert "the user or the password is wrong" in str(wrong)
    assert "hunter" not in str(wrong)


@pytest.mark.parametrize(
    "rights, missing",
    [
        ("~holdfast:* -@all +evalsha", r"\+time|names each that is missing"),
        ("~holdfast:* -@all +time", r"\+evalsha"),
        ("~other:* +@all", "~holdfast:"),
    ],
)
def test_a_user_without_a_right(rights: str, missing: str, new_redis: NewRedis) -> None:
    server = new_redis(users=(f"user poor on >secret {rights}",))
    with Verbs(server) as verbs:
        assert verbs.raw(packed(b"AUTH", b"poor", b"secret")) == b"OK"
        with pytest.raises(ConfigError, match=missing):
            verbs.join(claim())


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


def test_a_replica(new_redis: NewRedis) -> None:
    server = new_redis()
    with Verbs(server) as verbs:
        server.ask("REPLICAOF", "127.0.0.1", free_port())
        reply = verbs.ask(verbs.requests.join(claim(), True))
        assert reply.code == "READONLY"
        assert "a replica" in joining(verbs)
        server.ask("CONFIG", "SET", "replica-serve-stale-data", "no")
        assert "lost its primary" in joining(verbs)


def test_a_server_that_reads_its_data(new_redis: NewRedis) -> None:
    server = new_redis("loading-process-events-interval-bytes 1024")
    with Verbs(server, load=False) as verbs:
        # Given a server that needs seconds to load its data
        server.ask("DEBUG", "POPULATE", 20_000, "many", 10)
        server.ask("CONFIG", "SET", "key-load-delay", 100)
        loading = threading.Thread(target=_reload, args=(server,))
        loading.start()
        try:
            # When a request comes while it loads, then the reply reports that
            reply = until(lambda: _loading(verbs), "it is loading")
            assert "reading its data" in str(complaint(reply, LABEL))
        finally:
            server.ask("CONFIG", "SET", "key-load-delay", 0)
            loading.join()


def _reload(server: RedisServer) -> None:
    with server.client(socket_timeout=60) as client:
        client.execute_command("DEBUG", "RELOAD")


def _loading(verbs: Verbs) -> ServerSaid | None:
    reply = verbs.raw(packed(b"GET", b"x"))
    return reply if isinstance(reply, ServerSaid) and reply.code == "LOADING" else None


def test_an_endless_script_of_another_client_is_an_error_with_its_remedy(
    new_redis: NewRedis,
) -> None:
    server = new_redis("busy-reply-threshold 20")
    with Verbs(server) as verbs:
        script = threading.Thread(target=_for_ever, args=(server,))
        script.start()
        try:
            until(lambda: _busy(verbs), "it is busy")
            assert "SCRIPT KILL" in joining(verbs)
        finally:
            with server.client() as killer:
                killer.execute_command("SCRIPT", "KILL")
            script.join()


def _for_ever(server: RedisServer) -> None:
    with server.client() as client, pytest.raises(Exception, match="killed"):
        client.eval("while true do end", 0)


def _busy(verbs: Verbs) -> bool:
    reply = verbs.raw(packed(b"GET", b"x"))
    return isinstance(reply, ServerSaid) and reply.code == "BUSY"


def test_too_few_replicas(new_redis: NewRedis) -> None:
    with Verbs(new_redis("min-replicas-to-write 1", known=False)) as verbs:
        assert "min-replicas" in joining(verbs)


def test_a_node_of_a_cluster(new_redis: NewRedis) -> None:
    server = new_redis("cluster-enabled yes")
    with Verbs(server) as verbs:
        assert "the cluster lacks a node" in joining(verbs)
        slot = server.ask("CLUSTER", "KEYSLOT", verbs.keys()[0])
        server.ask("CLUSTER", "ADDSLOTS", *(n for n in range(16384) if n != slot))
        server.ask("CONFIG", "SET", "cluster-require-full-coverage", "no")
        assert "the cluster lacks a node" in joining(verbs)
        _, wrong = told(verbs, "SELECT", "1")
        assert "only database 0" in str(wrong)


@pytest.mark.parametrize("gone", ["EVALSHA", "SCRIPT"])
def test_a_command_that_was_taken_away(gone: str, new_redis: NewRedis) -> None:
    with Verbs(new_redis(f'rename-command {gone} ""'), load=False) as verbs:
        _, wrong = told(verbs, gone, "LOAD", "return 1")
    assert isinstance(wrong, ConfigError)
    assert f"no command {gone}" in str(wrong)
    assert "6.2" in str(wrong)


def test_too_many_connections_and_a_database_that_is_not_there(new_redis: NewRedis) -> None:
    server = new_redis()
    with Verbs(server, load=False) as verbs:
        _, wrong = told(verbs, "SELECT", "99")
        assert "no database with that number" in str(wrong)
        server.ask("CONFIG", "SET", "maxclients", 1)
        with Verbs(server, load=False) as many:
            _, wrong = told(many, "PING")
        assert isinstance(wrong, StoreUnavailable)
        assert "maxclients" in str(wrong)


@pytest.mark.parametrize(
    "line, words",
    [
        ("MOVED 3999 127.0.0.1:6381", "redis+cluster://"),
        ("ASK 3999 127.0.0.1:6381", "redis+cluster://"),
        ("TRYAGAIN Multiple keys request during rehashing of slot", "being moved"),
        ("MISCONF Redis is configured to save RDB snapshots", "the disk"),
        ("NOPERM this user has no permissions to access one of the channels", "&holdfast"),
        ("NOPROTO unsupported protocol version", "protocol=2"),
        ("ERR Error compiling script (new function): user_script:1", "6.2"),
        ("SURPRISE what is this", "doesn't expect"),
    ],
)
def test_what_is_hard_to_provoke(line: str, words: str) -> None:
    wrong = complaint(said(line), LABEL)
    assert words in str(wrong)
    assert LABEL in str(wrong)
    assert line in str(wrong)


# -- keys of other programs ------------------------------------------------------------------

MAKERS: dict[str, Callable[[Verbs, bytes], object]] = {
    "string": lambda verbs, key: verbs.client.set(key, "theirs"),
    "list": lambda verbs, key: verbs.client.rpush(key, "theirs"),
    "set": lambda verbs, key: verbs.client.sadd(key, "theirs"),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_a_state_that_is_none_is_named_with_its_type(
    kind: str, shared_redis: RedisServer, own_name: str
) -> None:
    with Verbs(shared_redis) as verbs:
        # Given
        key = verbs.keys(own_name)[0]
        MAKERS[kind](verbs, key)
        one = claim(own_name)
        keep = Keep(one, 1, 30.0)
        # When, then
        (kept,) = verbs.keep([keep])
        assert isinstance(kept, ConfigError)
        for verb in (
            lambda: verbs.join(one),
            lambda: verbs.stand(keep),
            lambda: verbs.gone(one),
            lambda: verbs.gone(one, suspect=True),
            lambda: verbs.resize(own_name, 2),
            lambda: verbs.look(own_name),
        ):
            with pytest.raises(ConfigError, match=f"{own_name} is a {kind}, not a hash"):
                verb()
        assert verbs.client.type(key) == kind.encode()


@pytest.mark.parametrize("kind", MAKERS)
def test_waiters_that_are_none_are_named_and_left_alone(
    kind: str, shared_redis: RedisServer, own_name: str
) -> None:
    with Verbs(shared_redis) as verbs:
        # Given a hold, and a foreign key in the place of the waiters' key
        key = verbs.keys(own_name)[1]
        MAKERS[kind](verbs, key)
        one, two = claim(own_name), claim(own_name)
        held = verbs.join(one)
        assert isinstance(held, Held)
        # When a waiter joins
        with pytest.raises(ConfigError, match=f"~{own_name} is a {kind}, not a hash"):
            verbs.join(two)
        # Then the key is unchanged, and so is the hold
        assert verbs.client.type(key) == kind.encode()
        assert isinstance(verbs.join(two, wait=False), Refused)
        assert verbs.keep([Keep(one, held.fence, 30.0)]) == [Held(held.fence, 30.0)]
        assert verbs.gone(one)
        assert isinstance(verbs.join(two), Held)


def test_waiters_that_were_overwritten_cost_the_holders_nothing(
    shared_redis: RedisServer, own_name: str
) -> None:
    with Verbs(shared_redis) as verbs:
        # Given a holder, and a waiter whose key another program overwrites
        one, two, three = (claim(own_name) for _ in range(3))
        held = verbs.join(one)
        assert isinstance(held, Held)
        assert isinstance(verbs.join(two), Waiting)
        verbs.client.set(verbs.keys(own_name)[1], "theirs")
        # When the holder releases
        with pytest.raises(ConfigError, match="is a string"):
            verbs.gone(one)
        # Then the error is repeated until the key is removed; after that the line works again
        with pytest.raises(ConfigError, match="is a string"):
            verbs.join(three)
        verbs.client.delete(verbs.keys(own_name)[1])
        assert isinstance(verbs.stand(Keep(two, 1, 30.0)), Gone)
        assert isinstance(verbs.join(three), Held)
        assert not verbs.gone(one)


# -- no memory left --------------------------------------------------------------------------


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
        server.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
        server.ask("CONFIG", "SET", "maxmemory", "1")
        # When, then: a join is refused cleanly
        for name in ("lone", "refund", "new"):
            newcomer = claim(name)
            assert "maxmemory" in joining(verbs, newcomer)
            assert not verbs.gone(newcomer)
        assert isinstance(verbs.join(claim("lone"), wait=False), Refused)
        assert verbs.client.exists(*verbs.keys("new")[:3]) == 0
        # And holds are renewed, and their release grants the waiters
        keeps = [Keep(lone, fences[0].fence, 30.0), Keep(one, fences[1].fence, 30.0)]
        assert all(isinstance(kept, Held) for kept in verbs.keep(keeps))
        assert isinstance(verbs.stand(Keep(two, 0, 30.0)), Waiting)
        assert verbs.gone(lone)
        assert verbs.gone(one)
        assert isinstance(verbs.stand(Keep(two, 0, 30.0)), Held)
        assert verbs.gone(two, suspect=True)
        assert isinstance(verbs.stand(Keep(three, 0, 30.0)), Held)
        assert verbs.resize("refund", 2) is not None
        assert verbs.gone(three, after=1.0)
        # And when there is memory again, a join is granted
        server.ask("CONFIG", "SET", "maxmemory", "0")
        assert isinstance(verbs.join(claim("lone")), Held)
