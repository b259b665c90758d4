"""The documentation site: it builds without a warning and has every public name."""

from __future__ import annotations

import html
import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import curlhttp

ROOT = Path(__file__).parents[2]
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
TAGS = re.compile(r"<[^>]+>")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="needs the extra docs"),
    pytest.mark.skipif(sys.version_info < (3, 11), reason="mkdocstrings breaks there by itself"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the site, built without a warning."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, str]:
    """Return the pages by their paths."""
    found = sorted(site.rglob("*.html"))
    return {str(page.relative_to(site)): page.read_text(encoding="utf-8") for page in found}


def signatures(pages: dict[str, str]) -> list[str]:
    """Return all signatures that the reference shows, as text."""
    shown = "\n".join(text for path, text in pages.items() if path.startswith("reference/"))
    found = re.findall(r'<div class="doc-signature highlight">(.*?)</div>', shown, re.DOTALL)
    return [html.unescape(TAGS.sub("", each)).strip() for each in found]


def test_the_site_loads_nothing_from_other_sites(pages: dict[str, str]) -> None:
    sources = re.findall(
        r'(?:src|href)="(https?://[^"]+\.(?:js|css|woff2?))', "\n".join(pages.values())
    )
    assert sources == []


def test_the_reference_describes_all_public_names(pages: dict[str, str]) -> None:
    anchors = set(re.findall(r'\bid="(curlhttp[\w.]*)"', "\n".join(pages.values())))
    listed = pages["reference/index.html"]
    rows = {}
    for row in re.findall(r"<tr>.*?</tr>", listed, re.DOTALL):
        rows.update(dict.fromkeys(re.findall(r"<code>(\w+)</code>", row)[:1], row))
    missing = []
    for name in curlhttp.__all__:
        leads = re.findall(r'href="[^"#]*#(curlhttp[\w.]*)"', rows[name])
        words = len(TAGS.sub(" ", rows[name]).split())
        if not (leads and set(leads) <= anchors) and words < 4:
            missing.append(name)
    assert missing == []


def test_signatures_show_defaults_that_mean_something(pages: dict[str, str]) -> None:
    shown = signatures(pages)
    assert len(shown) > 100
    odd = [each for each in shown if re.search(r"\bUNSET\b|= _[A-Za-z]|[= ][A-Z]+_[A-Z_]+\b", each)]
    assert odd == []


def test_signatures_name_no_private_type(pages: dict[str, str]) -> None:
    odd = [each for each in signatures(pages) if re.search(r"(?<![\w.\"'])_[A-Za-z]\w*", each)]
    assert odd == []


@pytest.mark.parametrize(("client", "http2"), [("Client", "False"), ("AsyncClient", "True")])
def test_a_client_shows_its_constructor(pages: dict[str, str], client: str, http2: str) -> None:
    (shown,) = [each for each in signatures(pages) if each.startswith(f"{client}(")]
    assert "timeout: TimeoutInput = Timeout(connect=10, read=60)," in shown
    assert f"http2: HTTP2 = {http2}," in shown
    assert "max_redirects: int = 30," in shown
    assert "max_connections: int = 100," in shown


def test_names_in_docstrings_are_links(pages: dict[str, str]) -> None:
    page = pages["reference/clients/index.html"]
    for target in ("RetryPolicy", "TLS", "build_request", "PublicOnly"):
        assert re.search(rf'<a class="autorefs[^>]*href="[^"]*\.{target}"', page), target


def test_each_page_links_to_the_repository(pages: dict[str, str]) -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (repository,) = re.findall(r'^Repository = "(.+)"$', project, re.MULTILINE)
    assert [path for path, text in pages.items() if f'href="{repository}"' not in text] == []


def test_no_link_is_broken(pages: dict[str, str], site: Path) -> None:
    dead = []
    for path, text in pages.items():
        folder = site if path == "404.html" else (site / path).parent  # its links begin with /docs/
        for link in set(re.findall(r'(?:href|src)="([^":#?]+)[#?"]', text)):
            found = folder / link.removeprefix("/docs/")
            if not (found / "index.html" if found.is_dir() else found).is_file():
                dead.append((path, link))
    assert dead == []


@pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed")
@pytest.mark.skipif(importlib.util.find_spec("websockets") is None, reason="needs the extra ws")
def test_a_browser_finds_nothing_wrong_on_a_phone_or_a_screen_light_or_dark(site: Path) -> None:
    command = [sys.executable, str(ROOT / "docs" / "site" / "pictures.py"), str(site)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "page",
    sorted(
        str(page.relative_to(ROOT))
        for page in (ROOT / "docs").rglob("*.md")
        if "decisions" not in page.parts
    ),
)
def test_each_page_has_an_example(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert re.search(r"^ *```(python|console|sh)$", text, re.MULTILINE), "show how it is used"
