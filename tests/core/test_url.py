"""URLs: errors for misspelt parts contain a hint, and a password is never shown."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy.orm

from holdfast import AsyncClient, Client, ConfigError
from holdfast import url as urls
from holdfast.core import unnamed

CANARY = "hunter2"


def test_a_url_is_taken_apart() -> None:
    module, url = urls.find("MEMORY://a%20b/c%2Fd")
    assert module.CAPABILITIES.store == "memory"
    assert url == urls.StoreURL("memory", "a%20b", "/c/d", {}, "")
    assert str(url) == "memory://a%20b/c/d"


def test_a_scheme_like_none_is_answered_with_the_usual_ones_and_not_with_all() -> None:
    with pytest.raises(ConfigError) as told:
        Client("quux://x")
    for scheme in ("memory", "sqlite", "redis", "postgresql", "mysql", "zookeeper"):
        assert scheme in str(told.value)
    assert len(str(told.value)) < 250


@pytest.mark.parametrize("store", [7, b"memory://", object(), ["memory://"]])
def test_what_is_neither_url_nor_path_is_named_by_its_type(store: Any) -> None:
    with pytest.raises(ConfigError, match=f"a URL or a path.* type {type(store).__name__}"):
        Client(store)


def test_a_session_and_a_foreign_engine_of_sqlalchemy_are_refused_with_the_remedy() -> None:
    with sqlalchemy.orm.Session(sqlalchemy.create_engine("sqlite://")) as session:
        with pytest.raises(ConfigError, match=r"a Session of SQLAlchemy .*give the engine"):
            Client(session)
        with pytest.raises(ConfigError, match=r"an engine of SQLAlchemy for sqlite"):
            Client(session.get_bind())


@pytest.mark.parametrize(
    "text, words",
    [
        ("memmory://x", 'did you mean "memory"'),
        ("sqllite:///x", 'did you mean "sqlite"'),
        ("redis+clustr://x", 'did you mean "redis+cluster"'),
        ("://x", "known: m"),
        ("/var/lib/a b", "is a path; as a store it is sqlite:///var/lib/a%20b"),
        ("./locks.db", f"is a path; as a store it is sqlite://{Path.cwd()}/locks.db"),
        ("host=x dbname=y", "a libpq DSN"),
        ("localhost", "no '://'"),
        ("", "is empty"),
        ("memory://x#y", "%23"),
        ("memory://x?wake=poll", "no option 'wake'; known: none"),
        ("sqlite:///x?waek=poll", "no option 'waek'; did you mean \"wake\""),
        ("sqlite:///x?wake=pol", "poll"),
    ],
)
def test_what_is_misspelt_is_named_and_answered(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        Client(text)
    assert words in str(refusal.value)


def test_a_path_is_the_embedded_store(tmp_path: Path) -> None:
    odd = tmp_path / "a b#c?d%e.db"
    _, url = urls.find(urls.source(odd))
    assert (url.scheme, url.path) == ("sqlite", str(odd))


def test_nothing_is_the_environment_or_the_embedded_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_URL", "memory://from-the-environment")
    assert Client().url == "memory://from-the-environment"
    monkeypatch.delenv("HOLDFAST_URL")
    assert urls.source(None) == "sqlite://"


@pytest.mark.parametrize("blank", ["", " ", "\t"])
@pytest.mark.parametrize("made", [Client, AsyncClient])
def test_a_variable_that_is_set_but_blank_is_refused(
    monkeypatch: pytest.MonkeyPatch, blank: str, made: type[Client | AsyncClient]
) -> None:
    monkeypatch.setenv("HOLDFAST_URL", blank)
    with pytest.raises(ConfigError, match="HOLDFAST_URL is set, but empty"):
        made()


@pytest.mark.parametrize("made", [Client, AsyncClient])
def test_a_client_without_a_named_store_warns_once_of_the_local_file(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    made: type[Client | AsyncClient],
) -> None:
    monkeypatch.setattr(unnamed, "_told", False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("HOLDFAST_URL", "sqlite://")
    made()
    monkeypatch.delenv("HOLDFAST_URL")
    made("sqlite://")
    assert not caplog.records
    made()
    made()
    (told,) = caplog.records
    assert told.levelname == "WARNING"
    assert str(tmp_path) in told.getMessage()
    assert "other hosts don't share" in told.getMessage()


SHAPES = """
    memory://user:{}@host/x memory://:{}@host/x memory://{}@/x memory://user:a@{}@host/x
    memory://user:{}@host/x?timeout=5 memory://user:{}@host/x#fragment memory://user:{}#tail@host/x
    memory://user:{}/tail@host/x memory://user:a?{}@host/x memmory://user:{}@host/x
    memory:/user:{}@host/x user:{}@host/x user:{}@memory://host/x
"""


@pytest.mark.parametrize("text", [shape.format(CANARY) for shape in SHAPES.split()])
@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_password_is_never_shown(text: str, kind: Any) -> None:
    try:
        client = kind(text)
        _, url = urls.find(text)
        shown = [repr(client), client.url, client.owner, str(url), repr(url), f"{url!r}"]
        shown += [repr(client.lock("x")), repr(client.capabilities)]
    except ConfigError as refusal:
        shown = [str(refusal), repr(refusal), repr(refusal.__cause__)]
    assert not [one for one in shown if CANARY in one]


def test_a_client_that_was_pickled_still_knows_its_password() -> None:
    client = Client(f"memory://user:{CANARY}@host/x", ttl=7, label="me")
    twin = pickle.loads(pickle.dumps(client))
    assert (twin._source, twin._ttl, twin.owner) == (client._source, 7.0, client.owner)
    assert CANARY not in repr(twin)
