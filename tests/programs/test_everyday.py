"""The everyday programs of examples/: each works at first go, and prints what it is to show."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]

PRINTED = {
    "pagination": [
        "by link     [1, 2, 3, 4, 5, 6, 7]",
        "by cursor   [1, 2, 3, 4, 5, 6, 7]",
        "stop early  {'id': 2}",
    ],
    "upload": [
        "progress  0 %",
        "progress  100 %",
        "answer    201 8 MiB, multipart/form-data",
        "progress  0 %",
        "progress  100 %",
        "answer    201 8 MiB, no type",
    ],
    "scraping": [
        "results       {'status 200': 60}",
        "at once       kept",
        "rate          kept",
    ],
    "oauth_refresh": [
        "first run  welcome welcome",
        "first run  welcome with a new token; the file has r2",
        "second run welcome welcome",
        "second run welcome with a new token; the file has r4",
    ],
    "ndjson": [
        "blocking  499500",
        "early end {'n': 5}",
        "upload    {'lines': 1000}",
        "async     499500",
    ],
    "client_certificate": [
        "known      hello, Ada",
        "unknown    True",
        "untrusted  SSLError request_sent=False",
    ],
    "cookies_on_disk": [
        "first run   who are you?",
        "signed in   hello, Ada",
        "second run  hello, Ada",
        "the file    1 cookie",
    ],
    "fastapi_service": [
        "200 {'hello': 'Ada'}",
        "404 {'detail': 'nobody has that number'}",
        "502 {'detail': 'the names are not there'}",
    ],
}
NEEDS = {"client_certificate": "trustme", "fastapi_service": "fastapi"}


@pytest.mark.parametrize("name", PRINTED)
def test_an_everyday_program_works_at_first_go(name: str, tmp_path: Path) -> None:
    if package := NEEDS.get(name):
        pytest.importorskip(package, reason="the extra test")
    done = subprocess.run(
        [sys.executable, "-W", "error", ROOT / "examples" / f"{name}.py"],
        cwd=tmp_path,
        env={**os.environ, "http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == PRINTED[name]
    assert list(tmp_path.iterdir()) == [], "an example cleans up"


def test_the_notebook_prints_what_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each cell is run as IPython does it: in a running loop, where `await` may stand anywhere."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "")  # which the notebook sets
    notebook = json.loads((ROOT / "examples" / "notebook.ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    shown = ["".join("".join(output["text"]) for output in cell["outputs"]) for cell in cells]
    assert len(cells) > 4
    assert asyncio.run(_run([("".join(cell["source"])) for cell in cells])) == shown


async def _run(sources: list[str]) -> list[str]:
    """Run cells in one namespace; return what each prints."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    printed = []
    for source in sources:
        code = compile(source, "cell", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        with contextlib.redirect_stdout(io.StringIO()) as out:
            waiting = eval(code, namespace)
            if waiting is not None:
                await waiting
        printed.append(out.getvalue())
    return printed
