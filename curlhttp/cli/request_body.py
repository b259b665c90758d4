r"""The body of a request: curl's -d, --data-binary, -F and -G, --json-body, and httpie's items.

Items are name=value, name==query, Name:value and so on. A backslash makes a separator part of the
name: `a\:b=c`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeVar

import click

from curlhttp.cli.errors import READ_ERROR, CommandFailed
from curlhttp.cli.options import add_options

if TYPE_CHECKING:
    from curlhttp._client.request_builder import RequestOptions
    from curlhttp._models.inputs import FileInput

__all__ = [
    "ITEMS_HELP",
    "RequestContent",
    "body_options",
    "parse_items",
    "pop_content",
    "split_item",
]

_T = TypeVar("_T")

ITEMS_HELP = """\b
ITEMs are parts of the request, as in httpie:
  name=value     a string in a JSON object (=@FILE: read from a file)
  name:=JSON     any JSON in the object (:=@FILE: read from a file)
  name==value    a query parameter
  Name:value     a header; 'Name:' omits a default header
  name@FILE      a file, which makes the body a multipart form
"""
_match_item = re.compile(r"((?:\\.|[^\\:=@])*)(:=@|=@|:=|==|=|:|@)(.*)", re.DOTALL).fullmatch
_ESCAPED = re.compile(r"\\([\\:=@])")

_FORM = "application/x-www-form-urlencoded"
_JSON = "application/json"
_NAMES = {"data": "-d", "data_binary": "--data-binary", "json_text": "--json-body", "form": "-F"}

_OPTIONS = (
    click.option("-d", "--data", multiple=True, metavar="DATA",
                 help="Send a form; @FILE or @- (stdin) is read without line ends. Repeated values "
                 "are joined by '&'."),
    click.option("--data-binary", metavar="DATA",
                 help="Send this unchanged; @FILE is streamed."),
    click.option("--json-body", "json_text", metavar="JSON",
                 help="Send this JSON, or that in @FILE or @-; it is validated, not changed."),
    click.option("-F", "--form", multiple=True, metavar="NAME=VALUE",
                 help="Send a multipart form; NAME=@FILE;type=TYPE adds a file."),
    click.option("-G", "--get", "in_query", is_flag=True,
                 help="With -d: send the data in the query of the URL, not in a body."),
)  # fmt: skip


def body_options(command: Callable[..., _T]) -> Callable[..., _T]:
    """Give a command the options that pop_content reads."""
    return add_options(command, _OPTIONS)


# --- items ---


class Items(NamedTuple):
    """The items of a request.

    Attributes:
        headers: like those of -H.
        params: query parameters.
        members: members of a JSON object, or fields of a form, by name.
        files: names and paths; if there are any, the body is a multipart form.
    """

    headers: tuple[tuple[str, str | None], ...]
    params: tuple[tuple[str, str], ...]
    members: dict[str, object]
    files: tuple[tuple[str, str], ...]


def parse_items(texts: Iterable[str]) -> Items:
    """Parse the arguments after a URL.

    Raises:
        click.UsageError: an argument is not an item.
        CommandFailed: a file cannot be read.
    """
    items = Items((), (), {}, ())
    for text in texts:
        items = _add_item(items, text)
    return items


def split_item(text: str) -> tuple[str, str, str]:
    """Return the name, the separator and the value of an item.

    Raises:
        click.UsageError: it is not an item.
    """
    match = _match_item(text)
    if match is None or "://" in text[: match.end(2) + 2] or not match[1]:
        hint = ": options go before it, and one URL at a time" if "://" in text else ""
        raise click.UsageError(f"{text!r} is not an ITEM such as name=value or Name:value{hint}")
    return _ESCAPED.sub(r"\1", match[1]), match[2], match[3]


def _add_item(items: Items, text: str) -> Items:
    if text.lstrip()[:1] in ("{", "["):
        raise click.UsageError(
            f"{text!r} is not an ITEM. Use --json-body to send JSON; --json shows the response as "
            "JSON"
        )
    name, separator, value = split_item(text)
    if separator == ":":
        return items._replace(headers=(*items.headers, (name, value.strip() or None)))
    if separator == "==":
        return items._replace(params=(*items.params, (name, value)))
    if separator == "@":
        return items._replace(files=(*items.files, (name, value)))
    if separator.endswith("@"):
        value = _read_text(value)
    member = _parse_member(text, value) if separator.startswith(":") else value
    return items._replace(members={**items.members, name: member})


def _parse_member(text: str, value: str) -> object:
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{text!r}: the text after := is not JSON: {error}") from None


def _read_text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise CommandFailed(f"{path}: {error.strerror}", READ_ERROR) from None
    except ValueError:
        raise CommandFailed(f"{path}: this is not UTF-8", READ_ERROR) from None


# --- the body ---


class RequestContent(NamedTuple):
    """What the body options and items mean.

    Attributes:
        keywords: arguments of build_request; empty if there is no body.
        headers: defaults, which -H overrides.
        query: is appended to the query of the URL.
    """

    keywords: RequestOptions
    headers: tuple[tuple[str, str], ...] = ()
    query: str = ""


# Any: the values that click parsed.
def pop_content(options: dict[str, Any], items: Items, files: ExitStack) -> RequestContent:
    """Return the body of a request, and remove the body options from a command's options.

    Args:
        options: the options of a command.
        items: they may define a body, too.
        files: closes the files that are opened.

    Raises:
        CommandFailed: a file cannot be read.
        click.UsageError: there are two kinds of body, or JSON is invalid.
    """
    values = {name: options.pop(name) for name in _NAMES}
    given = [name for name, value in values.items() if value]
    kinds = [_NAMES[name] for name in given]
    kinds += ["name=value"] * bool(items.members or items.files)
    if len(kinds) > 1:
        raise click.UsageError(f"{' and '.join(kinds)} exclude each other")
    if options.pop("in_query"):
        if given != ["data"]:
            raise click.UsageError("-G sends the data of -d in the query, but there is no -d")
        return RequestContent({}, query="&".join(map(_read_data, values["data"])))
    if not given:
        return _encode_items(items, files)
    value = values[given[0]]
    if given[0] == "data":
        return _typed(_encode("&".join(map(_read_data, value))), _FORM)
    if given[0] == "data_binary":
        return _typed(_open(value[1:], files) if value[0] == "@" else _encode(value), _FORM)
    if given[0] == "json_text":
        return _typed(_read_json(value), _JSON, ("Accept", _JSON))
    return _parse_form(value, files)


def _encode_items(items: Items, files: ExitStack) -> RequestContent:
    """Return a JSON object, or a multipart form if there are files."""
    if items.files:
        parts: list[tuple[str, FileInput]] = [
            (name, (None, _encode(value if isinstance(value, str) else json.dumps(value))))
            for name, value in items.members.items()
        ]
        parts += [(name, (Path(path).name, _open(path, files))) for name, path in items.files]
        return RequestContent({"files": parts})
    if not items.members:
        return RequestContent({})
    content = _encode(json.dumps(items.members, ensure_ascii=False))
    return _typed(content, _JSON, ("Accept", _JSON))


def _typed(content: bytes | BinaryIO, kind: str, *more: tuple[str, str]) -> RequestContent:
    return RequestContent({"content": content}, (("Content-Type", kind), *more))


def _encode(text: str) -> bytes:
    """Return the bytes of an argument, also if they are not text in the locale's encoding."""
    return text.encode("utf-8", "surrogateescape")


def _read_data(value: str) -> str:
    if not value.startswith("@"):
        return value
    return _read(value[1:]).decode("utf-8", "surrogateescape").translate({10: None, 13: None})


def _read_json(value: str) -> bytes:
    content = _read(value[1:]) if value.startswith("@") else _encode(value)
    try:
        json.loads(content)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"--json-body: this is not JSON: {error}") from None
    return content


def _parse_form(fields: tuple[str, ...], files: ExitStack) -> RequestContent:
    parts: list[tuple[str, FileInput]] = []
    for field in fields:
        name, equals, value = field.partition("=")
        if not equals or not name:
            raise click.UsageError("-F takes NAME=VALUE or NAME=@FILE")
        if not value.startswith("@"):
            parts.append((name, (None, _encode(value))))
            continue
        path, _, kind = value[1:].partition(";type=")
        parts.append((name, (Path(path).name, _open(path, files), kind or None)))
    return RequestContent({"files": parts})


def _read(path: str) -> bytes:
    with ExitStack() as files:
        return _open(path, files).read()


def _open(path: str, files: ExitStack) -> BinaryIO:
    if path == "-":
        return sys.stdin.buffer
    try:
        return files.enter_context(Path(path).open("rb"))
    except OSError as error:
        raise CommandFailed(f"{path}: {error.strerror}", READ_ERROR) from None
