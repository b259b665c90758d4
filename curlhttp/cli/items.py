r"""Parts of a request as arguments, as httpie has them: name=value, name==query, Name:value.

A separator that belongs to the name is written with a backslash: `a\:b=c`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import click

from curlhttp.cli.exits import READ_ERROR, CommandFailed

__all__ = ["HELP", "Items", "item_parts", "read_items"]

HELP = """\b
ITEMs are parts of the request, as httpie has them:
  name=value     a member of a JSON object, a string (=@FILE: read from there)
  name:=JSON     a member that is any JSON (:=@FILE likewise)
  name==value    a parameter of the query
  Name:value     a header; 'Name:' leaves one of ours out
  name@FILE      a file; makes all of it a multipart form
"""
_ITEM = re.compile(r"((?:\\.|[^\\:=@])*)(:=@|=@|:=|==|=|:|@)(.*)", re.DOTALL).fullmatch
_ESCAPED = re.compile(r"\\([\\:=@])")


class Items(NamedTuple):
    """What the items of a request say.

    Attributes:
        headers: as those of -H.
        params: of the query.
        members: of a JSON object, or fields of a form, by name.
        files: paths by name; with any, the body is a multipart form.
    """

    headers: tuple[tuple[str, str | None], ...]
    params: tuple[tuple[str, str], ...]
    members: dict[str, object]
    files: tuple[tuple[str, str], ...]


def read_items(texts: Iterable[str]) -> Items:
    """Read the arguments behind a URL.

    Raises:
        click.UsageError: one of them is no item.
        CommandFailed: a file cannot be read.
    """
    items = Items((), (), {}, ())
    for text in texts:
        items = _with(items, text)
    return items


def item_parts(text: str) -> tuple[str, str, str]:
    """Return the name, the separator and the value of an item.

    Raises:
        click.UsageError: it is none.
    """
    found = _ITEM(text)
    if found is None or "://" in text[: found.end(2) + 2] or not found[1]:
        hint = ": options go before it, and one URL at a time" if "://" in text else ""
        raise click.UsageError(f"{text!r} is no ITEM, such as name=value or Name:value{hint}")
    return _ESCAPED.sub(r"\1", found[1]), found[2], found[3]


def _with(items: Items, text: str) -> Items:
    if text.lstrip()[:1] in ("{", "["):
        raise click.UsageError(
            f"{text!r} is no ITEM. A body of JSON is sent by --json-body; --json shows what comes "
            "back as JSON"
        )
    name, mark, value = item_parts(text)
    if mark == ":":
        return items._replace(headers=(*items.headers, (name, value.strip() or None)))
    if mark == "==":
        return items._replace(params=(*items.params, (name, value)))
    if mark == "@":
        return items._replace(files=(*items.files, (name, value)))
    if mark.endswith("@"):
        value = _text(value)
    member = _json(text, value) if mark.startswith(":") else value
    return items._replace(members={**items.members, name: member})


def _json(text: str, value: str) -> object:
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{text!r}: what is behind := is not JSON: {error}") from None


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise CommandFailed(f"{path}: {error.strerror}", READ_ERROR) from None
    except ValueError:
        raise CommandFailed(f"{path}: this is not UTF-8", READ_ERROR) from None
