"""requests-ntlm: an auth whose hook sends the request again, on the same connection."""

from pathlib import Path

from tests.ecosystem.suites.suite import Suite

_SERVER = """
import threading
from werkzeug.serving import make_server
from tests.test_server import app

threading.Thread(target=make_server("localhost", 5000, app).serve_forever, daemon=True).start()
"""


def _start_server(source: Path) -> None:
    """Run the server of the tests in the background."""
    (source / "conftest.py").write_text(_SERVER)


SUITE = Suite(
    sdist="requests-ntlm==1.3.0",
    requires=("flask", "pyspnego", "cryptography"),
    tests=("tests/unit",),
    prepare=_start_server,
    is_in_ci=True,
)
