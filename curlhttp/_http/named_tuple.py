"""NamedTuple for classes that every program creates, made in a third of the time typing takes.

typing compiles the annotation of each field. Here it stays the text that it is.
"""

from __future__ import annotations

from collections import namedtuple
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:

    class _MakeNamedTuple(type):
        def __new__(cls, name, bases, space):
            types = space.pop("__annotations__")
            defaults = [space.pop(field) for field in types if field in space]
            made = namedtuple(name, types, defaults=defaults, module=space["__module__"])
            made.__annotations__ = made.__new__.__annotations__ = types
            for key, value in space.items():
                setattr(made, key, value)
            return made

    NamedTuple = type.__new__(_MakeNamedTuple, "NamedTuple", (), {})
