"""The documentation: every snippet runs, and every public name is there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import curlhttp
from curlhttp.cli.app import app
from tests.servers import Certs
from tests.support.docs_server import documented_world
from tests.support.snippets import OTHERS, snippets

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(str(page.relative_to(ROOT)) for page in DOCS.rglob("*.md"))
RUNNING = [page for page in PAGES if any(snippets((ROOT / page).read_text(encoding="utf-8")))]
MIGRATING = {name: f"docs/migrating/{name}.md" for name in OTHERS}


@pytest.fixture
def world(certs: Certs) -> Iterator[dict[str, str]]:
    with documented_world(certs) as environment:
        yield environment


@pytest.fixture
def folder(tmp_path: Path, certs: Certs) -> Path:
    """Return a folder with the files that snippets name, and the command."""
    command = tmp_path / "bin" / "curlhttp"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m curlhttp "$@"\n')
    command.chmod(0o755)
    (tmp_path / "urls.txt").write_text("https://api.example.org/users/1\n")
    (tmp_path / "photo.jpg").write_bytes(bytes(2000))
    (tmp_path / "disk.img").write_bytes(bytes(200_000))
    (tmp_path / "ca.pem").write_bytes(certs.ca_pem)
    certificate, key = certs.client_cert_pair()
    (tmp_path / "client.pem").write_bytes(certificate.read_bytes())
    (tmp_path / "client.key").write_bytes(key.read_bytes())
    return tmp_path


def run(page: str, folder: Path, world: dict[str, str], *options: str) -> None:
    environment = {**os.environ, **world, "NO_COLOR": "1"}
    paths = [str(ROOT), str(ROOT / "examples/backends"), os.environ.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    environment["PATH"] = os.pathsep.join([str(folder / "bin"), os.environ["PATH"]])
    strict = () if "--others" in options else ("-W", "error")  # they deprecate what people write
    command = [sys.executable, *strict, "-m", "tests.support.snippets", str(ROOT / page), *options]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", RUNNING)
def test_the_snippets_of_a_page_do_what_it_says(
    page: str, folder: Path, world: dict[str, str]
) -> None:
    run(page, folder, world)


def test_the_snippets_of_the_readme_do_what_it_says(folder: Path, world: dict[str, str]) -> None:
    run("README.md", folder, world, "--apart")


PROGRAMS = [
    snippet.source
    for snippet in snippets((ROOT / "README.md").read_text(encoding="utf-8"))
    if snippet.kind == "python"
]


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_a_program_of_the_readme_runs_when_it_is_pasted(
    number: int, folder: Path, world: dict[str, str]
) -> None:
    """The one with tests is run by pytest, which finds the fixture on its own."""
    tests = "def test_" in PROGRAMS[number]
    program = folder / ("test_version.py" if tests else "program.py")
    program.write_text(PROGRAMS[number], encoding="utf-8")
    with_pytest = ["-m", "pytest", "-q", "-p", "no:cacheprovider"] if tests else []
    done = subprocess.run(
        [sys.executable, "-W", "error", *with_pytest, program.name],
        cwd=folder,
        env={**os.environ, **world},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "1 passed" in done.stdout if tests else done.stdout


def test_the_readme_is_a_page() -> None:
    """The README has a program for each API; the reference is in docs."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert text.count("\n") <= 210
    for way in ("Client(", "AsyncClient(", "curlhttp import requests", ".map(", ".stream("):
        assert any(way in program for program in PROGRAMS)
    assert any("def test_" in program for program in PROGRAMS)


def test_the_links_of_the_readme_lead_somewhere() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?://)([^)]+)\)", text):
        path, _, anchor = target.partition("#")
        found = (ROOT / path).read_text(encoding="utf-8")
        titles = [line.lstrip("# ") for line in found.splitlines() if line.startswith("#")]
        assert not anchor or anchor in [title.lower().replace(" ", "-") for title in titles]


@pytest.mark.parametrize("library", OTHERS)
def test_the_other_library_does_what_its_page_says(
    library: str, folder: Path, world: dict[str, str]
) -> None:
    pytest.importorskip(library)
    run(MIGRATING[library], folder, world, "--others")


def test_the_reference_lists_all_public_names() -> None:
    text = (DOCS / "reference" / "index.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| \[?`(\w+)`", text, re.MULTILINE)) == sorted(curlhttp.__all__)


def test_the_reference_of_the_command_line_lists_all_options() -> None:
    text = (DOCS / "reference" / "cli.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(--[\w.-]+)`", text))
    assert named - {"--help"} == options_of_the_command_line()


def options_of_the_command_line() -> set[str]:
    context = click.Context(app)
    commands = [app.get_command(context, name) for name in app.list_commands(context)]
    parameters = [parameter for command in commands if command for parameter in command.params]
    found = {name for each in parameters for name in (*each.opts, *each.secondary_opts)}
    return {name for name in found if name.startswith("--")}


@pytest.mark.parametrize("page", PAGES)
def test_the_extras_and_examples_that_a_page_names_exist(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for names in re.findall(r"(?:curlhttp|'\.)\[([\w,]+)\]", text):
        for name in names.split(","):
            assert f"\n{name} = [" in project, f"there is no extra {name!r}"
    for example in re.findall(r"\bexamples/\w+\.py", text):
        assert (ROOT / example).exists()


def test_the_page_on_installing_lists_the_extras_for_users() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    extras = project.partition("[project.optional-dependencies]")[2].partition("\n[tool.")[0]
    ours = {"bench", "docs", "ecosystem", "lint", "test", "types"}  # of those who work on curlhttp
    names = set(re.findall(r"^(\w+) = \[", extras, re.MULTILINE)) - ours
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.+?) \|", text, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", " ".join(rows))) == names
