"""One session with an ensemble, by kazoo: kazoo's thread sends requests and receives the answers.

We use kazoo's connection, which runs in a separate thread, and give this connection requests made
from kazoo's own classes. We change these points of kazoo:

* kazoo hides the negotiated length of the session. We read it from the server's answer.
* kazoo sends nothing for a third of a session, and regards a server as dead after two thirds. We
  make it ping more often (`lease_of` explains why), and look for another server earlier.
* By default kazoo waits for up to an hour before it connects again. We set `AGAIN_S_MAX`.
* kazoo waits too long for a server that doesn't answer, and never connects again to a server that
  has lost data. The module ``meeting`` changes these two points.
* At level DEBUG kazoo logs credentials. Our logger writes only warnings and worse.
* To see whether a socket is ready kazoo makes an epoll object, five times per request. We use poll.
* If the wake-up of kazoo's thread is interrupted, the new request stays in the queue, and each
  later request is sent only when another request follows. So we wake the thread once more.
* kazoo's threads keep a session alive even if its client is gone. Our session ends when no object
  refers to the client, or when the event loop that renews leases hasn't run for a whole lease.
* If kazoo's start is interrupted, or a thread can't start, some of kazoo's threads remain without a
  connection. We start kazoo on a separate thread, where no signal arrives, and clean up after a
  failed start.
"""

from __future__ import annotations

import atexit
import logging
import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol
from weakref import ref

from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol import serialization as wire
from kazoo.protocol.states import EventType, KeeperState
from kazoo.retry import KazooRetry
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE

from ....errors import ConfigError, HoldfastError, StoreUnavailable
from ....runtime.polling.blocking import READ, WRITE, poller
from ....runtime.starting.blocking import DaemonThread
from ..config import Settings, lease_of, silent
from ..requests import (
    Check,
    Children,
    Create,
    Delete,
    Folder,
    Get,
    Look,
    Multi,
    Put,
    Request,
)
from .meeting import CONNECT_S, Meeting
from .newer import Newer
from .refused import Attempts, needed

#: The first and the longest pause, in seconds, between two rounds through all servers.
AGAIN_S, AGAIN_S_MAX = 0.05, 1.0
#: The flags of a new node.
_EPHEMERAL, _NUMBERED, _CONTAINER = 1, 2, 4
_log = logging.getLogger("holdfast.kazoo")
_log.setLevel(logging.WARNING)
_ACLS = {"open": OPEN_ACL_UNSAFE, "creator": CREATOR_ALL_ACL}


class Slot:
    """Receives the answer to one request, on kazoo's thread, and then calls ``tell``.

    If a request can't be sent, kazoo sets its answer two times; the first answer counts.
    """

    __slots__ = ("_tell", "value")

    def __init__(self, tell: Callable[[], object]) -> None:
        #: The server's answer as a kazoo object, or the exception that explains why there is no
        #: answer.
        self.value: Any = None
        self._tell: Callable[[], object] | None = tell

    def set(self, value: Any = None) -> None:
        """Store the answer, and call ``tell``; a second answer is ignored."""
        tell, self._tell = self._tell, None
        if tell is not None:
            self.value = value
            tell()

    def set_exception(self, wrong: BaseException) -> None:
        """Store a refusal, or the end of the connection."""
        self.set(wrong)


class _CreateContainer(wire.Create2):  # type: ignore[misc]
    """Request for a folder that the server removes once it is empty. kazoo has no such class."""

    type = 19


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's threads, with less time lost on a silent server and less work per request."""

    def select(
        self,
        rlist: Sequence[Any],
        wlist: Sequence[Any],
        xlist: object,
        timeout: float | None = None,
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Return the sockets that are ready."""
        poll = poller()
        for one in rlist:
            poll.register(one, READ)
        for one in wlist:
            poll.register(one, WRITE)
        ready = dict(poll.poll(None if timeout is None else math.ceil(timeout * 1000)))
        if not ready:
            return [], [], []
        return (
            [one for one in rlist if one.fileno() in ready],
            [one for one in wlist if one.fileno() in ready],
            [],
        )

    def create_connection(self, *args: Any, **options: Any) -> Any:
        """Connect to one server, within `CONNECT_S`."""
        options["timeout"] = min(options.get("timeout") or CONNECT_S, CONNECT_S)
        return super().create_connection(*args, **options)


class User(Protocol):
    """The port that uses a session. It is called on kazoo's threads."""

    def on_state(self) -> None:
        """Called when the connection was made, or lost."""
        ...

    def silence(self) -> float:
        """Return for how many seconds the code that renews leases has been unable to run."""
        ...


class Driver:
    """A private kazoo client. It ends when the port that uses it has been garbage-collected.

    ``former``: a driver that has ended. The new driver continues the former driver's session if
    that session still lives.
    """

    def __init__(self, settings: Settings, user: User, former: Driver | None = None) -> None:
        needed(settings)
        self._settings = settings
        self._user = ref(user)
        self._attempts = Attempts(settings)
        #: Id and password of the latest session.
        self._proof: tuple[int, bytes] | None = None
        if former is not None:
            self._proof = former._proof
            self._attempts.made = former._attempts.made
            former.stop()
        named = isinstance(settings.acl, str)
        self._acl = _ACLS[settings.acl] if named else settings.acl
        self._handler = _Handler()
        self.client = KazooClient(
            hosts=settings.hosts,
            timeout=settings.session,
            client_id=self._proof,
            handler=self._handler,
            auth_data=set(settings.auth),
            sasl_options=dict(settings.sasl) if settings.sasl else None,
            connection_retry=KazooRetry(
                max_tries=-1,
                delay=AGAIN_S,
                max_delay=AGAIN_S_MAX,
                sleep_func=self._handler.sleep_func,
            ),
            logger=_log,
            **settings.tls,
        )
        self._starting = DaemonThread(target=self._start, name="holdfast-zookeeper-start")
        #: True after `let_go`: kazoo's thread ends the session.
        self._let_go = False
        #: The error that prevented the driver's start.
        self._failed: Exception | None = None
        #: The reason why this ensemble can't be used, once the reason is known.
        self.unfit: HoldfastError | None = None
        #: The length of the session that the server grants, in seconds; 0: not known yet.
        self.granted = 0.0
        self._listen()

    def _listen(self) -> None:
        connection = self.client._connection
        invoke = connection._invoke
        meeting, later = Meeting(), Newer(self.client, self._settings, self._refuse)

        def listening(timeout: float, request: Any, xid: int | None = None) -> Any:
            if not isinstance(request, wire.Connect):
                return invoke(timeout, request, xid)
            session = self.granted or self._settings.session
            answer: Any = meeting.meet(request, timeout, session, invoke)
            self._introduced(answer[0])
            return answer

        connection._invoke = listening
        connect = connection._connect

        def connecting(host: str, hostip: str, port: int) -> tuple[float, float]:
            meeting.alone()
            self._require_life()
            # kazoo pings after half of the first returned time, and gives the server up after this
            # time.
            try:
                read_ms, connect_ms = connect(host, hostip, port)
            except Exception as wrong:
                self.unfit = self.unfit or self._attempts.failed(wrong)
                self._tell()  # the callers that wait for a connection check `unfit`
                raise
            self._attempts.made = True
            later.look()
            self._nudge()
            return min(read_ms, 2000.0 * silent(self.granted)), connect_ms

        connection._connect = connecting
        self._attempts.bound_login(connection)

        def changed(state: object) -> None:
            if self.client.client_state == KeeperState.AUTH_FAILED:
                self.unfit = self.unfit or ConfigError(
                    f"{self._settings.label} refused our credentials: check user:password@, "
                    "sasl= and the server's configuration"
                )
            self._tell()

        self.client.add_listener(changed)
        ping, loop = connection._send_ping, connection.zk_loop

        def pinging(connect_timeout: float) -> None:
            self._require_life()
            ping(connect_timeout)

        def looping() -> None:
            loop()
            if self._let_go:
                self._clear_away()

        connection._send_ping, connection.zk_loop = pinging, looping

    def _refuse(self, why: ConfigError) -> None:
        self.unfit = why
        self._tell()

    def _tell(self) -> None:
        user = self._user()
        if user is not None:
            user.on_state()

    def _require_life(self) -> None:
        """End the session if its port was garbage-collected, or if the code that renews leases
        hasn't run for a whole lease."""
        user = self._user()
        if user is None or user.silence() > lease_of(self.granted or self._settings.session):
            self.let_go()

    def _introduced(self, answer: wire.Connect) -> None:
        """Read the length of the session from the server's answer; 0: the session has ended."""
        seconds = answer.time_out / 1000.0
        self._proof = (answer.session_id, answer.passwd) if seconds > 0 else None
        if seconds <= 0:
            return
        self.granted = seconds
        if seconds < self._settings.session - 0.001:
            self.unfit = ConfigError(
                f"{self._settings.label} gives no session of more than {seconds:g} s, and "
                f"{self._settings.session:g} s are requested: write session={seconds:g} in the URL,"
                " or raise maxSessionTimeout on the servers"
            )

    def start(self) -> None:
        """Begin to connect, and return immediately. After an error the driver has ended."""
        try:
            self._starting.start()
            self._starting.join()
            if self._failed is not None:
                raise self._failed
        except RuntimeError as wrong:  # no thread for us, or none for kazoo
            what = f"{self._settings.label} needs a thread: {wrong}; end some threads "
            raise StoreUnavailable(
                what + "of this process, or raise its limit (ulimit -u)"
            ) from None

    def _start(self) -> None:
        try:
            self.client.start_async()
        except Exception as wrong:
            self._failed = wrong
            self.client._stopped.set()  # there is no session to end
            self._handler._running = True
            self._clear_away()

    def _clear_away(self) -> None:
        self._handler.stop()
        self.client.close()

    @property
    def connected(self) -> bool:
        """True if there is a connection now."""
        return bool(self.client.connected) and not self._let_go

    @property
    def over(self) -> bool:
        """True if the driver has ended: then a new driver is needed."""
        routine = self.client._connection._connection_routine or self._starting
        if self._let_go:
            return True
        return not routine.is_alive()

    def session(self) -> int:
        """Return the id of the session; 0 if there is none."""
        return self.client._session_id or 0

    def send(self, request: Request, answer: Slot) -> None:
        """Queue a request. kazoo's thread sets the answer; this method does so if sending fails."""
        try:
            self.client._call(self._worded(request), answer)
        except BaseException:
            self._nudge()
            raise

    def _nudge(self) -> None:
        """Wake kazoo's thread once more; an unneeded wake-up does no harm."""
        waker = self.client._connection._write_sock
        if waker is not None:
            try:
                waker.send(b"\0")
            except OSError:
                return  # the thread has ended, or has many wake-ups already

    def stop(self) -> None:
        """End the session. If a server is reachable, the session's nodes are gone on return."""
        if self._let_go or self._starting.give_up():
            return
        self._starting.join()
        self.client.stop()
        self.client.close()

    def let_go(self) -> None:
        """Make kazoo's own thread end the session soon."""
        self._let_go, self._proof = True, None
        if not self._starting.give_up():
            self.client._stopped.set()
            self.client._queue.append((wire.CloseInstance, None))
            self._nudge()

    def leak(self) -> None:
        """Drop the driver in the child of a fork: its threads run only in the parent."""
        atexit.unregister(self._handler.stop)

    # -- kazoo's requests --------------------------------------------------------------------

    def _worded(self, request: Request) -> Any:
        """Return a request as an object of kazoo."""
        if isinstance(request, Create):
            flags = _EPHEMERAL * request.ephemeral | _NUMBERED * request.numbered
            return wire.Create2(request.path, request.data, self._acl, flags)
        if isinstance(request, Children):
            return wire.GetChildren(request.path, _watcher(request.watch))
        if isinstance(request, Get):
            return wire.GetData(request.path, _watcher(request.watch))
        if isinstance(request, Delete):
            return wire.Delete(request.path, request.version)
        if isinstance(request, Multi):
            return wire.Transaction([self._part(one) for one in request.parts])
        if isinstance(request, Put):
            return wire.SetData(request.path, request.data, request.version)
        if isinstance(request, Look):
            return wire.Exists(request.path, None)
        if isinstance(request, Folder):
            return _CreateContainer(request.path, b"", self._acl, _CONTAINER)
        return wire.Sync(request.path)

    def _part(self, one: Put | Check | Create | Delete) -> Any:
        if isinstance(one, Put):
            return wire.SetData(one.path, one.data, one.version)
        if isinstance(one, Create):  # in a transaction kazoo can't read the answer to a Create2
            flags = _EPHEMERAL * one.ephemeral | _NUMBERED * one.numbered
            return wire.Create(one.path, one.data, self._acl, flags)
        if isinstance(one, Delete):
            return wire.Delete(one.path, one.version)
        return wire.CheckVersion(one.path, one.version)


def _watcher(watch: Callable[[bool], None] | None) -> Any:
    if watch is None:
        return None
    return lambda event: watch(event.type == EventType.DELETED)
