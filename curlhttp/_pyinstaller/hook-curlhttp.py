"""Add the scripts for Redis, and the modules of the drop-in, which requests' names import."""

from __future__ import annotations

from PyInstaller.utils.hooks import collect_data_files, collect_submodules

datas = collect_data_files("curlhttp", includes=["**/*.lua"])
hiddenimports = collect_submodules("curlhttp.requests")
