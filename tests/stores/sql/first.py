"""Many first clients, which all want to make the tables; the tests of a store import this."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from holdfast import Client


def test_many_first_clients_make_the_tables_together(new_server: Callable[..., Any]) -> None:
    server = new_server()
    wrong: list[BaseException] = []
    start = threading.Barrier(8)

    def come(number: int) -> None:
        try:
            with Client(server.url) as client:
                start.wait(60)
                client.lock(f"x{number % 2}", timeout=30).acquire().release()
        except BaseException as failure:
            wrong.append(failure)

    crew = [threading.Thread(target=come, args=(number,)) for number in range(8)]
    for one in crew:
        one.start()
    for one in crew:
        one.join(90)
    assert wrong == []
    assert not any(one.is_alive() for one in crew)
