"""Frozen dataclasses that every program creates, made without importing dataclasses.

That module and what it imports take a sixth of the time of a process that sends one request, and it
compiles six methods for each frozen class. Here, each class has its own __init__ and shares the
other methods. Whoever looks at these classes sees dataclasses, whose module is loaded then.
"""

from __future__ import annotations

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
        space = dict(vars(cls))
        types = cls.__annotations__  # of at least two fields
        defaults = {name: space.pop(name) for name in types if name in space}
        for name in ("__dict__", "__weakref__"):  # of the class without slots
            space.pop(name, None)
        for name, value in vars(_Methods).items():
            if callable(value):
                space.setdefault(name, value)
        for name in ("__dataclass_fields__", "__dataclass_params__"):
            space[name] = _Described(types, defaults)
        space["__slots__"], space["__match_args__"] = tuple(types), ()
        space["__qualname__"] = cls.__qualname__
        space["_names"], space["_get_values"] = tuple(types), attrgetter(*types)
        made = type(cls)(cls.__name__, cls.__bases__, space)
        made.__init__ = _make_init(made, types, defaults)
        return made

    def _make_init(made, types, defaults):
        """Compile a method that sets all fields: any other way is slower, or has no signature."""
        parameters = [f"{name}=_{name}" if name in defaults else name for name in types]
        lines = [f"def __init__(self, *, {', '.join(parameters)}):"]
        lines += [f" _set(self, {name!r}, {name})" for name in types]
        if hasattr(made, "__post_init__"):
            lines.append(" self.__post_init__()")
        space = {f"_{name}": value for name, value in defaults.items()}
        space.update(_set=object.__setattr__, __name__=made.__module__)
        exec("\n".join(lines), space)  # noqa: S102 - of names in this package
        init = space["__init__"]
        init.__qualname__ = f"{made.__qualname__}.__init__"
        init.__annotations__ = {**types, "return": None}
        return init

    class _Described:
        """What dataclasses keeps on a class, made by it when it is first looked at."""

        def __init__(self, types, defaults):
            self._types = types
            self._defaults = defaults

        def __set_name__(self, owner, name):
            self._owner = owner
            self._name = name

        def __get__(self, instance, owner):
            import dataclasses

            space = {
                "__annotations__": self._types,
                "__module__": self._owner.__module__,
                **self._defaults,
            }
            twin = type(self._owner.__name__, (), space)
            dataclasses.dataclass(frozen=True, kw_only=True)(twin)
            value = getattr(twin, self._name)
            setattr(self._owner, self._name, value)
            return value

    class _Methods:
        def __repr__(self):
            values = zip(self._names, self._get_values(self), strict=True)
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

        def __replace__(self, /, **changes):
            from dataclasses import replace

            return replace(self, **changes)

        def __getstate__(self):
            return [getattr(self, name) for name in self.__dataclass_fields__]

        def __setstate__(self, state):
            for name, value in zip(self.__dataclass_fields__, state, strict=True):
                object.__setattr__(self, name, value)

    def _check_free(self, name, what):
        """Raise an error unless a subclass has added the attribute."""
        if name in self.__dataclass_fields__ or not hasattr(self, "__dict__"):
            from dataclasses import FrozenInstanceError

            raise FrozenInstanceError(f"cannot {what} field {name!r}")
