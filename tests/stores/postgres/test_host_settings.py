"""Settings of a server that its host may have chosen: each works, or is one error that says why."""

from __future__ import annotations

import asyncio
from urllib.parse import quote

import pytest

from holdfast import AsyncClient, Client, ConfigError
from holdfast.core.finding import Level
from holdfast.stores.postgres import examine
from holdfast.url import find
from tests.torture.scale import part

SETTINGS = [
    "client_encoding=LATIN1",
    "client_encoding=SQL_ASCII",
    "standard_conforming_strings=off",
    "bytea_output=escape",
    "search_path=nowhere",
    "default_transaction_isolation=serializable",
    "default_transaction_deferrable=on",
    "statement_timeout=60",
    "lock_timeout=1",
    "array_nulls=off",
    "transform_null_equals=on",
    "row_security=off",
    "datestyle=German",
    "intervalstyle=sql_standard",
    "timezone=Asia/Kathmandu",
    "extra_float_digits=-15",
    "synchronous_commit=off",
    "enable_indexscan=off",
    "enable_indexonlyscan=off",
    "plan_cache_mode=force_generic_plan",
    "plan_cache_mode=force_custom_plan",
    "jit_above_cost=0",
    "work_mem=64kB",
    "xmloption=document",
    "quote_all_identifiers=on",
    "check_function_bodies=off",
    "default_table_access_method=heap",
    "track_functions=all",
]


def with_setting(url: str, setting: str, schema: str) -> str:
    """The URL of a session with this setting, as ALTER ROLE would give it."""
    return f"{url}?schema={schema}&options={quote(f'-c {setting}')}"


def use(url: str) -> None:
    """Each product once, by both faces; an odd name and a value are what they were."""
    with Client(url) as client:
        with client.lock("naïve 名", meta="ü\\'") as hold:
            assert client.inspect("naïve 名")[0].holders[0].meta == "ü\\'"
            assert hold.extend() > 0
        queue = client.queue("jobs")
        queue.put({"ü\\": "'"})
        with queue.take(timeout=10) as job:
            assert job.payload == {"ü\\": "'"}
        assert client.guard("value", ttl=60).get(lambda: "\\'ü", key="ü") == "\\'ü"

    async def by_task() -> None:
        async with AsyncClient(url) as client, client.lock("naïve 名"):
            assert await client.guard("value", ttl=60).get(lambda: "another", key="ü") == "\\'ü"

    asyncio.run(by_task())


@pytest.mark.parametrize("setting", part(SETTINGS, usual=8))
def test_holdfast_works_whatever_a_session_is_set_to(
    postgres_url: str, own_name: str, setting: str
) -> None:
    use(with_setting(postgres_url, setting, own_name.replace("-", "_")))


def test_one_that_is_read_only_by_its_settings_is_told_from_a_standby(
    postgres_url: str, own_name: str
) -> None:
    url = with_setting(postgres_url, "default_transaction_read_only=on", own_name.replace("-", "_"))
    with Client(url) as client, pytest.raises(ConfigError, match="read_only is on") as told:
        client.lock("x").acquire(timeout=60)
    assert "standby" not in str(told.value)

    async def by_task() -> None:
        async with AsyncClient(url) as client:
            await client.lock("x").acquire(timeout=60)

    with pytest.raises(ConfigError, match="read_only is on"):
        asyncio.run(by_task())
    # Nor does doctor say that it can be written to
    with pytest.raises(ConfigError, match="read_only is on"):
        assert not [one for one in examine(find(url)[1]) if one.level is Level.OK]
