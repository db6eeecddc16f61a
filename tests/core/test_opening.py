"""Threads that make their first clients at the same moment."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.torture.scale import times

ROUNDS = times(30, 3)
#: Without `holdfast.runtime.blocking.opening`, about one round in three ended in an error.
BOTH_AT_ONCE = """
import sys, threading
import holdfast
sys.setswitchinterval(1e-5)
both, wrong = threading.Barrier(2), []
def make(kind, url):
    both.wait()
    try:
        kind(url)
    except BaseException as why:
        wrong.append(why)
pair = ((holdfast.Client, "redis+plain://127.0.0.1"), (holdfast.AsyncClient, "redis://127.0.0.1"))
threads = [threading.Thread(target=make, args=one) for one in pair]
for one in threads: one.start()
for one in threads: one.join()
sys.exit(repr(wrong) if wrong else 0)
"""


def test_two_threads_may_open_their_first_stores_at_once() -> None:
    for _ in range(ROUNDS):
        done = subprocess.run(
            [sys.executable, "-c", BOTH_AT_ONCE], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


GIVEN = """
import sys
from django.conf import settings
shop = {"NAME": "shop", "USER": "app", "PASSWORD": "s3same/", "HOST": "db", "PORT": "5433"}
cache = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", **shop}, "cache": cache}
)
from django.db import connection, connections
import holdfast
for given in (connection, connections["default"], connections["cache"]):
    try:
        holdfast.Client(given)
    except holdfast.ConfigError as wrong:
        print(wrong)
"""


def test_a_connection_of_djangos_is_refused_with_the_url_of_its_database() -> None:
    pytest.importorskip("django")
    done = subprocess.run([sys.executable, "-c", GIVEN], capture_output=True, text=True, check=True)
    proxy, wrapper, other = done.stdout.splitlines()
    assert proxy == wrapper
    assert proxy.endswith("postgresql://app:PASSWORD@db:5433/shop")
    assert "s3same" not in done.stdout
    assert "row_lock" in other
    assert "://" not in other
