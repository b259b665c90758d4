"""httpx-ws: WebSockets on the network stream of a response to httpx."""

from pathlib import Path

from tests.ecosystem.suites.suite import Suite


def _wait_for_the_server(source: Path) -> None:
    """Let its tests wait until the server listens: it tells of its start before it does.

    With httpx's own transport, which reads the authorities first, that is mostly late enough.
    """
    conftest = source / "tests/conftest.py"
    text = conftest.read_text()
    waits = "startup_queue.get(True)\n"
    assert waits in text
    wait = f"{' ' * 16}while not server.started:\n{' ' * 20}time.sleep(0.01)\n"
    conftest.write_text("import time\n" + text.replace(waits, waits + wait))


SUITE = Suite(
    sdist="httpx-ws==0.9.0",
    requires=("httpx", "pytest-cov", "starlette", "trio", "uvicorn[standard]"),
    options=("--no-cov",),
    replaces="httpx",
    prepare=_wait_for_the_server,
)
