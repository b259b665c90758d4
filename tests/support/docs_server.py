"""The servers of the documentation's snippets: https://api.example.org and PyPI, on loopback.

A proxy leads every name below example.org, and pypi.org, here. Snippets need nothing for that:
clients, the drop-in and the command line find the proxy and the authority in the environment.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from tests.servers import HTTP2, AppServer, Certs, H2Server, HTTPProxy, RawServer, payload
from tests.servers.record import Record, to_json
from tests.servers.routes import JSON, PLAIN, Out
from tests.servers.websocket import echo, speaking

RELEASE = payload(3 << 20)
EVENTS = ("Content-Type", "text/event-stream")
_SERVED = ("api.example.org", "example.org", "*.example.org", "pypi.org")
_NAMES = ("Ada", "Grace", "Alan", "Barbara")


def users(record: Record, out: Out) -> None:
    """Give the user with a number, or all of them; take a new one."""
    if record.method == "POST":
        user = {"id": 5, **json.loads(record.body)}
        return out.reply(201, to_json(user), [JSON, ("Location", "/users/5")])
    if not record.args:
        found = [{"id": number, "name": name} for number, name in enumerate(_NAMES, 1)]
        return out.reply(200, to_json(found), [JSON])
    if record.args == ["0"]:
        return out.reply(404, b"there is no such user", [PLAIN])
    name = _NAMES[(record.number - 1) % len(_NAMES)]
    return out.reply(200, to_json({"id": record.number, "name": name}), [JSON])


def items(record: Record, out: Out) -> None:
    """Give a page of seven items, three at a time: by number, by link and by cursor."""
    page = int(record.query("page") or record.query("cursor") or 1)
    found = [{"id": number} for number in range(1, 8)][3 * page - 3 : 3 * page]
    more = page < 3
    body = {"items": found, "next_cursor": str(page + 1) if more else None}
    link = [("Link", f'</items?page={page + 1}>; rel="next"')] if more else []
    return out.reply(200, to_json(body), [JSON, *link])


def login(record: Record, out: Out) -> None:
    """Remember the user for a day."""
    out.reply(200, b"hello", [PLAIN, ("Set-Cookie", "session=abc; Max-Age=86400; Path=/")])


def account(record: Record, out: Out) -> None:
    """Admit requests with the cookie of login."""
    known = "session=abc" in (record.header("cookie") or "")
    out.reply(200 if known else 403, b"your account" if known else b"who are you?", [PLAIN])


def robots(record: Record, out: Out) -> None:
    """Keep crawlers away from one page."""
    out.reply(200, b"User-agent: *\nDisallow: /private\n", [PLAIN])


def shop(record: Record, out: Out) -> None:
    """Give a page of a shop, with links to others."""
    links = ["/shop/1", "/shop/2", "/shop/3#price", "/shop", "/private", "mailto:ada@example.org"]
    page = "".join(f'<a href="{link}">more</a>\n' for link in links)
    out.reply(200, page.encode(), [("Content-Type", "text/html")])


def generate(record: Record, out: Out) -> None:
    """Respond with lines of JSON, as local language models do."""
    words = [{"response": word, "done": False} for word in ("Forty", "-", "two")]
    lines = [to_json(each) for each in (*words, {"response": "", "done": True})]
    out.reply(200, b"\n".join(lines) + b"\n", [("Content-Type", "application/x-ndjson")])


def export(record: Record, out: Out) -> None:
    """Give a small table of four lines."""
    rows = "".join(f"{number},{name}\n" for number, name in enumerate(_NAMES[:3], 1))
    out.reply(200, f"id,name\n{rows}".encode(), [("Content-Type", "text/csv; charset=utf-8")])


def flaky(record: Record, out: Out) -> None:
    """Fail twice, then succeed; and so on."""
    out.memory.counts[record.path] += 1
    if out.memory.counts[record.path] % 3:
        return out.reply(503, b"busy", [PLAIN])
    return out.reply(200, to_json({"state": "well"}), [JSON])


def catalogue(record: Record, out: Out) -> None:
    """Give what may be kept for a minute."""
    kept = [("Cache-Control", "max-age=60"), ("ETag", '"1"')]
    if record.header("if-none-match") == '"1"':
        return out.reply(304, b"", kept)
    return out.reply(200, b"tea, coffee", [PLAIN, *kept])


def down(record: Record, out: Out) -> None:
    """Fail, always."""
    out.reply(503, b"busy", [PLAIN])


def private(record: Record, out: Out) -> None:
    """Let in me:secret, and the token t0ken."""
    if record.header("authorization") in {"Basic bWU6c2VjcmV0", "Bearer t0ken"}:
        return out.reply(200, b"welcome", [PLAIN])
    return out.reply(401, b"", [("WWW-Authenticate", 'Basic realm="private"')])


def token(record: Record, out: Out) -> None:
    """Give the token that /private takes."""
    granted = {"access_token": "t0ken", "token_type": "Bearer", "expires_in": 3600}
    out.reply(200, to_json(granted), [JSON])


def release(record: Record, out: Out) -> None:
    """Return a file of 3 MiB, or the requested range."""
    kept = [("ETag", '"3"'), ("Accept-Ranges", "bytes"), ("Content-Type", "application/gzip")]
    wanted = record.header("range")
    if wanted is None:
        return out.reply(200, RELEASE, kept)
    first, _, last = wanted.removeprefix("bytes=").partition("-")
    start, end = int(first), int(last or len(RELEASE) - 1) + 1
    shown = f"bytes {start}-{end - 1}/{len(RELEASE)}"
    return out.reply(206, RELEASE[start:end], [*kept, ("Content-Range", shown)])


def project(record: Record, out: Out) -> None:
    """Tell of a project, as PyPI's JSON API does."""
    out.reply(200, to_json({"info": {"name": record.args[0], "version": "7.47.0"}}), [JSON])


def simple(record: Record, out: Out) -> None:
    """Give a page of PyPI's index, in HTML."""
    title = f"    <title>Links for {record.args[0]}</title>"
    page = f"<!DOCTYPE html>\n<html>\n  <head>\n{title}\n  </head>\n</html>\n"
    out.reply(200, page.encode(), [("Content-Type", "text/html")])


def events(record: Record, out: Out) -> None:
    """Give two events, from after the last one that is known; then say that there are no more."""
    last = int(record.header("last-event-id") or 0)
    if last >= 4:
        return out.reply(204)
    told = "".join(
        f'event: {"price" if number % 2 else "news"}\nid: {number}\ndata: {{"n": {number}}}\n\n'
        for number in (last + 1, last + 2)
    )
    return out.reply(200, f"retry: 10\n\n{told}".encode(), [EVENTS])


def chat(record: Record, out: Out) -> None:
    """Respond in pieces, as language models do; without a question with an error."""
    if record.method != "POST" or not record.body:
        return out.reply(400, to_json({"error": "no question"}), [JSON])
    told = "".join(f"data: {json.dumps({'text': word})}\n\n" for word in ("Forty", "-", "two"))
    return out.reply(200, f"{told}data: [DONE]\n\n".encode(), [EVENTS])


def completions(record: Record, out: Out) -> None:
    """Respond in pieces, as OpenAI's chat completions do."""
    common = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "a-model"}
    told = ""
    for word in ("Good morning", ", Ada"):
        choice = {"index": 0, "delta": {"content": word}, "finish_reason": None}
        told += f"data: {json.dumps({**common, 'choices': [choice]})}\n\n"
    out.reply(200, f"{told}data: [DONE]\n\n".encode(), [EVENTS])


def messages(record: Record, out: Out) -> None:
    """Respond in pieces, as Anthropic's messages do."""
    usage = {"input_tokens": 1, "output_tokens": 2}
    message: dict[str, object] = {
        "id": "1", "type": "message", "role": "assistant", "model": "a-model", "content": [],
        "stop_reason": None, "stop_sequence": None, "usage": usage,
    }  # fmt: skip
    block = {"type": "text", "text": ""}
    told: list[dict[str, object]] = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
    ]
    for word in ("Good morning", ", Ada"):
        delta = {"type": "text_delta", "text": word}
        told.append({"type": "content_block_delta", "index": 0, "delta": delta})
    told += [{"type": "content_block_stop", "index": 0}, {"type": "message_stop"}]
    lines = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in told]
    out.reply(200, "".join(lines).encode(), [EVENTS])


ROUTES = {
    "/v1/chat/completions": completions,
    "/v1/messages": messages,
    "/users": users,
    "/catalogue": catalogue,
    "/items": items,
    "/login": login,
    "/account": account,
    "/api/generate": generate,
    "/export": export,
    "/flaky": flaky,
    "/down": down,
    "/events": events,
    "/chat": chat,
    "/private": private,
    "/token": token,
    "/release.tar.gz": release,
    "/pypi": project,
    "/simple": simple,
    "/robots.txt": robots,
    "/shop": shop,
}


class _Gateway(HTTPProxy):
    """A proxy that leads to one server for TLS and another for plain HTTP, by the port."""

    def __init__(self, ports: dict[int, int], echo_port: int) -> None:
        super().__init__()
        self.ports = ports
        self.echo_port = echo_port

    def dial(self, host: str, port: int) -> socket.socket:
        """Connect to the server that stands for a host of example.org; to no other."""
        if not host.endswith("example.org") and host != "pypi.org":
            raise OSError("not a host of the documentation")
        if host == "echo.example.org":
            return super().dial("127.0.0.1", self.echo_port)
        return super().dial("127.0.0.1", self.ports[port])


@contextmanager
def documented_world(certs: Certs) -> Iterator[dict[str, str]]:
    """Run the servers, and give the environment that leads there."""
    context = certs.server_context(*_SERVED, alpn=HTTP2)
    echoing = certs.server_context("echo.example.org")
    with (
        H2Server(context) as secure,
        AppServer() as plain,
        RawServer(speaking(echo), echoing) as echo_server,
    ):
        for path, response in ROUTES.items():
            secure.route(path, response)
            secure.stream_route(path, response)
            plain.route(path, response)
        with _Gateway({443: secure.port, 80: plain.port}, echo_server.port) as proxy:
            trusted = str(certs.ca_path)
            yield {
                "http_proxy": proxy.url,
                "https_proxy": proxy.url,
                "wss_proxy": proxy.url,  # as aiohttp calls it
                "no_proxy": "127.0.0.1,localhost",
                "SSL_CERT_FILE": trusted,
                "REQUESTS_CA_BUNDLE": trusted,
            }
