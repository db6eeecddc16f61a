"""HTTP and JSON in a few lines: a server that asks a function, and a client."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import threading
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

#: A path and what was sent there (None for GET) -> a status and an answer.
Answer = Callable[[str, Any], tuple[int, Any]]


class NoAnswer(Exception):
    """Nobody there, or nobody any more: it isn't known whether the request was carried out."""


class Server(ThreadingHTTPServer):
    """A thread for each request. Those that are being answered are finished before it ends."""

    daemon_threads = False
    request_queue_size = 128


def serve(answer: Answer, port: int = 0) -> None:
    """Listen on the loopback until SIGTERM comes; the port is printed first, as a line."""

    class Handler(BaseHTTPRequestHandler):
        timeout = 10.0
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            self._reply(*answer(self.path, None))

        def do_POST(self) -> None:
            try:
                sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            except (TypeError, ValueError):
                self._reply(400, {"error": "send JSON, with a Content-Length"})
            else:
                self._reply(*answer(self.path, sent))

        def _reply(self, status: int, body: Any) -> None:
            raw = json.dumps(body).encode()
            with contextlib.suppress(ConnectionError):  # whoever asked is gone, maybe killed
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 # its name there
            """Say nothing: there are many requests."""

    with Server(("127.0.0.1", port), Handler) as server:
        # From another thread, because it waits for the loop that the signal interrupts.
        signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
        sys.stdout.write(f"{server.server_address[1]}\n")
        sys.stdout.flush()
        server.serve_forever(poll_interval=0.1)


def ask(url: str, sent: Any = None, timeout: float = 10.0) -> tuple[int, Any]:
    """What is answered there: a POST if something is sent, else a GET. ``NoAnswer`` if nothing."""
    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=timeout)
    try:
        if sent is None:
            connection.request("GET", parts.path)
        else:
            connection.request("POST", parts.path, json.dumps(sent).encode())
        reply = connection.getresponse()
        return reply.status, json.loads(reply.read())
    except (OSError, HTTPException, ValueError) as wrong:
        raise NoAnswer(f"{url} did not answer: {wrong}") from wrong
    finally:
        connection.close()
