"""Connections under limits of time and number, before anything is asked of the application.

uvicorn reads as slowly as a client writes, and takes any number of connections. Here a client has a few seconds to
send the head of a request (the application limits the body) and to take an answer. If there are too many connections, the
one that has waited longest without a complete head is closed, so that half-open ones cannot keep others out.
"""

from typing import Any, cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 10.0
READ_SECONDS = 30.0
"""How long a client may take no byte of an answer that does not fit into the system's buffers."""
MOST_CONNECTIONS = 512
OTHER_FILES = 56
"""Descriptors that are kept for other things than connections: files, and connections on their way in and out."""
AT_ONCE = 16
"""Connections that are accepted before the first of them is looked at."""
WAITING = 512
"""Connections that the system keeps until they are accepted."""
STOP_SECONDS = 2
BUSY = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


def most_connections() -> int:
    """Return how many connections may be open at once: some descriptors are needed for files."""
    try:
        import resource
    except ImportError:  # Windows
        return MOST_CONNECTIONS
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(4, min(MOST_CONNECTIONS, soft - OTHER_FILES)) if soft > 0 else MOST_CONNECTIONS


class Connection(H11Protocol):
    """One client's connection."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.since, self.is_gone = self.loop.time(), False

    @property
    def is_idle(self) -> bool:
        """Whether it waits for a request, or for the rest of its head."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: Any) -> None:
        """Wait for the first request; close another connection if there are too many."""
        super().connection_made(transport)
        if len(self.connections) > most_connections() and not self._made_room():
            transport.write(BUSY)
            transport.close()

    def on_response_complete(self) -> None:
        """Wait for the next request, or until the client takes the answer."""
        self.since = self.loop.time()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP; if a question was begun with, its answer goes nowhere."""
        if not self.is_idle:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        try:
            super().send_400_response(msg)
        except h11.LocalProtocolError:  # in the middle of an answer
            self.abort()

    def pause_writing(self) -> None:
        """Wait until the client takes more of the answer."""
        super().pause_writing()
        self.since = self.loop.time()

    def close_if_late(self) -> None:
        """Close it if its client has neither sent a head nor taken an answer for too long."""
        seconds = READ_SECONDS if self.flow.write_paused else HEAD_SECONDS
        if (self.is_idle or self.flow.write_paused) and self.loop.time() - self.since > seconds:
            self.abort()

    def abort(self) -> None:
        """Close at once; what was not sent is lost."""
        self.is_gone = True
        self.transport.abort()

    def _made_room(self) -> bool:
        """Close what has waited longest for a request, unless enough are closing; returns whether there is room."""
        others = [c for c in cast(set[Connection], self.connections) if c is not self and not c.is_gone]
        if len(others) < most_connections():
            return True
        idle = [c for c in others if c.is_idle]
        if idle:
            min(idle, key=lambda c: c.since).abort()
        return bool(idle)


class Server(uvicorn.Server):
    """A server that accepts few connections at once and lets the system keep many that wait."""

    async def startup(self, sockets: Any = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(WAITING)  # the loop took the number of connections to accept at once

    async def on_tick(self, counter: int) -> bool:
        """Close connections that are late, ten times per second."""
        for connection in list(self.server_state.connections):
            cast(Connection, connection).close_if_late()
        return await super().on_tick(counter)


def make_server(app: Any) -> Server:
    """Make a server of an application; it runs on sockets that are given to ``run``."""
    config = uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        lifespan="off",
        log_level="error",
        access_log=False,
        backlog=AT_ONCE,
        timeout_graceful_shutdown=STOP_SECONDS,
    )
    return Server(config)
