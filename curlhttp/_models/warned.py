"""The warnings that requests has, under its names."""

from __future__ import annotations

__all__ = ["FileModeWarning", "RequestsDependencyWarning", "RequestsWarning"]


class RequestsWarning(Warning):
    """Warn of a request; the base of requests' own warnings."""


class FileModeWarning(RequestsWarning, DeprecationWarning):
    """Warn of a file that is open in text mode, so that its length may be wrong."""


class RequestsDependencyWarning(RequestsWarning):
    """Warn of a dependency in a version that does not fit; kept for code that filters it."""
