"""Where the runs of the kit take place, and several of them at once.

Most of a run is waiting for a lease to end or for somebody to be served, so those that were
collected are begun ahead, a few at a time, and each test waits for its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

pytest.register_assert_rewrite("holdfast.testing.conformance")

from holdfast.testing.conformance import Run  # noqa: E402 # after the line above

AT_ONCE = 8


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those that must run alone come last, when all others are over."""
    items.sort(key=lambda item: any(run.case.alone for run in runs_of(item)))


def runs_of(item: pytest.Item) -> list[Run]:
    """The run that this test is about, if it is about one."""
    call = getattr(item, "callspec", None)
    run = call.params.get("run") if call is not None else None
    return [run] if isinstance(run, Run) else []


@pytest.fixture(scope="session")
def urls(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> dict[str, str]:
    """A store of each scheme, for all runs."""
    found = {
        "memory": "memory://conformance",
        "sqlite": f"sqlite://{tmp_path_factory.mktemp('conformance')}/locks.db",
    }
    if any(run.store == "redis" for item in request.session.items for run in runs_of(item)):
        found["redis"] = request.getfixturevalue("shared_redis").url
    return found


@pytest.fixture(scope="session")
def ahead(request: pytest.FixtureRequest, urls: dict[str, str]) -> Iterator[Callable[[Run], None]]:
    """Call it with a run to have it run, or to wait for the end of one that was begun already."""
    runs = [run for item in request.session.items for run in runs_of(item)]
    with ThreadPoolExecutor(AT_ONCE, "run") as pool:
        begun: dict[str, Future[None]] = {
            str(run): pool.submit(run.on, urls[run.store]) for run in runs if not run.case.alone
        }

        def finish(run: Run) -> None:
            if run.case.alone:
                run.on(urls[run.store])
            else:
                begun[str(run)].result()

        yield finish
        pool.shutdown(cancel_futures=True)
