"""The recipes of docs/recipes.md, each run as a separate program, on a separate store."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.pages import snippets
from tests.tidy.tree import ROOT

PAGE = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
#: The code that runs after each block of a section, in the same program.
FASTAPI = """
from concurrent.futures import ThreadPoolExecutor
from fastapi.testclient import TestClient
from holdfast import Client

import time


def pay_for(order):
    # On a busy machine a customer can get the reply "try again".
    end = time.monotonic() + 60
    while (reply := web.post(f"/orders/{order}/pay")).status_code == 503:
        assert time.monotonic() < end
    return reply


with TestClient(app) as web, Client() as others:
    first = pay_for("7")
    assert (first.status_code, first.json()["paid"]) == (200, "7"), first.text
    with others.lock("order:7").acquire() as held:
        busy = pay_for("7")
        assert busy.status_code == 409, busy.text
        assert busy.json() == {"busy": "order:7", "held_by": held.owner}
    again = pay_for("7").json()
    assert again["fence"] > first.json()["fence"]
    accepted = [web.post("/orders/7/refund", params={"bank": "b"}) for _ in range(2)]
    assert [one.status_code for one in accepted] == [202, 202]
    assert [one.json()["duplicate"] for one in accepted] == [False, True]
    job = others.queue("refunds").take(timeout=5)
    assert (job.payload, job.group) == ({"order": "7"}, "bank:b")
    job.ack()
    assert [web.get("/rates/USD").json() for _ in range(2)] == [{"EUR": 1.0, "USD": 1.1}] * 2
    assert others.guard("rates:{currency}", ttl=60).inspect("rates:USD").state == "fresh"
# Another test client has another event loop
with TestClient(app) as web:
    assert pay_for("8").status_code == 200


@app.get("/down")
async def store_is_down() -> None:
    raise StoreUnavailable("planted")


with TestClient(app) as web:
    assert web.get("/down").status_code == 503
"""
DJANGO_BEFORE = """
import django
from django.conf import settings

settings.configure(
    SECRET_KEY="x", ALLOWED_HOSTS=["*"], USE_TZ=True, ROOT_URLCONF=__name__,
    CACHES={"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}},
)
django.setup()
urlpatterns = []
"""
DJANGO = """
import json
from django.test import RequestFactory

request = RequestFactory().post("/")
first = json.loads(pay(request, "7").content)
assert first["paid"] == "7"
with Client() as others, others.lock("order:7").acquire() as held:
    busy = pay(request, "7")
    assert (busy.status_code, json.loads(busy.content)["held_by"]) == (409, held.owner)
assert json.loads(pay(request, "7").content)["fence"] > first["fence"]

assert [frontpage("en"), frontpage("en"), frontpage("de")] == ["<h1>en</h1>"] * 2 + ["<h1>de</h1>"]
invalidate_frontpage(sender=None)
frontpage("en")
assert locks.guard("frontpage:{language}", ttl=60, cache=cache).stats().computes == 3
"""
DJANGO_COMMAND = """
import io
from django.core.management import call_command

out = io.StringIO()
call_command(Command(), stdout=out)
assert out.getvalue() == "report written\\n"
with Client() as others, others.lock("nightly-report").acquire():
    try:
        call_command(Command(), stdout=out)
    except CommandError as refused:
        assert refused.returncode == 75
    else:
        raise AssertionError("it ran at the same time as the other one")
"""
CELERY = """
import threading, time
from celery.contrib.testing.worker import start_worker

with start_worker(app, pool="threads", concurrency=2, perform_ping_check=False):
    assert report.delay("monday").get(timeout=30).startswith("monday under fence ")
    with Client() as others, others.lock("report:tuesday").acquire():
        later = report.delay("tuesday")
        end = time.monotonic() + 30
        while later.state != "RETRY":
            assert time.monotonic() < end, later.state
            time.sleep(0.02)
        # The slot is free meanwhile
        assert report.delay("wednesday").get(timeout=30).startswith("wednesday")
        assert not later.ready()
    assert later.get(timeout=30).startswith("tuesday under fence ")
"""


def blocks(section: str) -> list[str]:
    """Return the Python blocks of one section of the page."""
    text = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return [one.code for one in snippets(text) if one.language == "python"]


def execute(program: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(ROOT / "src"), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
        | {"HOLDFAST_URL": f"sqlite://{tmp_path}/locks.db"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stdout + done.stderr


#: The code before each block of a section, and the code after each block.
RECIPES = {
    "FastAPI": ("", [FASTAPI]),
    "Django": (DJANGO_BEFORE, [DJANGO, DJANGO_COMMAND]),
    "Celery": ("", [CELERY]),
}


@pytest.mark.parametrize("section", RECIPES)
def test_each_block_alone_works_as_the_page_describes(section: str, tmp_path: Path) -> None:
    before, after = RECIPES[section]
    for block, use in zip(blocks(section), after, strict=True):
        execute(before + block + use, tmp_path)


def test_every_block_of_the_page_is_in_a_recipe() -> None:
    found = [one.code for one in snippets(PAGE) if one.language == "python"]
    assert found == [block for section in RECIPES for block in blocks(section)]


def test_a_recipe_that_is_wrong_is_found(tmp_path: Path) -> None:
    (right,) = blocks("FastAPI")
    wrong = right.replace('f"order:{order}", timeout=0', 'f"{order}", timeout=0')
    assert wrong != right
    with pytest.raises(AssertionError, match="AssertionError"):
        execute(wrong + FASTAPI, tmp_path)
