"""The version, in a place that is cheap to import."""

__version__ = "0.1.0"
