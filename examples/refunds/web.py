"""HTTP and JSON in a few lines: a server that calls a function for each request, and a client."""

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

#: Path of a request, and its data (None for GET) -> status and data of the reply.
Answer = Callable[[str, Any], tuple[int, Any]]


class NoAnswer(Exception):
    """There was no reply: it is unknown whether the request was carried out. Send it again."""


class Server(ThreadingHTTPServer):
    """A server with a thread for each request. Before it ends, it completes running requests."""

    daemon_threads = False
    request_queue_size = 128


def serve(answer: Answer, port: int = 0) -> None:
    """Print the port as a line, and serve on the loopback until SIGTERM arrives."""

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
            with contextlib.suppress(ConnectionError):  # the client has ended; a run kills some
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 # its name there
            """Log nothing, because there are many requests."""

    with Server(("127.0.0.1", port), Handler) as server:
        # In another thread, because shutdown() waits for the loop, which this thread runs.
        signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
        sys.stdout.write(f"{server.server_address[1]}\n")
        sys.stdout.flush()
        server.serve_forever(poll_interval=0.1)


def ask(url: str, sent: Any = None, timeout: float = 10.0) -> tuple[int, Any]:
    """Send a POST with data, or a GET without; return status and data of the reply, or raise
    ``NoAnswer``."""
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
