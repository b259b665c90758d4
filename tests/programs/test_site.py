"""The documentation site: it builds without a warning and has every public name."""

from __future__ import annotations

import html
import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

import curlhttp

ROOT = Path(__file__).parents[2]
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
ERRORS = "reference/errors/index.html"
TAGS = re.compile(r"<[^>]+>")
# What people call it, and the page that the search must list first.
FIRST_PAGES = {
    "synchronous": "how-to/basics",
    "query parameters": "how-to/basics",
    "headers": "how-to/basics",
    "form": "how-to/basics",
    "encoding": "how-to/basics",
    "status code": "how-to/basics",
    "POST": "how-to/basics",
    "base_url": "how-to/basics",
    "session": "how-to/basics",
    "redirects": "how-to/redirects",
    "timeout": "how-to/timeouts",
    "connect timeout": "how-to/timeouts",
    "authentication": "how-to/signing-in",
    "login": "how-to/signing-in",
    "basic auth": "how-to/signing-in",
    "bearer token": "how-to/signing-in",
    "OAuth": "how-to/signing-in",
    "JSON": "how-to/json",
    "pydantic": "how-to/json",
    "file upload": "how-to/uploads",
    "multipart": "how-to/uploads",
    "download": "how-to/streaming",
    "streaming": "how-to/streaming",
    "cookies": "how-to/cookies",
    "pagination": "how-to/pagination",
    "logging": "how-to/debugging",
    "TLS": "how-to/proxies-tls",
    "CA bundle": "how-to/proxies-tls",
    "certificate": "how-to/proxies-tls",
    "self-signed": "how-to/proxies-tls",
    "verify": "how-to/proxies-tls",
    "verify=False": "how-to/proxies-tls",
    "disable ssl verification": "how-to/proxies-tls",
    "insecure": "how-to/proxies-tls",
    "proxy": "how-to/proxies-tls",
    "HTTP/2": "how-to/proxies-tls",
    "connection pool": "how-to/proxies-tls",
    "mock": "how-to/testing",
    "pytest": "how-to/testing",
    "CLI": "how-to/command-line",
    "concurrency": "how-to/many-requests",
    "retry": "how-to/resilience",
    "backoff": "how-to/resilience",
    "rate limit": "how-to/resilience",
    "throttle": "how-to/resilience",
    "circuit breaker": "how-to/resilience",
    "load balancing": "how-to/resilience",
    "SSE": "how-to/server-sent-events",
    "websocket": "how-to/websockets",
    "cache": "how-to/caching",
    "asyncio": "how-to/event-loops",
    "trio": "how-to/event-loops",
    "SSRF": "how-to/guard",
    "middleware": "how-to/middleware",
    "hooks": "how-to/middleware",
    "DNS": "how-to/routing",
    "OpenTelemetry": "how-to/tracing",
    "Prometheus": "how-to/tracing",
    "HAR": "how-to/recording",
    "exceptions": "reference/errors",
    "requests": "migrating/requests",
    "requests per second": "how-to/resilience",
    "10 requests per second": "how-to/resilience",
    "thread safe": "how-to/many-requests",
    "thread-safe": "how-to/many-requests",
    "threads": "how-to/many-requests",
    "form with a file": "how-to/uploads",
    "how do I set a timeout for connecting only": "how-to/timeouts",
    "how do I send a form with a file?": "how-to/uploads",
    "how can I limit the requests per second?": "how-to/resilience",
    "is a client thread-safe?": "how-to/many-requests",
    "how do I turn off the verification of certificates": "how-to/proxies-tls",
    "how do I retry a request": "how-to/resilience",
    "where are the cookies": "how-to/cookies",
    "what is an idempotency key": "how-to/resilience",
}

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
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, str]:
    """Return the pages by their paths."""
    found = sorted(site.rglob("*.html"))
    return {str(page.relative_to(site)): page.read_text(encoding="utf-8") for page in found}


@pytest.fixture(scope="module")
def first_pages(site: Path) -> dict[str, str | None]:
    """Return the path of the page that the site's search lists first, for each text."""
    if not CHROMIUM or importlib.util.find_spec("websockets") is None:
        pytest.skip("needs Chromium and the extra ws")
    return load_pictures().first_found(site, list(FIRST_PAGES))  # type: ignore[no-any-return]


def load_pictures() -> ModuleType:
    """Import docs/site/pictures.py, which is in no package."""
    spec = importlib.util.spec_from_file_location("pictures", ROOT / "docs/site/pictures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
    for target in ("RetryPolicy", "URL", "build_request", "PublicOnly"):
        assert re.search(rf'<a class="autorefs[^>]*href="[^"]*\.{target}"', page), target


def test_examples_in_docstrings_are_code(pages: dict[str, str]) -> None:
    assert [path for path, text in pages.items() if "][curlhttp" in TAGS.sub("", text)] == []


def test_the_tree_of_errors_is_a_list_of_links_below_their_base_classes(
    pages: dict[str, str],
) -> None:
    tree, _, _ = pages[ERRORS].partition("in one tree")[2].partition("</p>")[2].partition("<div")
    tree = re.sub(r"\([^)]*\)", "", tree)  # other base classes
    names: set[str] = set()

    def walk(level: ElementTree.Element, bases: tuple[type, ...]) -> None:
        for line in level.findall("li"):
            own = [each.get("href", "").rpartition(".")[2] for each in line.findall("a")]
            classes = tuple(getattr(curlhttp.exceptions, name) for name in own)
            assert all(issubclass(each, bases) for each in classes), own
            names.update(own)
            for deeper in line.findall("ul"):
                walk(deeper, classes)

    walk(ElementTree.fromstring(tree), (OSError, Warning))
    # The tree has Timeout, with its other name behind it.
    assert names == set(curlhttp.exceptions.__all__) - {"TimeoutException"}


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


@pytest.mark.parametrize("text", FIRST_PAGES)
def test_the_search_lists_first_the_page_that_answers(
    text: str, first_pages: dict[str, str | None]
) -> None:
    assert first_pages[text] == f"{FIRST_PAGES[text]}/"


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
