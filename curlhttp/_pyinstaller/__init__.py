"""What PyInstaller must add to a program, because its analysis sees no imports by name.

PyInstaller finds this package by its entry point `pyinstaller40`. It never runs in a program.
"""

from __future__ import annotations

from pathlib import Path


def get_hook_dirs() -> list[str]:
    """Return the folder of the hooks."""
    return [str(Path(__file__).parent)]
