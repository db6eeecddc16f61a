"""The proxy loses, delays or resets the chosen request or its reply, and no other message."""

from __future__ import annotations

import select
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator

import pytest

from holdfast.runtime.blocking import boottime
from holdfast.testing import lag
from holdfast.testing.faults import (
    DROP_REPLY,
    DROP_REQUEST,
    HOLD_REPLY,
    HOLD_REQUEST,
    LINES,
    RESET_REPLY,
    RESET_REQUEST,
    Fault,
    Proxy,
    delay_reply,
)
from tests.servers.process import until

lag.watch()

SOON_S = 10.0


class Answers(socketserver.StreamRequestHandler):
    """Answers each line with its number and the line."""

    server: Server

    def handle(self) -> None:
        for number, line in enumerate(self.rfile):
            self.server.seen.append(line.decode().strip())
            self.wfile.write(b"%d %s" % (number, line))


class Server(socketserver.ThreadingTCPServer):
    """A server; ``seen`` is the list of the lines that it has answered."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.seen: list[str] = []
        self.port = self.server_address[1]
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def handle_error(self, *_: object) -> None:
        """A client that has left is no error."""

    def close(self) -> None:
        self.shutdown()
        self.server_close()


class Client:
    """Sends lines and reads lines."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), SOON_S)
        self._stream = self.socket.makefile("rb")

    def send(self, *words: str) -> None:
        self.socket.sendall("".join(word + "\n" for word in words).encode())

    def read(self, within: float = SOON_S) -> str:
        self.socket.settimeout(within)
        return self._stream.readline().decode().strip()

    def ask(self, word: str) -> str:
        self.send(word)
        return self.read()

    def close(self) -> None:
        self._stream.close()
        self.socket.close()


@pytest.fixture
def server() -> Iterator[Server]:
    one = Server()
    yield one
    one.close()


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    with Proxy("127.0.0.1", server.port, LINES) as one:
        yield one


Connect = Callable[[Proxy], Client]


@pytest.fixture
def connect() -> Iterator[Connect]:
    made: list[Client] = []

    def make(proxy: Proxy) -> Client:
        made.append(Client(proxy.port))
        return made[-1]

    yield make
    for client in made:
        client.close()


@pytest.fixture
def client(proxy: Proxy, connect: Connect) -> Client:
    one = connect(proxy)
    assert one.ask("hello") == "0 hello"
    return one


def until_seen(server: Server, word: str, times: int = 1) -> None:
    until(lambda: server.seen.count(word) >= times, f"{word} comes", SOON_S)


@pytest.mark.parametrize(
    "fault, seen, next_one",
    [(DROP_REQUEST, ["one", "three"], 3), (DROP_REPLY, ["one", "two", "three"], 4)],
    ids=["request", "reply"],
)
def test_one_dropped_message_costs_no_other(
    fault: Fault, seen: list[str], next_one: int, server: Server, proxy: Proxy, client: Client
) -> None:
    armed = proxy.arm(b"two", fault)
    client.send("one", "two", "three")
    assert [client.read(), client.read()] == ["1 one", f"{next_one - 1} three"]
    assert server.seen == ["hello", *seen]
    assert armed.hits == 1
    # And the fault happens only the armed number of times
    assert client.ask("two") == f"{next_one} two"


@pytest.mark.parametrize(
    "fault, seen",
    [(RESET_REQUEST, ["hello"]), (RESET_REPLY, ["hello", "two"])],
    ids=["request", "reply"],
)
def test_a_reset_request_never_arrives_and_that_of_a_reset_reply_does(
    fault: Fault, seen: list[str], server: Server, proxy: Proxy, client: Client, connect: Connect
) -> None:
    armed = proxy.arm(b"two", fault)
    with pytest.raises(ConnectionError):
        client.ask("two")
    armed.wait()
    assert server.seen == seen
    assert connect(proxy).ask("two") == "0 two"


def test_a_delayed_reply_is_late_at_the_client(
    server: Server, proxy: Proxy, client: Client
) -> None:
    proxy.arm(b"two", delay_reply(1.5))
    begun = boottime()
    client.send("two")
    until_seen(server, "two")
    assert boottime() - begun < 1.2 + lag.since(begun)
    assert client.read() == "1 two"
    assert boottime() - begun >= 1.5


def test_a_held_request_is_forwarded_although_its_client_has_left(
    server: Server, proxy: Proxy, client: Client, connect: Connect
) -> None:
    fault = proxy.arm(b"two", HOLD_REQUEST)
    client.send("two")
    fault.wait()
    # When its client gives up, and sends it again on another connection
    client.close()
    assert connect(proxy).ask("two") == "0 two"
    assert server.seen == ["hello", "two"]
    # Then the late copy arrives when the test releases it
    fault.let_go()
    until_seen(server, "two", times=2)


def test_a_held_reply_arrives_when_it_is_forwarded(
    server: Server, proxy: Proxy, client: Client
) -> None:
    fault = proxy.arm(lambda request: request.startswith(b"tw"), HOLD_REPLY)
    client.send("one", "two", "three")
    fault.wait()
    assert client.read() == "1 one"
    assert "two" in server.seen
    assert not select.select([client.socket], [], [], 0.05)[0]
    fault.let_go()
    assert [client.read(), client.read()] == ["2 two", "3 three"]


def test_a_reply_is_known_by_its_request_though_an_earlier_one_was_lost(
    proxy: Proxy, client: Client
) -> None:
    proxy.arm(b"one", DROP_REQUEST)
    proxy.arm(b"three", DROP_REPLY)
    client.send("one", "two", "three", "four")
    assert [client.read(), client.read()] == ["1 two", "3 four"]


def test_without_a_splitter_what_arrives_at_once_is_one_message(
    server: Server, connect: Connect
) -> None:
    with Proxy("127.0.0.1", server.port) as proxy:
        fault = proxy.arm(b"one", DROP_REPLY, times=2)
        for _ in range(2):
            client = connect(proxy)
            client.send("one")
            with pytest.raises(TimeoutError):
                client.read(0.05)
        fault.wait(hits=2)
        assert connect(proxy).ask("one") == "0 one"
        assert server.seen == ["one"] * 3


def test_connections_and_threads_end(server: Server, connect: Connect) -> None:
    before = threading.active_count()
    with Proxy("127.0.0.1", server.port) as proxy:
        clients = [connect(proxy) for _ in range(5)]
        for client in clients:
            assert client.ask("x") == "0 x"
        assert proxy.connections == 5
        for client in clients:
            client.close()
        until(lambda: not proxy.connections, "the connections end", SOON_S)
    until(lambda: threading.active_count() <= before, "the threads end", SOON_S)
