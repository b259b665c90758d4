"""Import aliases: let `import requests` load curlhttp.requests."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_FACADE = "curlhttp.requests"


class _AliasFinder:
    """Import a module under an alias: the same module object, not a copy.

    It must be the first finder, because the path finder would search the folder of the target
    package and load its modules a second time under the alias.
    """

    def __init__(self) -> None:
        self.targets: dict[str, Callable[[], str | None]] = {}  # by alias

    def _resolve(self, fullname: str) -> str | None:
        """Return the real name of an aliased module, None for any other name."""
        name, rest = fullname, ""
        while name:
            target = self.targets.get(name)
            if target is not None:
                found = target()
                return None if found is None else found + rest
            name, _, last = name.rpartition(".")
            rest = f".{last}{rest}"
        return None

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Return a spec for an aliased module; None for other names and missing modules."""
        if fullname.partition(".")[0] not in _ROOTS:
            return None
        real_name = self._resolve(fullname)
        if real_name is None:
            return None
        import importlib.util

        try:
            found = importlib.util.find_spec(real_name)
        except (ModuleNotFoundError, ValueError):  # missing, or loaded without a spec
            return None
        if found is None:
            return None
        is_package = found.submodule_search_locations is not None
        loader: Any = self  # duck-typed, because its base class is slow to import
        return ModuleSpec(fullname, loader, origin=real_name, is_package=is_package)

    def create_module(self, spec: ModuleSpec) -> None:
        """Let the import system create an empty module."""

    def exec_module(self, module: ModuleType) -> None:
        """Replace the new, empty module by the real one."""
        spec = module.__spec__
        assert spec is not None
        assert spec.origin is not None
        sys.modules[spec.name] = importlib.import_module(spec.origin)
        if spec.submodule_search_locations is not None:
            _alias_loaded(spec.origin, spec.name)


def _alias_loaded(package: str, name: str) -> None:
    """Register the loaded modules of a package under their aliases too.

    Importing a module by its alias would also set it as an attribute of its package. There it would
    replace another value of that name, such as the string `__version__`.
    """
    for loaded, module in list(sys.modules.items()):
        if module is None or not loaded.startswith(package + "."):
            continue
        # Skip the empty module of an import that another thread has not finished.
        if getattr(getattr(module, "__spec__", None), "loader", None) is not _finder:
            sys.modules.setdefault(name + loaded[len(package) :], module)


_ROOTS = frozenset({"curlhttp", "requests"})
_finder = _AliasFinder()


def add_alias(name: str, target: Callable[[], str | None]) -> None:
    """Make a module name, and all names below it, aliases of another module.

    Args:
        name: the full name of the alias.
        target: returns the full name of the real module, or None if there is none.
    """
    _finder.targets[name] = target
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def alias_requests() -> None:
    """Make `import requests`, and imports of its modules, load curlhttp.requests in this process.

    Call it before anything imports requests, such as at the top of the main module. It works
    whether or not requests is installed. A second call does nothing.

    Raises:
        RuntimeError: requests itself was imported already.
    """
    facade = importlib.import_module(_FACADE)
    # Load all now, because two threads that import a module by different names could deadlock.
    for name in _MODULES.split():
        importlib.import_module(f"{_FACADE}.{name}")
    with _aliasing:
        if sys.modules.get("requests") is facade:
            return
        loaded = sorted(
            name
            for name, module in sys.modules.items()
            if module is not None and (name == "requests" or name.startswith("requests."))
        )
        if loaded:
            raise RuntimeError(
                f"alias_requests() comes too late: {loaded[0]!r} was imported already. Call it "
                "before the first import of requests, and of whatever imports requests itself."
            )
        add_alias("requests", lambda: _FACADE)
        sys.modules["requests"] = facade
        _alias_loaded(_FACADE, "requests")


_MODULES = (
    "__version__ _internal_utils _types adapters api auth certs compat cookies exceptions help "
    "hooks models packages sessions status_codes structures utils"
)
_aliasing = threading.Lock()
