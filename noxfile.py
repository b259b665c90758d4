"""The commands for working on curlhttp, each in one place: `nox -l` lists them.

`nox -s NAME` runs one, `nox -s NAME -- ARGUMENT` passes arguments on. Each session has a virtual
environment of its own below .nox. .ci/run calls them with `--no-venv --no-install` instead: its
sections share .venv-test, into which it installs.
"""

from __future__ import annotations

import shutil

import nox

nox.needs_version = ">=2024.4.15"
nox.options.sessions = ["lint", "tests"]
nox.options.default_venv_backend = "venv"
nox.options.reuse_existing_virtualenvs = True

_REQUESTS = "requests==2.34.2"  # whose behaviour tests/requests/contract describes
_ACTIONLINT = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12"
_ALONE = [  # what other sessions run, with packages that `slow` does not have
    "tests/ecosystem",
    "tests/requests/contract",
    "tests/programs/test_docs.py",
    "tests/programs/test_site.py",
    "tests/programs/test_benchmarks.py",
]
_WITH_PACKAGES = [
    *_ALONE,
    "tests/client/test_signatures.py",
    "tests/distributed/test_engines.py",
    "tests/distributed/test_fetch.py",
    "tests/distributed/test_rows.py",
]


def _install(session: nox.Session, *extras: str) -> None:
    session.install("-q", "-e", f".[{','.join(extras)}]")


def _python(session: nox.Session, *command: str) -> None:
    session.run("python", "-m", *command, external=True)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and types, as the hooks of pre-commit do."""
    _install(session, "test", "lint")
    _python(session, "ruff", "check", ".")
    _python(session, "ruff", "format", "--check", ".")
    _python(session, "mypy")


@nox.session
def tests(session: nox.Session) -> None:
    """Run the test suite."""
    _install(session, "test")
    _python(session, "pytest", "-q", *session.posargs)


@nox.session
def smoke(session: nox.Session) -> None:
    """Check in seconds whether the package works at all."""
    _install(session, "test")
    _python(session, "pytest", "-q", "tests/test_smoke.py", *session.posargs)


@nox.session
def slow(session: nox.Session) -> None:
    """Run the slow tests and those on uvloop, but for those of `packages`."""
    _install(session, "test-slow")
    ignored = [word for path in _ALONE for word in ("--ignore", path)]
    _python(session, "pytest", "-q", "-m", "slow or uvloop", *ignored, *session.posargs)


@nox.session
def packages(session: nox.Session) -> None:
    """Test with packages that use requests or httpx, the documentation and the benchmarks."""
    _install(session, "test", "ecosystem", "docs", "bench")
    parallel = ("-n", "3", "--dist", "loadfile")
    _python(session, "pytest", "-q", "-m", "", *parallel, *_WITH_PACKAGES, *session.posargs)


@nox.session
def contract(session: nox.Session) -> None:
    """Run what the drop-in must do on requests itself."""
    session.install("-q", "-e", ".[test]", _REQUESTS, "chardet")
    options = ("-m", "", "-n", "3", "--module", "requests")
    _python(session, "pytest", "-q", "tests/requests/contract", *options, *session.posargs)


@nox.session
def suites(session: nox.Session) -> None:
    """Run the test suites of packages, on their library and on curlhttp: -- NAME."""
    _install(session, "test")
    _python(session, "tests.ecosystem.suites", *session.posargs)


@nox.session
def types(session: nox.Session) -> None:
    """Check types as users of the package see them, and find public names without one."""
    _install(session, "test", "types")
    _python(session, "pytest", "-q", "-n", "0", "-m", "slow", "tests/typing")
    _python(session, "pyright", "--verifytypes", "curlhttp", "--ignoreexternal")


@nox.session
def names(session: nox.Session) -> None:
    """Write docs/reference/public-names.txt again, after a public name changed on purpose."""
    _install(session, "test")
    _python(session, "tests.support.public_names")


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation in site/."""
    _install(session, "docs")
    _python(session, "mkdocs", "build", "--strict")


@nox.session
def oldest(session: nox.Session) -> None:
    """Run the smoke tests with the oldest dependencies that pyproject.toml allows."""
    _install(session, "test")
    dependencies = nox.project.load_toml("pyproject.toml")["project"]["dependencies"]
    session.install("-q", *(each.replace(">=", "==") for each in dependencies))
    # Importing curlhttp with that pycurl warns.
    _python(session, "pytest", "-q", "-W", "ignore:libcurl:RuntimeWarning", "tests/test_smoke.py")


@nox.session
def bench(session: nox.Session) -> None:
    """Run the benchmarks for README, docs/speed.md and the goals; -- check says what got worse."""
    _install(session, "bench")
    _python(session, "benchmarks", *(session.posargs or ["all"]))


@nox.session
def fuzz(session: nox.Session) -> None:
    """Send hostile responses: -- --seed 1 --cases 100000."""
    _install(session, "test")
    session.run("python", "-W", "error", "-m", "tests.fuzz", *session.posargs, external=True)


@nox.session
def storm(session: nox.Session) -> None:
    """Break connections under load: -- --seed 1 --requests 50000."""
    _install(session, "test")
    session.run("python", "-W", "error", "-m", "tests.storm", *session.posargs, external=True)


@nox.session
def release(session: nox.Session) -> None:
    """Build the wheel and the sdist in dist/, and check them and the text that PyPI shows."""
    session.install("-q", "build", "twine")
    shutil.rmtree("dist", ignore_errors=True)
    _python(session, "build")
    _python(session, "twine", "check", "--strict", "dist/*")


@nox.session
def sbom(session: nox.Session) -> None:
    """Write out/curlhttp.cdx.json, the packages that an installation of dist/*.whl has."""
    session.install("-q", "cyclonedx-bom>=7")
    session.run("python", ".ci/sbom.py", "out/curlhttp.cdx.json", external=True)


@nox.session
def workflows(session: nox.Session) -> None:
    """Check .github/workflows."""
    session.install("-q", "zizmor>=1.32")
    session.run("zizmor", "--offline", "--quiet", ".github/workflows")
    if shutil.which("go"):  # the package of PyPI downloads it from a place that not all can reach
        session.run("go", "run", _ACTIONLINT, external=True)
    else:
        session.warn("actionlint was left out, because there is no Go")


@nox.session(venv_backend="none")
def servers(session: nox.Session) -> None:
    """Test with real servers and proxies, which it installs if possible; needs .venv-test."""
    session.run(".ci/real-servers", external=True)


@nox.session(venv_backend="none")
def ci(session: nox.Session) -> None:
    """Run everything that must hold before a change goes in, in new environments."""
    session.run(".ci/run", external=True)
