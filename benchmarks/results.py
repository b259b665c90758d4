"""Results on disk: JSON as measured, and the tables and plots that are made of it."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

from benchmarks import tables

__all__ = ["render", "save"]


def save(results: dict[str, Any], folder: Path) -> None:
    """Write the results of a benchmark, and what is made of them."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{results['benchmark']}.json"
    path.write_text(json.dumps(results, indent=1) + "\n")
    render(path)


def render(path: Path) -> None:
    """Make the tables and, with matplotlib, the plot that belong to a file of results."""
    results = json.loads(path.read_text())
    text = tables.markdown(results)
    path.with_suffix(".md").write_text(text)
    print(text)
    if importlib.util.find_spec("matplotlib"):
        from benchmarks import plots

        plots.draw(results, path.with_suffix(".svg"))
