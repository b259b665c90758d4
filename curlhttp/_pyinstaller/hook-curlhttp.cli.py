"""Add the commands, each of which is imported when it is called."""

from __future__ import annotations

from PyInstaller.utils.hooks import collect_submodules

hiddenimports = collect_submodules("curlhttp.cli")
