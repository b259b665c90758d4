"""The default of arguments for which a client has a setting."""

from __future__ import annotations

from enum import Enum
from typing import Any, Final


class UseClientDefault(Enum):
    """The type of USE_CLIENT_DEFAULT, for type hints."""

    USE_CLIENT_DEFAULT = "the client's"

    def __repr__(self) -> str:
        return "<the client's>"


USE_CLIENT_DEFAULT: Final = UseClientDefault.USE_CLIENT_DEFAULT
"""Stands for the client's setting, as if the argument was not passed."""

# Any: in the constructors of clients, it is the default of arguments of any type.
UNSET: Any = USE_CLIENT_DEFAULT
