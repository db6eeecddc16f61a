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
    items.sort(key=_alone)


def _alone(item: pytest.Item) -> bool:
    run = getattr(item, "callspec", None) and item.callspec.params.get("run")  # type: ignore[attr-defined]
    return bool(run and run.case.alone)


@pytest.fixture(scope="session")
def urls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A store of each scheme, for all runs."""
    return {
        "memory": "memory://conformance",
        "sqlite": f"sqlite://{tmp_path_factory.mktemp('conformance')}/locks.db",
    }


@pytest.fixture(scope="session")
def ahead(request: pytest.FixtureRequest, urls: dict[str, str]) -> Iterator[Callable[[Run], None]]:
    """Call it with a run to have it run, or to wait for the end of one that was begun already."""
    calls = [getattr(item, "callspec", None) for item in request.session.items]
    runs = [call.params["run"] for call in calls if call is not None and "run" in call.params]
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
