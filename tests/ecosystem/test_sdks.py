"""SDKs of language models on curlhttp: what they ask, stream, upload and try again, unchanged.

openai, anthropic and mistralai are built on httpx2, groq on httpx. The services are fakes, on
loopback.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, NamedTuple

import anyio
import pytest

import curlhttp
from tests.servers import AppConnection, AppServer, Record
from tests.support.colours import BACKENDS

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.colours("blocking", "asyncio", "trio"),
    # SDKs leave their generators to the collector, of which trio warns.
    pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning"),
]

WORDS = ["Good", " morning", ", Ada"]
ANSWER = "".join(WORDS)
MESSAGES = [{"role": "user", "content": "Say good morning"}]


# --- the services ---


def reply_json(conn: AppConnection, value: Any, status: int = 200, **headers: str) -> None:
    fields = [(name.replace("_", "-"), value) for name, value in headers.items()]
    body = json.dumps(value).encode()
    conn.reply(status, body, [("Content-Type", "application/json"), *fields])


def refuse(status: int, record: Record, conn: AppConnection) -> None:
    reply_json(conn, {"error": {"message": "no"}}, status)


def send_events(conn: AppConnection, events: list[tuple[str, Any]]) -> None:
    """Send server-sent events, each in a separate piece, and the end with the last one.

    SDKs close the stream at the last event: if the end of the body came later, that would close
    the connection.
    """
    conn.begin(200, [("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked")])
    for number, (name, data) in enumerate(events, 1):
        text = data if isinstance(data, str) else json.dumps(data)
        event = (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()
        conn.chunk(event, is_last=number == len(events))


def chat(record: Record, conn: AppConnection) -> None:
    """Respond as the chat completions of OpenAI, Mistral and Groq do."""
    asked = json.loads(record.body)
    assert asked["messages"][0]["content"] == "Say good morning"
    usage = {"prompt_tokens": 1, "completion_tokens": 3, "total_tokens": 4}
    common = {"id": "c1", "created": 1, "model": asked["model"]}
    if not asked.get("stream"):
        message = {"role": "assistant", "content": ANSWER}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        reply_json(
            conn, common | {"object": "chat.completion", "choices": [choice], "usage": usage}
        )
        return
    events: list[tuple[str, Any]] = []
    for word in WORDS:
        choice = {"index": 0, "delta": {"content": word}, "finish_reason": None}
        chunk = common | {"object": "chat.completion.chunk", "choices": [choice]}
        events.append(("", chunk))
    send_events(conn, [*events, ("", "[DONE]")])


def messages(record: Record, conn: AppConnection) -> None:
    """Respond as Anthropic's messages do."""
    asked = json.loads(record.body)
    usage = {"input_tokens": 1, "output_tokens": 3}
    message = {
        "id": "m1", "type": "message", "role": "assistant", "model": asked["model"],
        "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage,
    }  # fmt: skip
    if not asked.get("stream"):
        reply_json(conn, message | {"content": [{"type": "text", "text": ANSWER}]})
        return
    events: list[tuple[str, dict[str, Any]]] = [
        ("message_start", {"message": message}),
        ("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}),
        *(
            ("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": word}})
            for word in WORDS
        ),
        ("content_block_stop", {"index": 0}),
        ("message_delta", {"delta": {"stop_reason": "end_turn"}, "usage": usage}),
        ("message_stop", {}),
    ]
    send_events(conn, [(name, {"type": name, **data}) for name, data in events])


# --- the SDKs ---


class SDK(NamedTuple):
    """What the tests know of an SDK."""

    name: str
    library: str
    path: str
    service: Callable[[Record, AppConnection], None]
    clients: tuple[str, str]


SDKS = [
    SDK("openai", "httpx2", "/v1/chat/completions", chat, ("OpenAI", "AsyncOpenAI")),
    SDK("anthropic", "httpx2", "/v1/messages", messages, ("Anthropic", "AsyncAnthropic")),
    SDK("groq", "httpx", "/openai/v1/chat/completions", chat, ("Groq", "AsyncGroq")),
]


class User:
    """One who uses an SDK, blocking or not.

    Args:
        sdk: which.
        url: of the service.
        is_blocking: with the client for plain code.
        settings: of the SDK's client.
    """

    def __init__(self, sdk: SDK, url: str, is_blocking: bool, **settings: Any) -> None:
        self.sdk = sdk
        self.is_blocking = is_blocking
        self.module: Any = importlib.import_module(sdk.name)
        library: Any = importlib.import_module(sdk.library)
        home: Any = getattr(curlhttp, sdk.library)
        if is_blocking:
            http = library.Client(transport=home.Transport())
        else:
            http = library.AsyncClient(transport=home.AsyncTransport())
        base = f"{url}/v1" if sdk.name == "openai" else url
        kind = getattr(self.module, sdk.clients[0 if is_blocking else 1])
        self.client: Any = kind(api_key="key", base_url=base, http_client=http, **settings)

    async def call(self, function: Callable[..., Any], **arguments: Any) -> Any:
        result = function(**arguments)
        return result if self.is_blocking else await result

    async def ask(self, **options: Any) -> Any:
        asked = {"model": "m", "messages": MESSAGES, **options}
        if self.sdk.name == "anthropic":
            return await self.call(self.client.messages.create, max_tokens=9, **asked)
        return await self.call(self.client.chat.completions.create, **asked)

    def text(self, response: Any) -> str:
        if self.sdk.name == "anthropic":
            return str(response.content[0].text)
        return str(response.choices[0].message.content)

    def word(self, event: Any) -> str:
        if self.sdk.name == "anthropic":
            return event.delta.text if event.type == "content_block_delta" else ""
        return event.choices[0].delta.content or ""

    async def items(self, stream: Any) -> AsyncIterator[Any]:
        if self.is_blocking:
            for item in stream:
                yield item
        else:
            async for item in stream:
                yield item

    async def aclose(self) -> None:
        if self.is_blocking:
            self.client.close()
        else:
            await self.client.close()


@pytest.fixture
def anyio_backend(colour: str) -> Any:
    return BACKENDS[colour]


@pytest.fixture(params=SDKS, ids=lambda sdk: sdk.name)
def sdk(request: pytest.FixtureRequest) -> SDK:
    found: SDK = request.param
    pytest.importorskip(found.name, reason=f"{found.name} is not installed (extra 'ecosystem')")
    return found


@pytest.fixture
async def make_user(
    sdk: SDK, colour: str, app: AppServer, anyio_backend: Any
) -> AsyncIterator[Callable[..., User]]:
    made: list[User] = []
    app.route(sdk.path, sdk.service)

    def make(**settings: Any) -> User:
        made.append(User(sdk, app.url, colour == "blocking", **settings))
        return made[-1]

    yield make
    for user in made:
        await user.aclose()


async def test_a_chat_completion_is_returned(
    make_user: Callable[..., User], app: AppServer
) -> None:
    user = make_user()
    for _ in range(2):
        assert user.text(await user.ask()) == ANSWER
    assert app.connections == 1
    sent = app.requests[0]
    assert sent.header("authorization") == "Bearer key" or sent.header("x-api-key") == "key"
    assert sent.values("content-type") == ["application/json"]
    assert sent.values("user-agent")[0].endswith(user.module.__version__)


async def test_a_chat_completion_is_streamed(
    make_user: Callable[..., User], app: AppServer
) -> None:
    user = make_user()
    stream = await user.ask(stream=True)
    words = [user.word(event) async for event in user.items(stream)]
    assert [word for word in words if word] == WORDS
    assert user.text(await user.ask()) == ANSWER
    assert app.connections == 1


async def test_leaving_a_stream_closes_its_connection(
    make_user: Callable[..., User], app: AppServer
) -> None:
    user = make_user()
    stream = await user.ask(stream=True)
    await user.call(stream.close)
    assert user.text(await user.ask()) == ANSWER


@pytest.mark.parametrize("status", [429, 500, "cut", "timeout"])
async def test_the_sdks_own_retries_work(
    make_user: Callable[..., User], sdk: SDK, app: AppServer, status: int | str
) -> None:
    responses = iter([status])

    def fails_first(record: Record, conn: AppConnection) -> None:
        first = next(responses, None)
        if first is None:
            sdk.service(record, conn)
        elif first == "cut":
            conn.closing = True
            conn.close()
        elif first == "timeout":
            conn.stall()
            conn.closing = True
        else:
            assert isinstance(first, int)
            reply_json(conn, {"error": {"message": "later"}}, first, retry_after_ms="1")

    app.route(sdk.path, fails_first)
    user = make_user(max_retries=1, timeout=1.0 if status == "timeout" else 30.0)
    if status == "timeout":
        user.client = user.client.with_options(timeout=0.5)
    assert user.text(await user.ask()) == ANSWER
    assert len(app.requests) == 2


async def test_errors_are_the_sdks_own(
    make_user: Callable[..., User], sdk: SDK, app: AppServer
) -> None:
    user = make_user(max_retries=0)
    errors = user.module
    for status, kind in ((400, errors.BadRequestError), (401, errors.AuthenticationError)):
        app.route(sdk.path, partial(refuse, status))
        with pytest.raises(kind):
            await user.ask()
    app.route(sdk.path, lambda record, conn: conn.stall())
    with pytest.raises(errors.APITimeoutError):
        await user.ask(timeout=0.2)
    app.route(sdk.path, app.routes["/truncated"])
    with pytest.raises(errors.APIConnectionError) as caught:
        await user.ask()
    cause = caught.value.__cause__
    assert type(cause).__name__ == "RemoteProtocolError"
    assert isinstance(cause.__cause__, curlhttp.ChunkedEncodingError)


async def test_many_concurrent_requests_succeed(
    make_user: Callable[..., User], app: AppServer
) -> None:
    user = make_user()
    if user.is_blocking:
        pytest.skip("one after the other")
    seen = []

    async def ask() -> None:
        seen.append(user.text(await user.ask()))

    async with anyio.create_task_group() as tasks:
        for _ in range(50):
            tasks.start_soon(ask)
    assert seen == [ANSWER] * 50


# --- features of single SDKs ---


@pytest.mark.parametrize("sdk", [SDKS[0]], ids=["openai"], indirect=True)
async def test_openai_uploads_a_file(make_user: Callable[..., User], app: AppServer) -> None:
    def files(record: Record, conn: AppConnection) -> None:
        kind = record.header("content-type") or ""
        assert kind.startswith("multipart/form-data; boundary=")
        assert b'name="purpose"\r\n\r\nbatch\r\n' in record.body
        assert b'filename="a.jsonl"' in record.body
        about = {"id": "f1", "bytes": len(record.body), "created_at": 1, "filename": "a.jsonl"}
        reply_json(conn, about | {"object": "file", "purpose": "batch", "status": "uploaded"})

    def content(record: Record, conn: AppConnection) -> None:
        conn.reply(200, b"line\n" * 1000, [("Content-Type", "application/octet-stream")])

    app.route("/v1/files", files)
    app.route("/v1/files/f1/content", content)
    user = make_user()
    body = b'{"a": 1}\n' * 50_000
    made = await user.call(user.client.files.create, file=("a.jsonl", body), purpose="batch")
    assert made.bytes > len(body)
    found = await user.call(user.client.files.content, file_id="f1")
    assert found.content == b"line\n" * 1000


@pytest.mark.parametrize("sdk", [SDKS[0]], ids=["openai"], indirect=True)
async def test_openai_shows_raw_responses(make_user: Callable[..., User], app: AppServer) -> None:
    user = make_user()
    raw = await user.call(
        user.client.chat.completions.with_raw_response.create, model="m", messages=MESSAGES
    )
    assert raw.http_response.http_version == "HTTP/1.1"
    assert raw.headers["content-type"] == "application/json"
    assert user.text(raw.parse()) == ANSWER


@pytest.mark.colours("blocking", "asyncio")  # mistralai itself needs asyncio
async def test_mistral_requests_and_streams(
    colour: str, app: AppServer, anyio_backend: Any
) -> None:
    client_module: Any = pytest.importorskip("mistralai.client", reason="extra 'ecosystem'")
    library: Any = importlib.import_module("httpx2")
    app.route("/v1/chat/completions", chat)
    blocking = library.Client(transport=curlhttp.httpx2.Transport())
    asynchronous = library.AsyncClient(transport=curlhttp.httpx2.AsyncTransport())
    mistral = client_module.Mistral(
        api_key="key", server_url=app.url, client=blocking, async_client=asynchronous
    )
    words = []
    if colour == "blocking":
        response = mistral.chat.complete(model="m", messages=MESSAGES)
        with mistral.chat.stream(model="m", messages=MESSAGES) as events:
            words = [event.data.choices[0].delta.content for event in events]
    else:
        response = await mistral.chat.complete_async(model="m", messages=MESSAGES)
        stream = await mistral.chat.stream_async(model="m", messages=MESSAGES)
        async with stream:
            words = [event.data.choices[0].delta.content async for event in stream]
    assert response.choices[0].message.content == ANSWER
    assert words == WORDS
    blocking.close()
    await asynchronous.aclose()
