"""Frozen dataclasses that every program creates, made in a third of the time dataclasses takes.

dataclasses compiles six methods for each frozen class. Here, each class has its own __init__ and
shares the other methods. Whoever looks at these classes sees dataclasses.
"""

from __future__ import annotations

from dataclasses import MISSING, FrozenInstanceError, fields
from dataclasses import dataclass as _dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(*, frozen, slots, kw_only):
        """Return dataclasses.dataclass for these arguments, all True; fields have no factories."""
        assert frozen is slots is kw_only is True
        return _make

    def _make(cls):
        made = _dataclass(init=False, repr=False, eq=False, slots=True, kw_only=True)(cls)
        params = made.__dataclass_params__
        params.init = params.repr = params.eq = params.frozen = True
        for name, value in vars(_Methods).items():
            if callable(value) and name not in vars(cls):
                setattr(made, name, value)
        made._get_values = attrgetter(*[field.name for field in fields(made)])  # of at least two
        made.__init__ = _make_init(made)
        return made

    def _make_init(made):
        """Compile a method that sets all fields: any other way is slower, or has no signature."""
        found = fields(made)
        values = {f"_{each.name}": each.default for each in found if each.default is not MISSING}
        parameters = [
            f"{each.name}=_{each.name}" if f"_{each.name}" in values else each.name
            for each in found
        ]
        lines = [f"def __init__(self, *, {', '.join(parameters)}):"]
        lines += [f" _set(self, {each.name!r}, {each.name})" for each in found]
        if hasattr(made, "__post_init__"):
            lines.append(" self.__post_init__()")
        space = {**values, "_set": object.__setattr__, "__name__": made.__module__}
        exec("\n".join(lines), space)  # noqa: S102 - of names in this package
        init = space["__init__"]
        init.__qualname__ = f"{made.__qualname__}.__init__"
        init.__annotations__ = {**{each.name: each.type for each in found}, "return": None}
        return init

    class _Methods:
        def __repr__(self):
            values = zip(self.__dataclass_fields__, self._get_values(self), strict=True)
            shown = ", ".join(f"{name}={value!r}" for name, value in values)
            return f"{type(self).__qualname__}({shown})"

        def __eq__(self, other):
            if type(other) is not type(self):
                return NotImplemented
            return self._get_values(self) == self._get_values(other)

        def __hash__(self):
            return hash(self._get_values(self))

        def __setattr__(self, name, value):
            _check_free(self, name, "assign to")
            object.__setattr__(self, name, value)

        def __delattr__(self, name):
            _check_free(self, name, "delete")
            object.__delattr__(self, name)

        def __getstate__(self):
            return list(self._get_values(self))

        def __setstate__(self, state):
            for name, value in zip(self.__dataclass_fields__, state, strict=True):
                object.__setattr__(self, name, value)

    def _check_free(self, name, what):
        """Raise an error unless a subclass has added the attribute."""
        if name in self.__dataclass_fields__ or not hasattr(self, "__dict__"):
            raise FrozenInstanceError(f"cannot {what} field {name!r}")
