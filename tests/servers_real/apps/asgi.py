"""The application for servers that speak ASGI."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator
from typing import Any

from starlette.applications import Starlette
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.websockets import WebSocket, WebSocketDisconnect

_SEEN = os.open(os.environ["CURLHTTP_SEEN"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
_ANY = ["GET", "POST", "PUT"]


async def _stamp(request: Request) -> Response:
    query = request.query_params
    await request.body()
    await asyncio.sleep(float(query.get("wait", "0")))
    return Response(query["id"] * int(query.get("n", "1")), media_type="text/plain")


async def _upload(request: Request) -> Response:
    checksum, length = hashlib.sha256(), 0
    async for piece in request.stream():
        checksum.update(piece)
        length += len(piece)
    return JSONResponse({"length": length, "sha256": checksum.hexdigest()})


async def _no_content(request: Request) -> Response:
    return Response(status_code=204)


async def _redirect(request: Request) -> Response:
    hops = request.path_params["hops"]
    return RedirectResponse(f"/redirect/{hops - 1}", 302) if hops else Response("hello")


async def _events(request: Request) -> Response:
    async def events() -> AsyncIterator[str]:
        for data in ("first", "second", "third"):
            yield f"data: {data}\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")


async def _echo(websocket: WebSocket) -> None:
    await websocket.accept()
    try:
        while True:
            await websocket.send_text(await websocket.receive_text())
    except WebSocketDisconnect:
        return


class _Noting:
    """Note the id of each request when its head is there, before anything is done."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            for pair in scope["query_string"].split(b"&"):
                name, _, value = pair.partition(b"=")
                if name == b"id":
                    os.write(_SEEN, value + b"\n")
        await self._app(scope, receive, send)


_STATIC = GZipMiddleware(StaticFiles(directory=os.environ["CURLHTTP_FILES"]))

app = _Noting(
    Starlette(
        routes=[
            Route("/stamp", _stamp, methods=_ANY),
            Route("/upload", _upload, methods=_ANY),
            Route("/204", _no_content, methods=_ANY),
            Route("/redirect/{hops:int}", _redirect, methods=_ANY),
            Route("/events", _events),
            WebSocketRoute("/ws", _echo),
            Mount("/static", _STATIC),
        ]
    )
)
