"""Add data files, and modules that are imported by name: the drop-in's, and those of features."""

from __future__ import annotations

from PyInstaller.utils.hooks import collect_data_files, collect_submodules

datas = collect_data_files("curlhttp", includes=["**/*.ini", "**/*.lua"])
hiddenimports = [
    *collect_submodules("curlhttp.requests"),
    *collect_submodules("curlhttp._features"),
]
