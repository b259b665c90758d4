"""Attributes that are computed on first use, and that a program may set."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from functools import cached_property as cached_property
else:

    class cached_property(functools.cached_property):  # noqa: N801
        """Compute an attribute without a lock.

        On Python 3.10 and 3.11, that of functools has one for all objects. A child that is forked
        while another thread holds it would wait forever.
        """

        def __get__(self, instance, owner=None):
            if instance is None:
                return self
            return instance.__dict__.setdefault(self.attrname, self.func(instance))
