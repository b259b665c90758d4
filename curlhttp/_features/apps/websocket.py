"""A WebSocket to an ASGI app: the server's side of the protocol, on bytes in memory.

The client writes its handshake and its frames as on any connection. The package websockets
implements RFC 6455. This module converts the client's frames to ASGI messages, and back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from curlhttp._features.apps.app_call import Condition, UnexpectedMessage
from curlhttp._http.request import ClientRequest
from curlhttp._http.response import get_reason_phrase
from curlhttp._runtime.loops import BackgroundTasks
from curlhttp.exceptions import RemoteProtocolError

if TYPE_CHECKING:
    from websockets.frames import Frame
    from websockets.http11 import Request as Handshake
    from websockets.http11 import Response as Reply

_MAX_BUFFERED = 64 * 1024  # bytes that one side may be ahead of the other
_ABNORMAL_CLOSURE = 1006
_Message = dict[str, Any]  # Any: what a message holds depends on its type


class AppSocket:
    """The app's side of a WebSocket.

    Args:
        app: the ASGI app.
        make_scope: makes the scope from the received header fields.
        request: complete.
        tasks: background tasks for this WebSocket only.
        raises: whether the app's exceptions are raised to the caller.
        on_end: called when the app has ended.

    Raises:
        ImportError: the package websockets is missing.
    """

    def __init__(
        self,
        app: Any,  # Any: an app of the user's
        make_scope: Callable[[list[tuple[bytes, bytes]]], dict[str, object]],
        request: ClientRequest,
        tasks: BackgroundTasks,
        *,
        raises: bool,
        on_end: Callable[[AppSocket], object],
    ) -> None:
        try:
            from websockets.extensions.permessage_deflate import ServerPerMessageDeflateFactory
            from websockets.server import ServerProtocol
        except ImportError as error:
            raise ImportError(
                "WebSockets need the package websockets: pip install 'curlhttp[ws]'"
            ) from error
        self.changed: Condition = Condition(tasks.make_waiter)
        self.failed: BaseException | None = None  # raised on the client's side
        self.is_disconnected = False  # the client
        self._app = app
        self._make_scope = make_scope
        self._request = request
        self._tasks = tasks
        self._raises = raises
        self._on_end = on_end
        self._protocol = ServerProtocol(
            extensions=[ServerPerMessageDeflateFactory()],
            select_subprotocol=lambda protocol, offered: self._subprotocol,  # type: ignore[arg-type, return-value]
            max_size=None,
        )
        self._subprotocol: str | None = None
        self._handshake: Handshake | None = None
        self._is_accepted = False
        self._refusal: _Message | None = None  # the message websocket.http.response.start
        self._refusal_body = b""
        self._inbox: deque[_Message] = deque()
        self._inbox_size = 0
        self._outbox: deque[bytes] = deque()
        self._outbox_size = 0
        self._has_sent_all = False  # to the client
        self._parts: list[bytes] = []  # fragments of a message
        self._is_text = False
        self._has_ended = False  # the app's task

    # the client's side

    def feed_bytes(self, data: bytes) -> None:
        """Process bytes that the client sends."""
        if self._has_sent_all:
            return
        self._protocol.receive_data(data)
        for event in self._protocol.events_received():
            if self._handshake is None:
                self._start_app(event)  # type: ignore[arg-type]
            else:
                self._take_frame(event)  # type: ignore[arg-type]
        if self._protocol.parser_exc is not None:
            self._add_disconnect(_ABNORMAL_CLOSURE, "")
        self._flush()

    def read_bytes(self) -> bytes | None:
        """Return the bytes that the app has sent, b"" at the end, or None if there are none yet.

        Raises:
            BaseException: the app failed, or the client aborted the connection with this error.
        """
        if self._outbox:
            data = b"".join(self._outbox)
            self._outbox.clear()
            self._outbox_size = 0
            self.changed.notify_all()
            return data
        if self.failed is not None:
            raise self.failed
        return b"" if self._has_sent_all else None

    def can_read(self) -> bool:
        """Return whether `read_bytes` would not return None."""
        return bool(self._outbox or self._has_sent_all or self.failed is not None)

    def has_room(self) -> bool:
        """Return whether the app has received most of the messages."""
        return self._inbox_size < _MAX_BUFFERED or self.is_disconnected or self._has_ended

    def unsent(self) -> int:
        """Return the bytes of messages that wait for the app, or 0 if there is room for more."""
        return 0 if self.has_room() else self._inbox_size

    def abort(self, error: Exception | None = None) -> None:
        """Notify the app that the client has disconnected.

        Args:
            error: raised in callers that wait for the app; or None.
        """
        if self.failed is None and error is not None:
            self.failed = error
            self._outbox.clear()
        self._has_sent_all = True
        if not self.is_disconnected:
            self.is_disconnected = True
            self._add_disconnect(_ABNORMAL_CLOSURE, "")
        self.changed.notify_all()

    def cancel(self) -> None:
        """Cancel the app's task."""
        self._tasks.cancel()

    async def wait_until_ended(self) -> None:
        """Wait until the app's task has ended."""
        await self._tasks.wait_until_done()

    def call_soon(self, call: Callable[[], object]) -> None:
        """Call a function in the loop, from any thread, unless the loop has ended."""
        with suppress(RuntimeError):
            self._tasks.call_soon(call)

    # from bytes to messages

    def _start_app(self, handshake: Handshake) -> None:
        self._handshake = handshake
        # Non-ASCII bytes are latin-1 or surrogates, depending on the version of websockets.
        fields = [
            (name.lower().encode("latin-1"), value.encode("latin-1", "surrogateescape"))
            for name, value in handshake.headers.raw_items()
        ]
        scope = self._make_scope(fields)
        offered = ",".join(handshake.headers.get_all("Sec-WebSocket-Protocol"))
        scope["subprotocols"] = [name for each in offered.split(",") if (name := each.strip())]
        scope["extensions"] = {"websocket.http.response": {}}
        self._inbox.append({"type": "websocket.connect"})
        self._tasks.spawn(self._run, scope)

    def _take_frame(self, frame: Frame) -> None:
        name = frame.opcode.name
        if name == "CLOSE":
            close = self._protocol.close_rcvd
            assert close is not None
            self._add_disconnect(int(close.code), close.reason)
        if name not in ("TEXT", "BINARY", "CONT"):
            return
        if name != "CONT":
            self._is_text = name == "TEXT"
        self._parts.append(bytes(frame.data))
        if not frame.fin:
            return
        data, self._parts = b"".join(self._parts), []
        message: _Message = {"type": "websocket.receive"}
        if self._is_text:
            try:
                message["text"] = data.decode()
            except UnicodeDecodeError:
                self._protocol.fail(1007, "no UTF-8")
                self._add_disconnect(1007, "no UTF-8")
                return
        else:
            message["bytes"] = data
        self._inbox.append(message)
        self._inbox_size += len(data)
        self.changed.notify_all()

    def _add_disconnect(self, code: int, reason: str) -> None:
        if not (self._inbox and self._inbox[-1]["type"] == "websocket.disconnect"):
            self._inbox.append({"type": "websocket.disconnect", "code": code, "reason": reason})
        self.changed.notify_all()

    # from messages to bytes

    async def _run(self, scope: dict[str, object]) -> None:
        try:
            await self._app(scope, self._receive, self._send)
            self._finish()
        except Exception as error:
            self._fail(error)
        except BaseException as error:
            if self._tasks.was_cancelled(error) or isinstance(error, GeneratorExit):
                self._has_sent_all = True
                raise
            self.failed = error
        finally:
            self._has_ended = True
            self._flush()
            self._on_end(self)
            self.changed.notify_all()

    def _finish(self) -> None:
        """Check what the app has sent, after it returned."""
        if self._has_sent_all:
            return
        if not self._is_accepted:
            what = f"{self._request}: the app ended without accepting or closing the WebSocket"
            self._fail(RemoteProtocolError(what))
        elif self._is_open():
            self._protocol.send_close(1000)

    def _fail(self, error: Exception) -> None:
        if self._has_sent_all or self.is_disconnected:
            return
        if self._raises:
            self.failed, self._has_sent_all = error, True
        elif not self._is_accepted:
            self._refuse(500, (), b"Internal Server Error")
        elif self._is_open():
            self._protocol.fail(1011)

    def _is_open(self) -> bool:
        return self._protocol.state.name == "OPEN"

    async def _receive(self) -> _Message:
        await self.changed.checkpoint()
        while not self._inbox:
            await self.changed.wait()
        message = self._inbox[0]
        if message["type"] != "websocket.disconnect":  # which later calls return again
            self._inbox.popleft()
            self._inbox_size -= len(message.get("bytes") or (message.get("text") or "").encode())
            self.changed.notify_all()
        return message

    async def _send(self, message: _Message) -> None:
        await self.changed.checkpoint()
        kind = message["type"]
        if self.is_disconnected:
            raise OSError("the client has disconnected")  # an OSError: ASGI 2.4
        if kind == "websocket.accept" and not self._is_accepted and not self._has_sent_all:
            self._accept(message)
        elif kind == "websocket.close" and not self._is_accepted and not self._has_sent_all:
            self._refuse(403, (), b"")
        elif kind == "websocket.http.response.start" and not self._is_accepted:
            self._refusal = message
        elif kind == "websocket.http.response.body" and self._refusal is not None:
            self._refusal_body += message.get("body", b"")
            if not message.get("more_body"):
                status, fields = self._refusal["status"], self._refusal.get("headers", ())
                self._refuse(status, fields, self._refusal_body)
        elif kind in ("websocket.send", "websocket.close") and self._is_accepted:
            if not self._is_open():
                raise OSError("the WebSocket is closed")
            self._send_frame(kind, message)
        else:
            raise UnexpectedMessage(kind)
        self._flush()
        while self._outbox_size >= _MAX_BUFFERED and not self.is_disconnected:
            await self.changed.wait()

    def _send_frame(self, kind: str, message: _Message) -> None:
        if kind == "websocket.close":
            code = message.get("code", 1000)
            self._protocol.send_close(code, message.get("reason") or "")
        elif message.get("text") is not None:
            self._protocol.send_text(message["text"].encode())
        else:
            self._protocol.send_binary(bytes(message["bytes"]))

    def _accept(self, message: _Message) -> None:
        assert self._handshake is not None
        self._subprotocol = message.get("subprotocol")
        reply = self._protocol.accept(self._handshake)
        self._is_accepted = reply.status_code == 101
        _add_fields(reply, message.get("headers", ()))
        self._protocol.send_response(reply)
        if not self._is_accepted:  # the client's handshake is invalid
            self._add_disconnect(_ABNORMAL_CLOSURE, "")

    def _refuse(self, status: int, fields: Sequence[tuple[bytes, bytes]], body: bytes) -> None:
        reply = self._protocol.reject(403, "")
        reply.status_code, reply.reason_phrase, reply.body = status, get_reason_phrase(status), body
        for name in ("Content-Type", "Content-Length"):
            del reply.headers[name]
        _add_fields(reply, fields)
        if "Content-Length" not in reply.headers:
            reply.headers["Content-Length"] = str(len(body))
        self._protocol.send_response(reply)
        self._add_disconnect(_ABNORMAL_CLOSURE, "")

    def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                self._outbox.append(data)
                self._outbox_size += len(data)
            else:  # the end
                self._has_sent_all = True
        self.changed.notify_all()


def _add_fields(reply: Reply, fields: Sequence[tuple[bytes, bytes]]) -> None:
    for name, value in fields:
        reply.headers[name.decode("latin-1")] = value.decode("latin-1")
