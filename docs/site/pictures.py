"""Look at the documentation in Chromium: pictures of each page, and what is wrong with its layout.

    mkdocs build && python docs/site/pictures.py site --pictures /tmp/pictures

It needs Chromium (Debian: `apt-get install chromium`) and `pip install -e '.[ws]'`. Each page is
opened 360 and 1280 pixels wide, light and dark. A finding is a page, or a table, that is wider
than it may be, an identifier in a table that is broken across lines, text with too little contrast
to be read, a link to nothing, or a search that finds nothing; the exit status is then 1.
"""

from __future__ import annotations

import argparse
import base64
import functools
import http.server
import json
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import curlhttp

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
WIDTHS = {360: 780, 1280: 900}  # heights by widths, in CSS pixels
SCHEMES = ("light", "dark")
TALLEST = 12_000  # pixels of a picture
LOOK = (Path(__file__).parent / "look.js").read_text(encoding="utf-8")
SHOWS_RESULTS = """(async () => {
    const field = document.querySelector('.md-search__input');
    document.querySelector('#__search').click();
    field.focus();
    field.value = 'timeout';
    field.dispatchEvent(new Event('input', {bubbles: true}));
    field.dispatchEvent(new Event('keyup', {bubbles: true}));
    for (let i = 0; i < 600; i++) {
        const found = document.querySelectorAll('.md-search-result__item').length;
        if (found) return found;
        await new Promise(requestAnimationFrame);
    }
    return 0;
})()"""
# The worker of the page's search, asked as the page asks it: the first page found for each text.
FIRST_FOUND = """(async texts => {
    const config = JSON.parse(document.querySelector('#__config').textContent);
    const worker = new Worker(config.search);
    const ask = message => new Promise((done, fail) => {
        worker.onmessage = answer => done(answer.data.data);
        worker.onerror = fail;
        worker.postMessage(message);
    });
    const index = await (await fetch('search/search_index.json')).json();
    await ask({type: 0, data: {...index, options: {suggest: false}}});
    const found = {};
    for (const text of texts) {
        const {items: [first]} = await ask({type: 2, data: text});
        found[text] = first ? first[0].location.split('#')[0] : null;
    }
    return found;
})"""


class Tab:
    """A page of the browser, told what to do by the DevTools protocol."""

    def __init__(self, ws: curlhttp.types.WebSocket) -> None:
        self._ws = ws
        self._number = 0
        self._events: list[str] = []

    def ask(self, method: str, **params: Any) -> Any:
        """Return what comes of a command."""
        self._number += 1
        self._ws.send(json.dumps({"id": self._number, "method": method, "params": params}))
        while True:
            answer = json.loads(self._ws.recv(timeout=60))
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self._events.append(answer["method"])

    def run(self, script: str) -> Any:
        """Return what a script comes to in the page."""
        wanted = {"awaitPromise": True, "returnByValue": True}
        done = self.ask("Runtime.evaluate", expression=script, **wanted)
        if "exceptionDetails" in done:
            raise RuntimeError(done["exceptionDetails"]["exception"]["description"])
        return done["result"].get("value")

    def open(self, url: str) -> None:
        """Open a page, and wait until it is there."""
        self._events.clear()
        self.ask("Page.navigate", url=url)
        while "Page.loadEventFired" not in self._events:
            self._events.append(json.loads(self._ws.recv(timeout=60)).get("method", ""))

    def look_like(self, width: int, scheme: str) -> None:
        """Be a screen of that width, whose user likes a scheme of colours."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=WIDTHS[width],
            deviceScaleFactor=1,
            mobile=width < 700,
        )
        wish = {"name": "prefers-color-scheme", "value": scheme}
        self.ask("Emulation.setEmulatedMedia", features=[wish])

    def picture(self, path: Path) -> None:
        """Save a picture of the whole page."""
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        height = min(size["height"], TALLEST)
        clip = {"x": 0, "y": 0, "width": size["width"], "height": height, "scale": 1}
        shot = self.ask("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(shot["data"]))


@contextmanager
def chromium() -> Iterator[Tab]:
    """Run a headless Chromium, and give a page of it."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        command = [str(CHROMIUM), "--headless=new", "--no-sandbox", "--disable-gpu"]
        options = ["--remote-debugging-port=0", f"--user-data-dir={home}", "about:blank"]
        with subprocess.Popen(
            command + options, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stderr is not None
            try:
                says = next(line for line in process.stderr if "DevTools listening on" in line)
                browser = "http://" + says.split("ws://")[1].split("/")[0]
                with curlhttp.Client(timeout=60, trust_env=False) as client:
                    page = client.put(f"{browser}/json/new?about:blank").json()
                    with client.websocket(page["webSocketDebuggerUrl"], max_size=None) as ws:
                        tab = Tab(ws)
                        tab.ask("Page.enable")
                        # What was chosen on an earlier page counts for nothing.
                        forget = "Storage.prototype.getItem = () => null"
                        tab.ask("Page.addScriptToEvaluateOnNewDocument", source=forget)
                        yield tab
            finally:
                process.terminate()


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serve files, and say nothing."""

    def log_message(self, format: str, *args: object) -> None:
        """Leave it out."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder on loopback, and give its URL."""
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def look(site: Path, pictures: Path | None = None, only: str = "") -> Iterator[str]:
    """Give what is wrong with the pages of a site.

    Args:
        site: its folder, as mkdocs has built it.
        pictures: the folder for pictures, or None for none.
        only: what the path of a page must have in it.
    """
    pages = sorted(str(page.relative_to(site)) for page in site.rglob("index.html"))
    with served(site) as url, chromium() as tab:
        for page in pages:
            if only not in page:
                continue
            path = page.removesuffix("index.html")
            for scheme in SCHEMES:
                tab.look_like(360, scheme)
                tab.open(f"{url}/{path}")
                for width in WIDTHS:
                    tab.look_like(width, scheme)
                    for finding in tab.run(LOOK):
                        yield f"/{path} {width} {scheme}: {finding}"
                    if pictures is not None:
                        name = path.strip("/").replace("/", "-") or "index"
                        tab.picture(pictures / f"{name}-{width}-{scheme}.png")
        for width in WIDTHS:
            tab.look_like(width, "light")
            tab.open(f"{url}/")
            if not tab.run(SHOWS_RESULTS):
                yield f"/ {width}: the search finds nothing"
            elif pictures is not None:
                tab.picture(pictures / f"search-{width}.png")


def first_found(site: Path, texts: Sequence[str]) -> dict[str, str | None]:
    """Return the path of the page that a site's search lists first for each text."""
    with served(site) as url, chromium() as tab:
        tab.open(f"{url}/")
        found: dict[str, str | None] = tab.run(f"{FIRST_FOUND}({json.dumps(texts)})")
        return found


def main() -> None:
    """Look at the site that was named."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("site", type=Path)
    parser.add_argument("--pictures", type=Path, help="where to save them")
    parser.add_argument("--only", default="", help="pages with this in their path")
    chosen = parser.parse_args()
    findings = 0
    for finding in look(chosen.site, chosen.pictures, chosen.only):
        sys.stdout.write(f"{finding}\n")
        findings += 1
    sys.exit(findings > 0)


if __name__ == "__main__":
    main()
