"""Shared by all loopback servers: accepting, one thread per connection, counting, stopping.

Speaks TLS when given a context; knows nothing of HTTP.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from tests.servers.connection import Connection

if TYPE_CHECKING:
    from typing_extensions import Self

_C = TypeVar("_C", bound=Connection)
_JOIN_SECONDS = 60.0
_HEARD_SECONDS = 1.0  # for connections that somebody keeps
_ASKED_EVERY = 0.05  # seconds


class Handshake(NamedTuple):
    """One finished TLS handshake; `peer` is the common name of the client's certificate."""

    version: str | None
    alpn: str | None
    sni: str | None
    peer: str | None
    resumed: bool


class Listener(Generic[_C]):
    """A server on loopback: use it as a context manager.

    Args:
        context: TLS for every connection; None for plain TCP.
        host: the address to bind, of IPv4 or IPv6 loopback.
    """

    scheme = "http"

    def __init__(self, context: ssl.SSLContext | None = None, *, host: str = "127.0.0.1") -> None:
        self.context = context
        self.host = host
        self.port = 0
        self.connections = 0
        self.open_connections = 0
        self.max_open = 0
        self.handshakes: list[Handshake] = []
        self.failed_handshakes: list[str] = []
        self.errors: list[Exception] = []
        self.stopping = threading.Event()
        self.changed = threading.Condition()
        self._accepting = False
        self._last: object = None  # the address of the last client of the previous test
        self._is_last_accepted = False
        self._sockets: set[socket.socket] = set()
        self._older: set[socket.socket] = set()  # there before the counts were reset
        self._adopted: set[socket.socket] = set()
        self.threads: list[threading.Thread] = []

    def connect(self, sock: socket.socket, index: int) -> _C:
        """Return the object that `serve` gets for an accepted socket."""
        raise NotImplementedError

    def serve(self, conn: _C) -> None:
        """Talk on one connection until it ends; OSError means that the client has left."""
        raise NotImplementedError

    # -- addresses

    @property
    def url(self) -> str:
        """The base URL without a final slash."""
        return self.at(self.host)

    def at(self, host: str) -> str:
        """Return the base URL under another name of this machine, such as "localhost"."""
        scheme = self.scheme + ("s" if self.context else "")
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.port}"

    # -- life

    def start(self) -> None:
        """Listen on a free port and accept in a thread."""
        self.start_accepting()

    def stop(self) -> None:
        """End every connection and thread; raises the first error of a handler."""
        self.stopping.set()
        self.stop_accepting()
        with self.changed:
            for sock in self._sockets | self._adopted:
                _shut(sock)
            threads, self.threads = self.threads, []
        for thread in threads:
            thread.join(_JOIN_SECONDS)
        stuck = [thread.name for thread in threads if thread.is_alive()]
        if stuck:
            raise RuntimeError(f"threads of a loopback server did not end: {stuck}")
        if self.errors:
            raise self.errors[0]

    def start_accepting(self) -> None:
        """Listen (again on the same port after `stop_accepting`)."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        self._listening = socket.socket(family, socket.SOCK_STREAM)
        self._listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listening.bind((self.host, self.port))
        self._listening.listen(4096)
        self.port = self._listening.getsockname()[1]
        self._accepting = True
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()

    def stop_accepting(self) -> None:
        """Refuse new connections from now on; those already open continue."""
        if not self._accepting:
            return
        self._accepting = False
        # accept() is woken by a connection: closing the socket under it does not, everywhere.
        with contextlib.suppress(OSError):
            socket.create_connection((self.host, self.port), timeout=_JOIN_SECONDS).close()
        self._acceptor.join(_JOIN_SECONDS)
        self._listening.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self.stop()
        except Exception:
            # The failure of the test itself says more than its effect on a handler.
            if error is None:
                raise

    # -- counting

    def wait_for(self, condition: Callable[[], bool], timeout: float = 30.0) -> bool:
        """Wait until `condition()` holds, which may be about what no server sees: files, say."""
        end = time.monotonic() + timeout
        with self.changed:
            while not self.changed.wait_for(condition, _ASKED_EVERY):
                if time.monotonic() > end:
                    return False
        return True

    def note(self) -> None:
        """Wake those in `wait_for`."""
        with self.changed:
            self.changed.notify_all()

    def begin_test(self) -> None:
        """Process what the previous test has sent and closed, and forget it."""
        self._accept_waiting()
        with self.changed:
            self.changed.wait_for(lambda: self._sockets <= self._older, _HEARD_SECONDS)
        self.reset_counts()

    def _accept_waiting(self) -> None:
        """Wait until each connection is accepted that was made before this call."""
        if not self._accepting:
            return
        with socket.socket(self._listening.family) as last:
            last.bind((self.host, 0))
            self._last, self._is_last_accepted = last.getsockname(), False
            last.connect((self.host, self.port))
            with self.changed:
                self.changed.wait_for(lambda: self._is_last_accepted, _JOIN_SECONDS)

    def reset_counts(self) -> None:
        """Forget what was counted, and connections that are open."""
        with self.changed:
            self.connections = self.open_connections = self.max_open = 0
            self._older = set(self._sockets)
            self.handshakes.clear()
            self.failed_handshakes.clear()

    # -- connections

    def adopt(self, sock: socket.socket) -> None:
        """Shut `sock` at `stop` too (a proxy's connection to the origin)."""
        self._hold(sock, self._adopted)

    def forget(self, sock: socket.socket) -> None:
        """Close a socket and stop watching it."""
        with self.changed:
            if sock in self._sockets:
                self._sockets.discard(sock)
                self.open_connections -= sock not in self._older
            self._adopted.discard(sock)
            sock.close()
            self.changed.notify_all()

    def _hold(self, sock: socket.socket, sockets: set[socket.socket]) -> None:
        with self.changed:
            sockets.add(sock)
            if self.stopping.is_set():
                _shut(sock)

    def _accept(self) -> None:
        try:
            while True:
                sock, peer = self._listening.accept()
                if not self._accepting:
                    sock.close()
                    return
                if peer == self._last:
                    sock.close()
                    with self.changed:
                        self._is_last_accepted = True
                        self.changed.notify_all()
                    continue
                self._begin(sock)
        except OSError as error:
            if self._accepting:
                self.errors.append(error)

    def _begin(self, sock: socket.socket) -> None:
        with self.changed:
            index = self.connections
            self.connections += 1
            self.open_connections += 1
            self.max_open = max(self.max_open, self.open_connections)
            self._sockets.add(sock)
            if len(self.threads) > 2 * self.open_connections + 64:
                self.threads = [thread for thread in self.threads if thread.is_alive()]
            thread = threading.Thread(target=self._run, args=(sock, index), daemon=True)
            self.threads.append(thread)
            # Started under the lock: stop() must not try to join a thread not yet started.
            thread.start()
            self.changed.notify_all()

    def _run(self, sock: socket.socket, index: int) -> None:
        conn: Connection | None = None
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.context is not None:
                sock = self.wrap(sock, self.context)
            conn = typed = self.connect(sock, index)
            self.serve(typed)
        except OSError:
            pass
        except Exception as error:
            self.errors.append(error)
        finally:
            if conn is not None:
                conn.close()
            self.forget(sock)

    def wrap(self, sock: socket.socket, context: ssl.SSLContext) -> ssl.SSLSocket:
        with self.changed:
            self._sockets.discard(sock)
            try:
                wrapped = context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
            except (OSError, ValueError):
                self._sockets.add(sock)  # the caller forgets it, which keeps the count right
                raise
            if sock in self._older:
                self._older.add(wrapped)
            self._hold(wrapped, self._sockets)
        try:
            wrapped.do_handshake()
        except OSError as error:
            self.failed_handshakes.append(str(error))
            self.forget(wrapped)
            raise
        self.handshakes.append(_describe(wrapped))
        return wrapped


def _describe(sock: ssl.SSLSocket) -> Handshake:
    certificate: dict[str, Any] = sock.getpeercert() or {}
    subject = dict(pair for (pair,) in certificate.get("subject", ()))
    return Handshake(
        version=sock.version(),
        alpn=sock.selected_alpn_protocol(),
        sni=getattr(sock, "requested_name", None),
        peer=subject.get("commonName"),
        resumed=bool(sock.session_reused),
    )


def _shut(sock: socket.socket) -> None:
    # Past SSLSocket.shutdown, which would drop the TLS state under the thread that uses it.
    with contextlib.suppress(OSError):
        socket.socket.shutdown(sock, socket.SHUT_RDWR)
        if sys.platform == "win32":  # there, at least on wine, a thread that reads is not woken
            import ctypes

            ctypes.windll.kernel32.CancelIoEx(ctypes.c_void_p(sock.fileno()), None)
