"""LaunchDarkly's contract tests of clients for server-sent events, run on both of ours.

Source: https://github.com/launchdarkly/sse-contract-tests, whose releases have the program.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.colours import BACKENDS

ROOT = Path(__file__).parents[2]
# The events of a POST end with its body, see docs/decisions/events-and-recordings.md.
UNMET = "reconnection/resends request body if any when reconnecting"
SUITE = os.environ.get("SSE_CONTRACT_TESTS") or shutil.which("sse-contract-tests")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        SUITE is None,
        reason="sse-contract-tests is not on the PATH, nor named in SSE_CONTRACT_TESTS",
    ),
]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


@pytest.mark.parametrize("client", sorted(BACKENDS))
def test_the_contract_of_clients_for_events_holds_but_for_repeated_posts(client: str) -> None:
    command = [sys.executable, "-m", "tests.ecosystem.sse_service", "--client", client]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as service:
        try:
            assert service.stdout is not None
            url = f"http://127.0.0.1:{int(service.stdout.readline())}"
            suite = [str(SUITE), "-url", url, "-host", "127.0.0.1", "-port", str(free_port())]
            done = subprocess.run(suite, capture_output=True, text=True, timeout=300)
            failed = re.findall(r"^  \* (.+)$", done.stderr, re.MULTILINE)
            assert failed == [UNMET], done.stdout + done.stderr
        finally:
            service.kill()
