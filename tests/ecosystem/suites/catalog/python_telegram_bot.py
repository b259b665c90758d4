"""python-telegram-bot: its HTTPXRequest. What asks Telegram itself cannot run."""

from pathlib import Path

from tests.ecosystem.suites.suite import Suite


def _make_files(source: Path) -> None:
    """Make the pictures and films that its tests send and the sdist leaves out."""
    for name in ("telegram.jpg", "telegram.mp4", "telegram.png", "telegram2.mp4"):
        (source / "tests/data" / name).write_bytes(name.encode() * 1000)


SUITE = Suite(
    sdist="python-telegram-bot==22.8",
    requires=(
        "python-telegram-bot[ext,http2,passport,socks]",
        "beautifulsoup4",
        "flaky>=3.8.1",
        "pytest==8.4.2",
        "pytest-asyncio==0.21.2",
        "pytz",
        "tzdata",
    ),
    tests=("tests/request",),
    replaces="httpx",
    prepare=_make_files,
)
