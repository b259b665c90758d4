"""Suggest in errors what to write instead of keywords and attributes of other libraries.

A call with the right arguments costs nothing more.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import cache, wraps
from typing import TYPE_CHECKING, NoReturn, TypeAlias, TypeVar

if TYPE_CHECKING:
    from configparser import ConfigParser

_Class = TypeVar("_Class", bound=type)
_NamePositional: TypeAlias = "Callable[[tuple[object, ...], dict[str, object]], dict[str, object]]"


class _NotHere:
    """Raise the AttributeError for one name of another library."""

    __slots__ = ("_name", "_section")

    def __init__(self, section: str, name: str) -> None:
        self._section = section
        self._name = name

    def __get__(self, instance: object, owner: type) -> NoReturn:
        subject = f"{owner.__name__!r} object"
        found = owner if instance is None else instance
        raise no_attribute(self._section, subject, found, self._name)


def without_attributes(section: str, names: str) -> Callable[[_Class], _Class]:
    """Return a class decorator: the AttributeErrors for some names suggest the right ones.

    Not by `__getattr__`, because Python reads all attributes of a class that has it more slowly.

    Args:
        section: of suggestions.ini.
        names: those in the section.
    """

    def decorate(cls: _Class) -> _Class:
        for name in names.split():
            type.__setattr__(cls, name, _NotHere(section, name))
        type.__setattr__(cls, "__dir__", _list_members)
        return cls

    return decorate


def _list_members(self: object) -> list[str]:
    """Return what dir() shows: not the names of `without_attributes`."""
    own = getattr(self, "__dict__", ())
    return [name for name in object.__dir__(self) if name in own or _has_member(type(self), name)]


def _has_member(cls: type, name: str) -> bool:
    """Return whether a class, maybe a subclass, has what `without_attributes` names."""
    found = next(vars(each)[name] for each in cls.__mro__ if name in vars(each))
    return type(found) is not _NotHere


def with_suggestions(
    context: str, name_positional: _NamePositional | None = None
) -> Callable[[_Class], _Class]:
    """Return a class decorator: the constructor's TypeErrors suggest the right keyword.

    Args:
        context: a section of suggestions.ini; without one, only close names are suggested.
        name_positional: returns keywords for positional arguments of a class that has only
            keywords; gets the given keywords, too.
    """

    def decorate(cls: _Class) -> _Class:
        make = vars(cls)["__init__"]

        @wraps(make)
        def suggesting(self: object, *args: object, **options: object) -> None:
            if args and name_positional is not None:
                args, options = (), name_positional(args, options)
            try:
                make(self, *args, **options)
            except TypeError as error:
                subject = f"{type(self).__name__}()"
                if (better := explain_call(context, subject, error, suggesting)) is error:
                    raise
                raise better from None

        type.__setattr__(cls, "__init__", suggesting)
        return cls

    return decorate


def explain_call(
    context: str, subject: str, error: TypeError, called: Callable[..., object]
) -> TypeError:
    """Return what to raise for a TypeError: a better one if the arguments did not fit, or itself.

    Args:
        context: a section of suggestions.ini.
        subject: what was called, such as "Client()".
        error: caught where it was called.
        called: the function.
    """
    if error.__traceback__ is None or error.__traceback__.tb_next is not None:
        return error  # raised inside the function: the arguments were right
    from inspect import signature

    parameters = [each for each in signature(called).parameters.values() if each.name != "self"]
    known = [each.name for each in parameters]
    text = str(error)
    if "unexpected keyword argument '" in text:
        return no_keyword(context, subject, text.split("'")[1], known)
    if "positional argument" in text and " given" in text:
        bare = [each.name for each in parameters if each.kind is not each.KEYWORD_ONLY]
        named = ", ".join(f"{name}=" for name in known[len(bare) : len(bare) + 3])
        if not bare:
            return TypeError(f"{subject} takes only keywords, such as {named}")
        rest = f"; the others need keywords, such as {named}" if named else ""
        if example := get_table(context).get("positional"):
            rest += f": {example}"
        return TypeError(f"{subject} takes only {', '.join(bare)} without a keyword{rest}")
    if " missing " in text:
        return TypeError(f"{subject} is{text[text.index(' missing ') :]}")
    return error


def no_name(module: str, name: str) -> AttributeError:
    """Return the error for a name that a module does not have.

    Args:
        module: its full name.
        name: the missing name.
    """
    owner, subject = sys.modules[module], f"module {module!r}"
    if name.startswith("_"):
        return AttributeError(f"{subject} has no attribute {name!r}", name=name, obj=owner)
    return no_attribute("module", subject, owner, name)


def no_keyword(context: str, subject: str, name: str, known: Iterable[str]) -> TypeError:
    """Return the error for an unknown keyword.

    Args:
        context: a section of suggestions.ini.
        subject: what was called, such as "Client()".
        name: the unknown keyword.
        known: the keywords that exist.
    """
    return TypeError(f"{subject} has no keyword {name!r}{_instead(context, name, known, '=')}")


def no_option(method: Callable[..., object], name: str, other: str = "") -> TypeError:
    """Return the error for an unknown option of a client's method, such as download().

    Args:
        method: what was called.
        name: the unknown option.
        other: what to call for a request with a body, if this method only sends GET.
    """
    from inspect import signature

    subject = f"{method.__name__}()"
    if other and name in _BODY_OPTIONS:
        return TypeError(f"{subject} takes no {name}: it sends GET without a body; {other}")
    context = method.__name__ if name in get_table(method.__name__) else "request"
    return no_keyword(context, subject, name, signature(method).parameters)


def no_attribute(context: str, subject: str, owner: object, name: str) -> AttributeError:
    """Return the error for a missing attribute.

    Args:
        context: a section of suggestions.ini.
        subject: how messages name the owner, such as "module 'curlhttp'".
        owner: the object without the attribute.
        name: the missing attribute.
    """
    text = f"{subject} has no attribute {name!r}"
    other = name[1:] if name.startswith("a") else f"a{name}"
    if "response" in context and other in _SYNC_AND_ASYNC and hasattr(type(owner), other):
        return AttributeError(f"{text}; write response.{other}()")
    if name in get_table(context):
        return AttributeError(text + _instead(context, name, (), ""))
    return AttributeError(text, name=name, obj=owner)  # Python itself suggests a close name


def no_change(kind: str, name: str) -> AttributeError:
    """Return the error for a setting of a client that is assigned to."""
    known = get_table("client").get(name, f"{name}=...")
    return AttributeError(f"{name} cannot be changed: create a client with {kind}({known})")


def _instead(context: str, name: str, known: Iterable[str], sign: str) -> str:
    instead = get_table(context).get(name)
    if instead is None:
        from difflib import get_close_matches  # loaded only for an error

        close = get_close_matches(name, list(known), 1, 0.75)
        return f"; did you mean {close[0]}{sign}?" if close else ""
    if instead == _NOT_NEEDED:
        return "; leave it out"
    found, colon, reason = instead.partition("nothing:")
    return f"; you need none here:{reason}" if colon and not found else f"; write {instead}"


# --- the table ---

_NOT_NEEDED = "nothing: leave it out"
_BODY_OPTIONS = frozenset({"data", "json", "content", "files", "body", "form", "method", "stream"})
_SYNC = ("iter_lines", "iter_text", "iter_bytes", "iter_raw", "read", "close")
_SYNC_AND_ASYNC = frozenset([*_SYNC, *(f"a{name}" for name in _SYNC)])


@cache
def _read() -> ConfigParser:
    from configparser import ConfigParser, ExtendedInterpolation  # loaded only for an error
    from importlib.resources import files

    parser = ConfigParser(delimiters=("=",), interpolation=ExtendedInterpolation())
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # names as they are
    parser.read_string(files("curlhttp._http").joinpath("suggestions.ini").read_text("utf-8"))
    return parser


@cache
def get_table(context: str) -> dict[str, str]:
    """Return what to write here for names of other libraries.

    Args:
        context: a section of suggestions.ini; there is nothing for others.
    """
    if context not in _read():
        return {}
    section = dict(_read()[context])
    found = dict(get_table(section.pop("include"))) if "include" in section else {}
    for names, instead in section.items():
        found.update({name: instead.replace("{name}", name) for name in names.split(", ")})
    return found
