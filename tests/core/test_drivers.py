"""A store without its driver: one error, with the command that installs the driver."""

from __future__ import annotations

import subprocess
import sys

import pytest

from holdfast import ConfigError
from holdfast.core.drivers import needed

#: The beginning of a program for which the driver isn't installed.
WITHOUT = "import sys; sys.modules[{module!r}] = None; import holdfast; "
URLS = [
    ("redis://h", "redis", "redis>=5.2"),
    ("redis+cluster://h", "redis", "redis>=5.2"),
    ("redis+sentinel://h/main", "redis", "redis>=5.2"),
    ("redis+plain://h", "redis", "redis>=5.2"),
    ("redis+timestamp://h", "redis", "redis>=5.2"),
    ("redis+redisson://h", "redis", "redis>=5.2"),
    ("zookeeper://h", "kazoo", "kazoo>=2.10"),
    ("postgresql://h/db", "psycopg", "psycopg[binary]>=3.2"),
    ("mysql://h/db", "pymysql", "PyMySQL>=1.1.2"),
]


def ran(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)


@pytest.mark.parametrize("url, module, requirement", URLS)
def test_the_error_names_the_command_that_installs_the_driver(
    url: str, module: str, requirement: str
) -> None:
    remedy = f"needs {requirement}: pip install '{requirement}'"
    clients = f"""
for face in holdfast.Client, holdfast.AsyncClient:
    try:
        face({url!r})
    except holdfast.ConfigError as wrong:
        print(wrong)
"""
    done = ran(WITHOUT.format(module=module) + clients)
    expected = 1 if module == "pymysql" else 2  # asyncmy is another driver
    assert done.stdout.count(remedy) == expected, done
    # And the command line prints the same remedy
    doctor = f"import holdfast.cli; sys.exit(holdfast.cli.main(['doctor', '--url', {url!r}]))"
    done = ran(WITHOUT.format(module=module) + doctor)
    assert remedy in done.stdout, done
    assert done.returncode == 1


def test_asyncio_on_mysql_has_a_driver_apart() -> None:
    done = ran(WITHOUT.format(module="asyncmy") + "holdfast.AsyncClient('mysql://h/db')")
    assert "pip install 'asyncmy>=0.2.18'" in done.stderr.splitlines()[-1], done


def test_another_import_that_fails_is_unchanged() -> None:
    done = ran(
        WITHOUT.format(module="holdfast.stores.redis.config") + "holdfast.Client('redis://h')"
    )
    assert "ModuleNotFoundError" in done.stderr.splitlines()[-1], done


@pytest.mark.parametrize(
    "module, words",
    [
        ("kazoo.client", "this store needs kazoo>=2.10"),
        ("fcntl", "needs a POSIX system"),
    ],
)
def test_the_remedy_is_that_of_the_missing_module(module: str, words: str) -> None:
    missing = ImportError("no module", name=module)
    with pytest.raises(ConfigError, match=words) as refused, needed():
        raise missing
    assert refused.value.__cause__ is missing


@pytest.mark.parametrize("module", [None, "holdfast.stores"])
def test_a_failed_import_that_is_not_a_driver_is_unchanged(module: str | None) -> None:
    missing = ImportError("no module", name=module)
    with pytest.raises(ImportError) as raised, needed():
        raise missing
    assert raised.value is missing
