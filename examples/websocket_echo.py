"""Use a WebSocket server with both clients: run it, and read it from the top.

It starts its own server on loopback, so it needs no network. It needs curlhttp[ws].
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from websockets.sync.server import ServerConnection, serve

import curlhttp

# --- what this example shows ---


def blocking(url: str) -> None:
    with curlhttp.Client() as client, client.websocket(url) as ws:
        ws.send("hello")
        print("blocking ", ws.recv())
        ws.send("stop")
        print("blocking ", list(ws), ws.close_code, ws.close_reason)


async def many(url: str) -> None:
    async with curlhttp.AsyncClient() as client:

        async def ask(number: int) -> bool:
            async with client.websocket(url) as ws:
                await ws.send(str(number))
                return await ws.recv() == str(number)

        answers = await asyncio.gather(*(ask(number) for number in range(50)))
    print(f"asyncio   {sum(answers)} answers on as many WebSockets at once")


# --- the server ---


def talk(ws: ServerConnection) -> None:
    for message in ws:
        if message == "stop":
            ws.close(1001, "as you wish")
        else:
            ws.send(message)


@contextmanager
def running_server() -> Iterator[str]:
    with serve(talk, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}/"
        finally:
            server.shutdown()
            thread.join()


def main() -> None:
    os.environ["no_proxy"] = "127.0.0.1"  # no request leaves this machine, even with a proxy set
    with running_server() as url:
        blocking(url)
        asyncio.run(many(url))


if __name__ == "__main__":
    main()
