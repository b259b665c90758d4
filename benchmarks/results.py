"""Results on disk: JSON as measured, and the tables and plots generated from it."""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path
from typing import Any

from benchmarks import goals, readme, tables

__all__ = ["FOLDER", "render", "report", "save"]

FOLDER = Path(__file__).parent / "results"


def save(results: dict[str, Any], folder: Path) -> str:
    """Write the results of a benchmark, and the files generated from them; return the tables."""
    results["machine"]["load_at_end"] = list(os.getloadavg())
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{results['benchmark']}.json"
    path.write_text(json.dumps(results, indent=1) + "\n")
    return render(path)


def render(path: Path) -> str:
    """Generate the tables and, with matplotlib, the plot of a results file; return the tables."""
    results = json.loads(path.read_text())
    text = tables.markdown(results)
    path.with_suffix(".md").write_text(text)
    if importlib.util.find_spec("matplotlib"):
        from benchmarks import plots

        plots.draw(results, path.with_suffix(".svg"))
    return text


def report(folder: Path) -> str:
    """Generate everything again from a folder's JSON; return the table of goals.

    The tables of the README and docs/speed.md are only generated from the results of this
    checkout.
    """
    for path in sorted(folder.glob("*.json")):
        render(path)
    text = goals.markdown(folder)
    (folder / "goals.md").write_text(text)
    if folder.resolve() == FOLDER.resolve():
        readme.write(folder)
    return text
