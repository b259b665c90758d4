"""examples/download.py: what it prints, without a terminal."""

from __future__ import annotations

import pytest

from tests.programs.test_examples import run

pytestmark = pytest.mark.slow


def test_the_example_of_downloads_survives_what_its_server_does() -> None:
    finished = run("examples/download.py")
    assert finished.returncode == 0, finished.stderr
    assert finished.stderr == ""
    assert finished.stdout.splitlines() == [
        "first      ChunkedEncodingError after 3 MiB",
        "second     from 3 MiB of 8 MiB to 8 MiB of 8 MiB",
        "second     206 bytes 3145728-8388607/8388608",
        "retried    from 0 MiB of 8 MiB to 8 MiB of 8 MiB",
        "retried    ['ChunkedEncodingError', 206]",
        "checksum   it is another file; here is still 'what was there before'",
        "upload     from 0 MiB of 8 MiB to 8 MiB of 8 MiB",
        "upload     200 it is the same",
    ]
