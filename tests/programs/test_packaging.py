"""The release: a wheel with only the package, and an sdist that builds the same one."""

from __future__ import annotations

import ast
import email
import email.message
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import curlhttp

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the sdist, and the wheel that is made of it."""
    for name in ("build", "hatchling"):
        pytest.importorskip(name, reason="the extra test")
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder)
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (found,) = dist.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> email.message.Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return email.message_from_bytes(archive.read(name))


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    package = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "curlhttp").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert held == {*package, "pytest_curlhttp.py"}
    assert "curlhttp/py.typed" in held


def test_the_sdist_has_what_the_tests_need(dist: Path) -> None:
    (path,) = dist.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    assert {"tests/conftest.py", "examples/quickstart.py", "setup.cfg", "hatch_build.py"} <= held
    assert not [name for name in held if "__pycache__" in name or name.startswith(".venv")]


def test_a_build_of_a_copy_gives_the_same_bytes(dist: Path, tmp_path: Path) -> None:
    kept = {"docs", "hatch_build.py", "noxfile.py", "pytest_curlhttp.py", ".gitignore", "LICENSE"}
    kept |= {"curlhttp", "tests", "examples", "benchmarks", "pyproject.toml", "setup.cfg"}

    def others(folder: str, names: list[str]) -> set[str]:
        if Path(folder) != ROOT:
            return {"__pycache__"}
        return {name for name in names if name not in kept and not name.endswith((".md", ".yml"))}

    copy = shutil.copytree(ROOT, tmp_path / "copy", ignore=others)
    for path in copy.rglob("*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", tmp_path / "dist", cwd=copy)
    first, second = (
        {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
        for folder in (dist, tmp_path / "dist")
    )
    assert len(first) == 2
    assert first == second


def test_an_index_accepts_the_release(dist: Path) -> None:
    pytest.importorskip("twine", reason="the extra test")
    run(sys.executable, "-m", "twine", "check", "--strict", *dist.iterdir())


def test_the_links_and_pictures_of_the_index_lead_to_the_repository(
    metadata: email.message.Message,
) -> None:
    text = metadata.get_payload()
    assert isinstance(text, str)
    targets = re.findall(r"(!?)\[[^\]]*\]\(([^)\s]+)\)", text)
    assert len(targets) > 20
    assert [target for _, target in targets if not re.match(r"https?://|#", target)] == []
    pictures = [target for mark, target in targets if mark]
    version = f"v{curlhttp.__version__}"
    assert pictures
    assert all(f"/raw/{version}/benchmarks/" in target for target in pictures)


def test_the_metadata_has_addresses_and_authors(metadata: email.message.Message) -> None:
    urls = {str(each).partition(",")[0] for each in metadata.get_all("Project-URL", [])}
    assert urls == {"Documentation", "Repository", "Changelog", "Issues"}
    assert metadata["Author"] == "The curlhttp authors"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata["License-Expression"] == "MIT"


def test_the_wheel_brings_the_command_and_the_plugins(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("/entry_points.txt")]
        text = archive.read(name).decode()
    assert "[console_scripts]\ncurlhttp = curlhttp.cli:main\n" in text
    assert "[pytest11]\ncurlhttp = pytest_curlhttp\n" in text


PARTS = [
    "cli",
    "distributed",
    "httpx.py",
    "httpx2.py",
    "_httpx",
    "otel",
    "redis",
    "testing",
    "progress.py",
    "requests",
]


@pytest.mark.parametrize("without", [[], PARTS], ids=["all", "clients"])
def test_the_wheel_alone_runs_the_quickstart(
    wheel: Path, tmp_path: Path, without: list[str]
) -> None:
    """As the Dockerfile does: files outside of the wheel cannot be found.

    The clients need none of the parts beside them, so these may be deleted (docs/why.md).
    """
    home = tmp_path / "home"
    home.mkdir()
    run(sys.executable, "-m", "zipfile", "-e", wheel, tmp_path / "site")
    for name in without:
        path = tmp_path / "site" / "curlhttp" / name
        if path.suffix:
            path.unlink()
        else:
            shutil.rmtree(path)
    shutil.copy(ROOT / "examples" / "quickstart.py", home)
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import curlhttp, runpy;"
        "assert curlhttp.__file__.startswith(sys.argv[1]), curlhttp.__file__;"
        "runpy.run_path('quickstart.py', run_name='__main__')"
    )
    printed = run(sys.executable, "-W", "error", "-c", program, tmp_path / "site", cwd=home)
    assert printed.startswith("blocking get  200 {'hello': 'world'}\n")


def test_the_wheel_has_each_script_that_redis_runs(wheel: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "zipfile", "-e", wheel, tmp_path / "site")
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from curlhttp.redis import _scripts as scripts\n"
        "assert scripts.__file__.startswith(sys.argv[1]), scripts.__file__;"
        "print(sum(bool(scripts.load_script(kind).text) for kind in scripts._KEYS))"
    )
    printed = run(sys.executable, "-c", program, tmp_path / "site", cwd=tmp_path)
    assert int(printed) == len(list((ROOT / "curlhttp" / "redis").glob("*.lua")))


def test_the_container_copies_existing_files() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    copied = re.findall(r"^COPY (.+) \S+$", text, re.MULTILINE)
    names = [name for line in copied for name in line.split()]
    assert len(names) > 5
    assert [name for name in names if not (ROOT / name).exists()] == []


# --- a release ---


@pytest.fixture
def check() -> Callable[[str, Path], list[str]]:
    path = ROOT / ".ci" / "check_release.py"
    if not path.exists():
        pytest.skip("an sdist has no .ci")
    spec = importlib.util.spec_from_file_location("check_release", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    problems: Callable[[str, Path], list[str]] = module.problems
    return problems


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return the folder of a project that may be released as 1.2.0."""
    (tmp_path / "curlhttp" / "cli").mkdir(parents=True)
    (tmp_path / "curlhttp" / "cli" / "advisories.py").write_text('AS_OF = "2027-01-20"\n')
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("pip install curlhttp\n")
    (tmp_path / "README.md").write_text("pip install curlhttp\n")
    (tmp_path / "curlhttp" / "_version.py").write_text('__version__ = "1.2.0"\n')
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.0 - 2027-01-31\n\n### Added\n")
    (tmp_path / "SECURITY.md").write_text("Write to the address of the repository.\n")
    (tmp_path / "pyproject.toml").write_text('Repository = "https://host/curlhttp"\n')
    return tmp_path


Check = Callable[[str, Path], list[str]]


def test_a_consistent_release_is_accepted(check: Check, project: Path) -> None:
    assert check("v1.2.0", project) == []


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("curlhttp/_version.py", '__version__ = "1.1.0"\n', "the tag is v1.2.0"),
        ("CHANGELOG.md", "## Unreleased\n\n## 1.2.0 - 2027-01-31\n", "does not begin with"),
        ("CHANGELOG.md", "## 1.2.0 - 2027-01-31\n\n### News\n", "'### News' is none of Added"),
        ("SECURITY.md", "There is no private channel yet.\n", "in private"),
        ("pyproject.toml", 'Repository = "https://x.example/x"\n', "placeholders"),
        ("curlhttp/cli/advisories.py", 'AS_OF = "2027-01-16"\n', "looked up on 2027-01-16"),
        ("README.md", "curlhttp is not on\nPyPI yet.\n", "README.md says: not on PyPI yet"),
        ("docs/index.md", "No version has been released yet.", "docs/index.md says: has been"),
    ],
)
def test_an_inconsistent_release_is_refused(
    check: Check, project: Path, name: str, text: str, problem: str
) -> None:
    (project / name).write_text(text)
    assert any(problem in each for each in check("v1.2.0", project))


# --- the commands ---


def test_each_session_that_is_called_is_there() -> None:
    files = [ROOT / ".ci" / "run", *(ROOT / ".github" / "workflows").glob("*.yml")]
    if not files[0].exists():
        pytest.skip("an sdist has no .ci")
    files += [ROOT / "CONTRIBUTING.md", ROOT / "tests" / "README.md", ROOT / "docs" / "licences.md"]
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    called = {
        name
        for line in re.findall(r"(?:nox -s|(?m:^|\btests_of )session)((?: [a-z]+)+)", text)
        for name in line.split()
    }
    noxfile = ast.parse((ROOT / "noxfile.py").read_text(encoding="utf-8"))
    sessions = {
        node.name
        for node in noxfile.body
        if isinstance(node, ast.FunctionDef) and node.decorator_list
    }
    assert {"slow", "packages", "contract", "lint", "tests", "release"} <= called
    assert called <= sessions
    assert {"lint", "tests"} < sessions


def test_what_a_session_names_exists() -> None:
    text = (ROOT / "noxfile.py").read_text(encoding="utf-8")
    named = re.findall(r'"((?:tests|\.ci)/[\w./-]+)"', text)
    assert len(named) > 8
    if not (ROOT / ".ci").exists():
        named = [path for path in named if not path.startswith(".ci")]
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_changelog_is_sorted_by_kind(check: Check) -> None:
    assert not [each for each in check(f"v{curlhttp.__version__}", ROOT) if "is none of" in each]
