"""mcp on curlhttp: its clients for SSE and streamable HTTP, for asyncio, uvloop and trio.

    async with curlhttp.AsyncClient(auth=curlhttp.BearerAuth(token)) as client:
        async with streamable_http_client("https://example.org/mcp", client) as (read, write):
            async with mcp.ClientSession(read, write) as session:
                await session.initialize()

Redirects are followed to the same origin only: headers and messages are meant for that one.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard
from urllib.parse import parse_qs

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

import curlhttp

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    Read = MemoryObjectReceiveStream[SessionMessage | Exception]
    Write = MemoryObjectSendStream[SessionMessage]

_log = logging.getLogger(__name__)
_MAX_EVENT_SIZE = 1024 * 1024
_RECONNECTIONS = 2  # in a row that bring nothing
_PAUSE = 1.0  # seconds before a reconnection, if the server names none
_MAX_REDIRECTS = 20
_VERSION, _SESSION = "mcp-protocol-version", "mcp-session-id"
_EVENTS = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
_WAITS = curlhttp.Timeout(connect=30, read=300)


@asynccontextmanager
async def sse_client(
    url: str,
    client: curlhttp.AsyncClient,
    *,
    headers: dict[str, str] | None = None,
    timeouts: curlhttp.Timeout = _WAITS,
    on_session_created: Callable[[str], None] | None = None,
) -> AsyncIterator[tuple[Read, Write]]:
    """Connect to an SSE endpoint, and yield the streams for a ClientSession.

    Args:
        url: of the endpoint.
        client: sends the requests. Close it yourself.
        headers: sent with each request.
        timeouts: `read` limits how long the server may be silent.
        on_session_created: gets the id of the session, if the server names one.

    Raises:
        curlhttp.RequestException: the endpoint could not be reached, or refused.
        ValueError: messages were to go to another origin.
    """
    options: dict[str, Any] = {"headers": headers, "timeout": timeouts}
    stream = _open(client, "GET", url, **{**options, "headers": {**_EVENTS, **(headers or {})}})
    async with stream as response:
        response.raise_for_status()
        events = response.aiter_events()
        target = await _read_endpoint(events, curlhttp.URL(url), on_session_created)
        to_session, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write, from_session = anyio.create_memory_object_stream[SessionMessage](0)

        async def receive() -> None:
            async with to_session:
                try:
                    async for event in events:
                        if event.event == "message" and event.data:
                            await to_session.send(_parse(event.data))
                except curlhttp.RequestException as error:
                    await to_session.send(error)

        async def send() -> None:
            async for message in from_session:
                post = _open(client, "POST", target, json=_dump(message), **options)
                try:
                    async with post as answer:
                        await answer.aread()
                        answer.raise_for_status()
                except curlhttp.RequestException:
                    _log.exception("a message was not sent")

        async with to_session, read, write, from_session, anyio.create_task_group() as tasks:
            tasks.start_soon(receive)
            tasks.start_soon(send)
            yield read, write
            tasks.cancel_scope.cancel()


async def _read_endpoint(
    events: AsyncIterator[curlhttp.types.ServerSentEvent],
    url: curlhttp.URL,
    on_session_created: Callable[[str], None] | None,
) -> curlhttp.URL:
    """Return the URL for messages, which the first event names."""
    async for event in events:
        if event.event == "endpoint":
            target = url.join(event.data)
            if target.origin != url.origin:
                raise ValueError(f"messages for {url.origin} were to go to {target.origin}")
            query = parse_qs(target.query)
            for number in query.get("sessionId") or query.get("session_id") or []:
                if on_session_created is not None:
                    on_session_created(number)
                break
            return target
    raise curlhttp.RemoteProtocolError(f"{url}: the stream ended without an endpoint")


@asynccontextmanager
async def streamable_http_client(
    url: str,
    client: curlhttp.AsyncClient,
    *,
    timeouts: curlhttp.Timeout = _WAITS,
    terminate_on_close: bool = True,
    max_sse_event_size: int | None = _MAX_EVENT_SIZE,
) -> AsyncIterator[tuple[Read, Write]]:
    """Connect to a streamable HTTP endpoint, and yield the streams for a ClientSession.

    Args:
        url: of the endpoint.
        client: sends the requests. Close it yourself.
        timeouts: `read` limits how long the server may be silent.
        terminate_on_close: whether a DELETE ends the session.
        max_sse_event_size: the maximum size of an event in bytes, or None.

    Raises:
        ValueError: max_sse_event_size is not positive.
    """
    if max_sse_event_size is not None and max_sse_event_size <= 0:
        raise ValueError("max_sse_event_size must be positive or None")
    to_session, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    async with to_session, read, write, from_session, anyio.create_task_group() as tasks:
        endpoint = _Endpoint(url, client, timeouts, max_sse_event_size, to_session, tasks)
        tasks.start_soon(endpoint.send_all, from_session)
        try:
            yield read, write
        finally:
            if terminate_on_close:
                await endpoint.end_session()
            tasks.cancel_scope.cancel()


@dataclass
class _Post:
    """A request whose response is awaited."""

    scope: anyio.CancelScope
    is_modern: bool  # closing its response is what cancels it


@dataclass
class _Waiting:
    """A request that a stream of events answers, and how far that stream got."""

    id: types.RequestId
    on_token: Callable[[str], Awaitable[None]] | None = None
    last_event_id: str | None = None
    pause: float = _PAUSE
    is_answered: bool = False

    async def note_id(self, event_id: str) -> None:
        if event_id != self.last_event_id:
            self.last_event_id = event_id
            if self.on_token is not None:
                await self.on_token(event_id)


class _Endpoint:
    """The endpoint of a session."""

    def __init__(
        self,
        url: str,
        client: curlhttp.AsyncClient,
        timeout: curlhttp.Timeout,
        max_event_size: int | None,
        to_session: MemoryObjectSendStream[SessionMessage | Exception],
        tasks: TaskGroup,
    ) -> None:
        self._url, self._client, self._timeout = url, client, timeout
        self._max_event_size = max_event_size
        self._to_session = to_session
        self._tasks = tasks
        self._session_id: str | None = None
        self._version: str | None = None
        self._posts: dict[types.RequestId, _Post] = {}

    async def send_all(self, from_session: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Send each message of the session; requests wait for their responses in tasks."""
        async with from_session, self._to_session:
            async for sent in from_session:
                metadata = (
                    sent.metadata if isinstance(sent.metadata, ClientMessageMetadata) else None
                )
                message = sent.message
                if self._has_cancelled(message):
                    continue
                self._note_version(message, metadata)
                if isinstance(message, types.JSONRPCRequest):
                    post = _Post(anyio.CancelScope(), self._version in MODERN_PROTOCOL_VERSIONS)
                    if message.id in self._posts:
                        self._posts[message.id].scope.cancel()
                    self._posts[message.id] = post
                    self._tasks.start_soon(self._request, post, sent, message, metadata)
                else:
                    if _is_notification(message, "notifications/initialized"):
                        self._tasks.start_soon(self._listen)
                    await self._notify(sent, metadata)

    async def end_session(self) -> None:
        """Tell the server that the session is over."""
        if self._session_id is not None:
            try:
                async with self._open("DELETE", self._headers()) as response:
                    await response.aread()
                    if response.status_code not in (200, 204, 405):
                        _log.warning("the session was not ended: %s", response.status_code)
            except curlhttp.RequestException as error:
                _log.warning("the session was not ended: %s", error)

    def _note_version(
        self, message: types.JSONRPCMessage, metadata: ClientMessageMetadata | None
    ) -> None:
        if isinstance(message, types.JSONRPCRequest) and message.method == "initialize":
            self._version = None  # it is negotiated anew
        elif metadata is not None and metadata.headers is not None:
            self._version = metadata.headers.get(_VERSION, self._version)

    def _has_cancelled(self, message: types.JSONRPCMessage) -> bool:
        """Cancel a request by closing its response, which is all that new servers understand."""
        if not _is_notification(message, "notifications/cancelled"):
            return False
        number = (message.params or {}).get("requestId")
        post = None
        if isinstance(number, (int, str)) and not isinstance(number, bool):
            post = self._posts.get(number)
        if post is None:
            return self._version in MODERN_PROTOCOL_VERSIONS
        if post.is_modern:
            post.scope.cancel()
        return post.is_modern

    async def _notify(self, sent: SessionMessage, metadata: ClientMessageMetadata | None) -> None:
        try:
            post = self._open("POST", self._headers(metadata), json=_dump(sent))
            async with post as response:
                await response.aread()
        except curlhttp.RequestException:
            _log.exception("a message was not sent")

    async def _request(
        self,
        post: _Post,
        sent: SessionMessage,
        message: types.JSONRPCRequest,
        metadata: ClientMessageMetadata | None,
    ) -> None:
        waiting = _Waiting(message.id)
        token = None
        if metadata is not None:
            waiting.on_token = metadata.on_resumption_token_update
            token = metadata.resumption_token
        try:
            with post.scope:
                if token is not None:
                    waiting.last_event_id, waiting.pause = token, 0
                    await self._resume(waiting)
                else:
                    await self._post(sent, message, metadata, waiting)
        except curlhttp.RequestException as error:
            await self._fail(message.id, types.CONNECTION_CLOSED, str(error))
        finally:
            if self._posts.get(message.id) is post:
                del self._posts[message.id]

    async def _post(
        self,
        sent: SessionMessage,
        message: types.JSONRPCRequest,
        metadata: ClientMessageMetadata | None,
        waiting: _Waiting,
    ) -> None:
        async with self._open("POST", self._headers(metadata), json=_dump(sent)) as response:
            content_type = response.headers.get("content-type", "").lower()
            if response.is_redirect:
                await self._fail(message.id, types.INVALID_REQUEST, _tell_redirect(response))
            elif response.is_error:
                await self._refuse(message.id, response)
            elif response.status_code == 202:
                text = "server answered a request with 202 Accepted"
                await self._fail(message.id, types.INVALID_REQUEST, text)
            else:
                if message.method == "initialize":
                    self._session_id = response.headers.get(_SESSION, self._session_id)
                if content_type.startswith("application/json"):
                    await self._take_json(message.id, await response.aread())
                elif content_type.startswith("text/event-stream"):
                    await self._take_events(response, waiting)
                    if not waiting.is_answered:
                        await self._resume(waiting)
                else:
                    text = f"Unexpected content type: {content_type}"
                    await self._fail(message.id, types.INVALID_REQUEST, text)

    async def _take_json(self, number: types.RequestId, body: bytes) -> None:
        try:
            await self._to_session.send(SessionMessage(_validate(body)))
        except ValidationError as error:
            text = f"Failed to parse JSON response: {error}"
            await self._fail(number, types.PARSE_ERROR, text)

    async def _refuse(
        self, number: types.RequestId, response: curlhttp.AsyncStreamedResponse
    ) -> None:
        """Pass an error on: what the server says, or what its status means."""
        if response.headers.get("content-type", "").lower().startswith("application/json"):
            try:
                answer = _validate(await response.aread())
            except ValidationError:
                answer = None
            if isinstance(answer, types.JSONRPCError):
                await self._fail(number, answer.error.code, answer.error.message, answer.error.data)
                return
        if response.status_code != 404:
            await self._fail(number, types.INTERNAL_ERROR, "Server returned an error response")
        elif self._session_id is None:
            await self._fail(number, types.METHOD_NOT_FOUND, "Not Found")
        else:
            await self._fail(number, types.INVALID_REQUEST, "Session terminated")

    async def _take_events(
        self, response: curlhttp.AsyncStreamedResponse, waiting: _Waiting
    ) -> bool:
        """Pass messages on until the one that answers; return whether an event arrived."""
        has_any = False
        events = response.aiter_events(max_event_size=self._max_event_size)
        try:
            async for event in events:
                has_any = True
                await self._take_event(event, waiting)
                if waiting.is_answered:
                    break
        except curlhttp.ResponseTooLarge as error:
            await self._fail(waiting.id, types.CONNECTION_CLOSED, f"SSE stream failed: {error}")
            waiting.is_answered = True
        except (curlhttp.ConnectionError, curlhttp.ChunkedEncodingError, curlhttp.TimeoutException):
            _log.debug("the stream of events broke off", exc_info=True)
        if events.retry is not None:
            waiting.pause = events.retry / 1000
        if events.last_event_id:  # perhaps from after the last event
            await waiting.note_id(events.last_event_id)
        return has_any

    async def _take_event(self, event: curlhttp.types.ServerSentEvent, waiting: _Waiting) -> None:
        if event.event != "message":
            _log.warning("unknown event: %s", event.event)
            return
        if event.data:
            try:
                message = _validate(event.data)
            except ValidationError as error:
                text = f"Failed to parse SSE message: {error}"
                await self._fail(waiting.id, types.PARSE_ERROR, text)
                waiting.is_answered = True
                return
            if isinstance(message, (types.JSONRPCResponse, types.JSONRPCError)):
                message.id = waiting.id
                waiting.is_answered = True
            await self._to_session.send(SessionMessage(message))
        if event.id:
            await waiting.note_id(event.id)

    async def _resume(self, waiting: _Waiting) -> None:
        """Continue a stream of events after its last one, until it has answered."""
        if waiting.last_event_id is None:
            text = "SSE stream ended without a response"
            await self._fail(waiting.id, types.CONNECTION_CLOSED, text)
            return
        failures = 0
        while failures < _RECONNECTIONS:
            await anyio.sleep(waiting.pause)
            waiting.pause = waiting.pause or _PAUSE
            headers = {**self._headers(), **_EVENTS, "Last-Event-ID": waiting.last_event_id}
            try:
                async with self._open("GET", headers) as response:
                    if response.is_redirect:
                        text = _tell_redirect(response)
                        await self._fail(waiting.id, types.INVALID_REQUEST, text)
                        return
                    response.raise_for_status()
                    has_any = await self._take_events(response, waiting)
            except curlhttp.RequestException:
                _log.debug("the stream of events was not resumed", exc_info=True)
                has_any = False
            if waiting.is_answered:
                return
            failures = 0 if has_any else failures + 1
        text = "SSE stream ended and reconnection attempts were exhausted"
        await self._fail(waiting.id, types.CONNECTION_CLOSED, text)

    async def _listen(self) -> None:
        """Receive what the server sends unasked."""
        last_event_id, pause, failures = "", _PAUSE, 0
        while self._session_id is not None and failures < _RECONNECTIONS:
            headers = {**self._headers(), **_EVENTS}
            if last_event_id:
                headers["Last-Event-ID"] = last_event_id
            try:
                async with self._open("GET", headers) as response:
                    if response.is_redirect:
                        _log.warning("GET stream not opened: %s", _tell_redirect(response))
                        return
                    response.raise_for_status()
                    events = response.aiter_events(max_event_size=self._max_event_size)
                    try:
                        async for event in events:
                            if event.event == "message" and event.data:
                                await self._to_session.send(_parse(event.data))
                    finally:
                        last_event_id = events.last_event_id or last_event_id
                        pause = pause if events.retry is None else events.retry / 1000
                failures = 0
            except curlhttp.RequestException:
                _log.debug("the stream of the server's messages broke off", exc_info=True)
                failures += 1
            await anyio.sleep(pause)

    async def _fail(
        self, number: types.RequestId, code: int, text: str, data: object = None
    ) -> None:
        error = types.ErrorData(code=code, message=text, data=data)
        answer = types.JSONRPCError(jsonrpc="2.0", id=number, error=error)
        try:
            await self._to_session.send(SessionMessage(answer))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            _log.debug("nobody waits for %r any more", number)

    def _headers(self, metadata: ClientMessageMetadata | None = None) -> dict[str, str]:
        headers = {
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
        }
        if self._session_id is not None:
            headers[_SESSION] = self._session_id
        if self._version is not None:
            headers[_VERSION] = self._version
        return {**headers, **((metadata and metadata.headers) or {})}

    @asynccontextmanager
    async def _open(
        self, method: str, headers: dict[str, str], *, json: Any = None
    ) -> AsyncIterator[curlhttp.AsyncStreamedResponse]:
        stream = _open(
            self._client, method, self._url, headers=headers, json=json, timeout=self._timeout
        )
        async with stream as response:
            yield response


@asynccontextmanager
async def _open(
    client: curlhttp.AsyncClient, method: str, url: str | curlhttp.URL, **options: Any
) -> AsyncIterator[curlhttp.AsyncStreamedResponse]:
    """Open a stream; follow redirects only to the same origin, and with the same method."""
    for left in reversed(range(_MAX_REDIRECTS)):
        async with client.stream(method, url, follow_redirects=False, **options) as response:
            target = _follow(response) if left else None
            if target is None:
                yield response
                return
            await response.aread()
        url = target


def _follow(response: curlhttp.AsyncStreamedResponse) -> curlhttp.URL | None:
    location = response.headers.get("location")
    if not response.is_redirect or location is None:
        return None
    url = response.request.url
    target = url.join(location)
    keeps_method = response.status_code in (307, 308) or response.request.method == "GET"
    is_upgrade = url.origin == f"http://{url.host}" and target.origin == f"https://{url.host}"
    if keeps_method and (target.origin == url.origin or is_upgrade):
        return target
    return None


def _tell_redirect(response: curlhttp.AsyncStreamedResponse) -> str:
    target = response.request.url.join(response.headers.get("location", ""))
    where = f"{target.origin}{target.path}"
    return f"Redirect to {where} not followed; use that URL as the endpoint if it is the server"


def _is_notification(
    message: types.JSONRPCMessage, method: str
) -> TypeGuard[types.JSONRPCNotification]:
    return isinstance(message, types.JSONRPCNotification) and message.method == method


def _dump(sent: SessionMessage) -> Any:
    return sent.message.model_dump(by_alias=True, mode="json", exclude_unset=True)


def _validate(text: str | bytes) -> types.JSONRPCMessage:
    message: types.JSONRPCMessage = types.jsonrpc_message_adapter.validate_json(text, by_name=False)
    return message


def _parse(text: str) -> SessionMessage | Exception:
    try:
        return SessionMessage(_validate(text))
    except ValidationError as error:
        return error
