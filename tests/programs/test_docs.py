"""The documentation's word: every snippet runs, every public name is there."""

from __future__ import annotations
