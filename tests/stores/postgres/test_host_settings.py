"""Settings that a host can have chosen for its server: each works, or is one clear error."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from tests.stores.host_settings import refused, use
from tests.torture.scale import part

SETTINGS = [
    "client_encoding=LATIN1", "client_encoding=SQL_ASCII", "standard_conforming_strings=off",
    "bytea_output=escape", "search_path=nowhere", "default_transaction_isolation=serializable",
    "default_transaction_deferrable=on", "statement_timeout=60", "lock_timeout=1",
    "array_nulls=off", "transform_null_equals=on", "row_security=off", "datestyle=German",
    "intervalstyle=sql_standard", "timezone=Asia/Kathmandu", "extra_float_digits=-15",
    "synchronous_commit=off", "enable_indexscan=off", "enable_indexonlyscan=off",
    "plan_cache_mode=force_generic_plan", "plan_cache_mode=force_custom_plan", "jit_above_cost=0",
    "work_mem=64kB", "xmloption=document", "quote_all_identifiers=on", "check_function_bodies=off",
    "default_table_access_method=heap", "track_functions=all",
]  # fmt: skip


def with_setting(url: str, setting: str, schema: str) -> str:
    """The URL of a session with this setting, as ALTER ROLE would set it."""
    return f"{url}?schema={schema}&options={quote(f'-c {setting}')}"


@pytest.mark.parametrize("setting", part(SETTINGS, usual=8))
def test_holdfast_works_whatever_a_session_is_set_to(
    postgres_url: str, own_name: str, setting: str
) -> None:
    use(with_setting(postgres_url, setting, own_name.replace("-", "_")))


def test_a_server_set_to_read_only_is_distinguished_from_a_standby(
    postgres_url: str, own_name: str
) -> None:
    url = with_setting(postgres_url, "default_transaction_read_only=on", own_name.replace("-", "_"))
    refused(url, "^(?!.*standby).*read_only is on")
