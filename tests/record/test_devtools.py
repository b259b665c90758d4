"""Chromium's developer tools load a HAR of ours in their network panel."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import curlhttp
from tests.servers import AppServer

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed"),
]
PANEL = "devtools://devtools/bundled/devtools_app.html?panel=network"
# The panel takes the file, and its reader says what it makes of each entry.
LOAD = """
(async () => {
    const text = %s;
    const modules = 'devtools://devtools/bundled/';
    const { NetworkPanel } = await import(modules + 'panels/network/network.js');
    const { HARFormat, Importer } = await import(modules + 'models/har/har.js');
    const view = NetworkPanel.NetworkPanel.instance().networkLogView;
    await view.onLoadFromFile(new File([text], 'ours.har'));
    const log = new HARFormat.HARRoot(JSON.parse(text)).log;
    const found = [];
    for (const one of Importer.Importer.requestsFromHARLog(log)) {
        const content = await one.requestContentData();
        found.push({
            method: one.requestMethod, url: one.url(), status: one.statusCode, type: one.mimeType,
            address: one.remoteAddress().split(':')[0], seconds: one.duration,
            text: content.isTextContent ? content.text : content.base64,
            cookies: one.responseCookies.map(cookie => cookie.name()),
            form: await one.formParameters(), sort: one.resourceType().name(),
        });
    }
    return found;
})()
"""


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[str]:
    """Return where a headless Chromium takes commands."""
    home = tmp_path / "chromium"
    command = [str(CHROMIUM), "--headless=new", "--no-sandbox", "--disable-gpu"]
    options = ["--remote-debugging-port=0", f"--user-data-dir={home}", "about:blank"]
    with subprocess.Popen(
        command + options, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        try:
            says = next(line for line in process.stderr if "DevTools listening on ws://" in line)
            yield "http://" + says.split("ws://")[1].split("/")[0]
        finally:
            process.terminate()


def evaluate(ws: curlhttp.types.WebSocket, expression: str) -> Any:
    """Return what an expression comes to in the page."""
    params = {"expression": expression, "awaitPromise": True, "returnByValue": True}
    ws.send(json.dumps({"id": 1, "method": "Runtime.evaluate", "params": params}))
    response = json.loads(ws.recv(timeout=30))
    assert "exceptionDetails" not in response["result"], response
    return response["result"]["result"]["value"]


def test_developer_tools_of_a_browser_load_a_recording(
    browser: str, tmp_path: Path, app: AppServer
) -> None:
    path = tmp_path / "ours.har"
    with curlhttp.Client() as client, client.har(path):
        client.get(app.url + "/redirect/1", params={"token": "hush"})
        client.get(app.url + "/gzip")
        client.post(app.url + "/echo", data={"name": "Zoe", "password": "hush"})
        with client.stream("GET", app.url + "/bytes/300") as stream:
            stream.read()
    entries = json.loads(path.read_text())["log"]["entries"]
    with curlhttp.Client(timeout=30) as client:
        page = client.put(f"{browser}/json/new?{PANEL}").json()
        with client.websocket(page["webSocketDebuggerUrl"], max_size=None) as ws:
            ready = "document.readyState === 'complete' && document.title === 'DevTools'"
            while not evaluate(ws, ready):
                pass
            found = evaluate(ws, LOAD % json.dumps(path.read_text()))
    asked = [(entry["request"]["method"], entry["request"]["url"]) for entry in entries]
    assert [(one["method"], one["url"]) for one in found] == asked
    for one, entry in zip(found, entries, strict=True):
        assert one["status"] == entry["response"]["status"]
        assert one["text"] == entry["response"]["content"]["text"]
        assert one["seconds"] * 1000 == pytest.approx(entry["time"], abs=0.01)
        assert one["address"] == "127.0.0.1"
        assert one["sort"] == "fetch"
    assert found[-2]["form"] == [
        {"name": "name", "value": "Zoe"},
        {"name": "password", "value": "***"},
    ]
