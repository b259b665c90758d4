"""The summary as a figure: statuses, errors, and the slowest hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from curlhttp._distributed.summary import FetchSummary

__all__ = ["plotted"]

_BARS = 12  # of each kind
_LONGEST = 30  # characters of a name


def plotted(summary: FetchSummary) -> Figure:
    """Return the figure.

    Args:
        summary: of a fetch.

    Raises:
        ImportError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure  # no pyplot, which would choose a display
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'curlhttp[plot]'") from error
    figure = Figure(figsize=(12, 4), layout="constrained")
    statuses, errors, hosts = figure.subplots(1, 3)
    _bars(statuses, "rows by status", dict(summary.statuses.most_common(_BARS)))
    _bars(errors, "rows by error", dict(summary.errors.most_common(_BARS)))
    means = {name: times.seconds / times.requests for name, times in summary.hosts.items()}
    _bars(hosts, "slowest hosts, mean seconds", dict(list(means.items())[:_BARS]))
    return figure


def _bars(axes: Axes, title: str, values: Mapping[str, float]) -> None:
    names = [name if len(name) <= _LONGEST else f"{name[:_LONGEST]}..." for name in values]
    places = range(len(names))
    axes.barh(places, list(values.values()))
    axes.set_yticks(places, names)
    axes.invert_yaxis()
    axes.set_title(title)
    if not names:
        axes.text(0.5, 0.5, "none", transform=axes.transAxes, ha="center")
