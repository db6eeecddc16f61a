"""Settings that a host can have chosen for its server: each works, or is one clear error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from holdfast import Client, ConfigError
from holdfast.core.finding import Level
from tests.servers.mariadb_server import DATABASE, MariadbServer
from tests.stores.examined import worst
from tests.stores.host_settings import refused, use
from tests.stores.mysql.conftest import NewServer
from tests.torture.scale import part

#: Settings of the whole server, and so of each new session; the most harmful ones come first.
SETTINGS = {
    "sql_select_limit": (1, 0), "completion_type": ("RELEASE", "CHAIN"),
    "max_statement_time": (0.01,), "max_join_size": (1,),
    "sql_mode": ("ANSI_QUOTES", "NO_BACKSLASH_ESCAPES", "PIPES_AS_CONCAT", "ORACLE", "TRADITIONAL",
        "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE",
        "PAD_CHAR_TO_FULL_LENGTH", "NO_UNSIGNED_SUBTRACTION", "NO_AUTO_VALUE_ON_ZERO",
        "HIGH_NOT_PRECEDENCE", "EMPTY_STRING_IS_NULL", "SIMULTANEOUS_ASSIGNMENT", ""),
    "init_connect": ("SET autocommit = 0", "SET NAMES latin1", "START TRANSACTION READ ONLY"),
    "autocommit": (0,), "sql_safe_updates": (1,), "default_storage_engine": ("MyISAM", "Aria"),
    "max_allowed_packet": (16_384, 1024), "net_buffer_length": (1024,), "time_zone": ("+13:00",),
    "tx_isolation": ("SERIALIZABLE", "READ-UNCOMMITTED"), "innodb_lock_wait_timeout": (0,),
    "lock_wait_timeout": (0,), "wait_timeout": (1,), "net_read_timeout": (1,),
    "net_write_timeout": (1,), "idle_transaction_timeout": (1,),
    "character_set_server": ("latin1", "ucs2"), "character_set_client": ("latin1",),
    "collation_connection": ("utf8mb4_bin", "utf8mb4_turkish_ci"), "foreign_key_checks": (0,),
    "unique_checks": (0,), "auto_increment_increment": (10,), "group_concat_max_len": (4,),
    "max_sort_length": (8,), "max_heap_table_size": (16_384,), "tmp_table_size": (1024,),
    "join_buffer_size": (128,), "max_error_count": (0,), "optimizer_search_depth": (0,),
    "optimizer_use_condition_selectivity": (1,), "old_mode": ("", "ZERO_DATE_TIME_CAST"),
    "alter_algorithm": ("INSTANT", "COPY"), "innodb_strict_mode": (0,),
    "innodb_default_row_format": ("redundant",), "innodb_snapshot_isolation": (1,),
    "log_bin_trust_function_creators": (0,), "automatic_sp_privileges": (0,),
    "low_priority_updates": (1,), "explicit_defaults_for_timestamp": (0,),
    "lc_time_names": ("de_DE",), "lc_messages": ("de_DE",),
    "session_track_system_variables": ("*",), "query_cache_type": (1,), "sql_auto_is_null": (1,),
    "div_precision_increment": (0,),
}  # fmt: skip
CASES = [(name, value) for name, values in SETTINGS.items() for value in values]
#: Settings that cannot work, and the text of the error.
REFUSED = {
    ("tx_read_only", 1): "tx_read_only .* is on",
    ("enforce_storage_engine", "MyISAM"): "enforce_storage_engine",
    ("init_connect", "SELECT 1 FROM nowhere.nothing"): "init_connect fails",
    ("require_secure_transport", 1): "ssl_mode=verify_identity",
}
#: Settings that keep one part from working.
PARTLY = {
    ("max_prepared_stmt_count", 0): "max_prepared_stmt_count",
    ("sort_buffer_size", 1024): "sort_buffer_size",
}
#: Options with which the server can have been started.
STARTED = [
    ("lower_case_table_names=1",),
    ("log-bin=b", "binlog-format=ROW", "binlog-row-image=minimal", "gtid-strict-mode=1"),
    ("innodb_force_primary_key=1", "innodb_autoinc_lock_mode=0", "innodb_deadlock_detect=0"),
    ("log-bin=b", "binlog-format=MIXED"),
    ("skip-character-set-client-handshake", "character-set-server=ucs2"),
    ("thread_handling=pool-of-threads", "thread_pool_size=1"),
    ("skip-grant-tables",),
    ("max_connections=10", "innodb_rollback_on_timeout=1"),
]
NOT_STARTED = {
    ("log-bin=b", "binlog-format=STATEMENT"): "binlog_format to ROW",
    ("innodb-read-only",): "innodb_read_only",
    ("innodb_force_recovery=6",): "innodb_force_recovery",
    ("skip-innodb", "default-storage-engine=Aria"): "it has no InnoDB",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariadbServer]:
    """A server whose settings change."""
    with MariadbServer(tmp_path_factory.mktemp("mariadb")) as one:
        yield one


@contextmanager
def set_to(server: MariadbServer, name: str, value: object) -> Iterator[None]:
    """Change this setting for all sessions that begin inside the block."""
    ((before,),) = server.ask(f"SELECT @@global.{name}")
    server.ask(f"SET GLOBAL {name} = %s", value)
    try:
        yield
    finally:
        server.ask(f"SET GLOBAL {name} = %s", before)


@pytest.mark.parametrize("name, value", part(CASES, usual=5))
def test_holdfast_works_whatever_a_session_is_set_to(
    server: MariadbServer, own_name: str, name: str, value: object
) -> None:
    with set_to(server, name, value):
        use(f"{server.url}?prefix={own_name.replace('-', '_')}")


@pytest.mark.parametrize("name, value", PARTLY)
def test_what_keeps_a_part_from_working_is_named_where_that_is_used(
    server: MariadbServer, own_name: str, name: str, value: object
) -> None:
    with set_to(server, name, value), pytest.raises(ConfigError, match=PARTLY[name, value]):
        use(f"{server.url}?prefix={own_name.replace('-', '_')}")


@pytest.mark.parametrize("name, value", part(REFUSED, usual=2))
def test_what_can_never_work_is_one_error_that_names_the_setting(
    server: MariadbServer, own_name: str, name: str, value: object
) -> None:
    with set_to(server, name, value):
        refused(f"{server.url}?prefix={own_name.replace('-', '_')}", REFUSED[name, value])


@pytest.mark.parametrize("settings", part(STARTED, usual=1))
def test_holdfast_works_however_the_server_was_started(
    new_server: NewServer, settings: tuple[str, ...]
) -> None:
    use(f"{new_server('server-id=1', *settings).url}?prefix=Hold")


@pytest.mark.parametrize("settings", part(NOT_STARTED, usual=1))
def test_a_server_started_with_unusable_settings_is_reported(
    new_server: NewServer, settings: tuple[str, ...]
) -> None:
    refused(new_server("server-id=1", *settings).url, NOT_STARTED[settings])


def test_read_only_tables_are_reported(new_server: NewServer) -> None:
    first = new_server()
    use(first.url)
    first.terminate()
    second = new_server("innodb-read-only", data=first.data, users=False)
    assert second.ask(f"SELECT COUNT(*) FROM {DATABASE}.holdfast_lines")
    refused(second.url, "innodb_read_only")


def test_doctor_knows_the_tables_though_the_server_changes_their_names(
    new_server: NewServer,
) -> None:
    server = new_server("lower_case_table_names=1")
    url = f"{server.url}?prefix=Hold"
    with Client(url) as client, client.lock("x"):
        pass
    server.ask(f"ALTER TABLE {DATABASE}.hold_lines ENGINE=MyISAM")
    failed = [one for one, found in worst(url).items() if found.level is Level.FAIL]
    assert failed == ["engine"]
