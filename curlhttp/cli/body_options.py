"""What makes a request's body: curl's -d, --data-binary, -F and -G, --json-body, and items."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeVar

import click

from curlhttp.cli.exits import READ_ERROR, CommandFailed

if TYPE_CHECKING:
    from curlhttp._building import RequestOptions
    from curlhttp._models.inputs import FileInput
    from curlhttp.cli.items import Items

__all__ = ["TakenBody", "body_options", "take_body"]

_T = TypeVar("_T")

_FORM = "application/x-www-form-urlencoded"
_JSON = "application/json"
_NAMES = {"data": "-d", "data_binary": "--data-binary", "json_text": "--json-body", "form": "-F"}

_ITEMS = "name=value"

_OPTIONS = (
    click.option("-d", "--data", multiple=True, metavar="DATA",
                 help="Send this as a form; @FILE or @- (stdin) without its line ends. Several are "
                 "joined by '&'."),
    click.option("--data-binary", metavar="DATA",
                 help="Send this as it is; @FILE is read while it is sent."),
    click.option("--json-body", "json_text", metavar="JSON",
                 help="Send this JSON, or that of @FILE or @-; it is checked, not changed."),
    click.option("-F", "--form", multiple=True, metavar="NAME=VALUE",
                 help="Send a multipart form; NAME=@FILE;type=TYPE adds a file."),
    click.option("-G", "--get", "in_query", is_flag=True,
                 help="With -d: put it into the query of the URL in place of a body."),
)  # fmt: skip


def body_options(command: Callable[..., _T]) -> Callable[..., _T]:
    """Give a command the options that take_body reads."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


class TakenBody(NamedTuple):
    """A request's body.

    Attributes:
        keywords: those of build_request; none where there is no body.
        headers: defaults, since -H may say others.
        query: goes to the end of the URL's.
    """

    keywords: RequestOptions
    headers: tuple[tuple[str, str], ...] = ()
    query: str = ""


# Any: what click made of the options.
def take_body(options: dict[str, Any], items: Items, files: ExitStack) -> TakenBody:
    """Take the body out of a command's options.

    Args:
        options: of body_options and others; ours are removed.
        items: some of them may make a body, too.
        files: closes what is opened.

    Raises:
        CommandFailed: a file cannot be read.
        click.UsageError: two kinds of body, or no JSON.
    """
    taken = {name: options.pop(name) for name in _NAMES}
    given = [name for name, value in taken.items() if value]
    shown = [_NAMES[name] for name in given] + [_ITEMS] * bool(items.members or items.files)
    if len(shown) > 1:
        raise click.UsageError(f"{' and '.join(shown)} exclude each other")
    if options.pop("in_query"):
        if given != ["data"]:
            raise click.UsageError("-G puts what -d has into the query: there is no -d")
        return TakenBody({}, query="&".join(map(_inline, taken["data"])))
    if not given:
        return _of_items(items, files)
    value = taken[given[0]]
    if given[0] == "data":
        return _typed(_bytes("&".join(map(_inline, value))), _FORM)
    if given[0] == "data_binary":
        return _typed(_opened(value[1:], files) if value[0] == "@" else _bytes(value), _FORM)
    if given[0] == "json_text":
        return _typed(_checked_json(value), _JSON, ("Accept", _JSON))
    return _multipart(value, files)


def _of_items(items: Items, files: ExitStack) -> TakenBody:
    """Return the JSON object of items, or with a file a multipart form."""
    if items.files:
        parts: list[tuple[str, FileInput]] = [
            (name, (None, _bytes(value if isinstance(value, str) else json.dumps(value))))
            for name, value in items.members.items()
        ]
        parts += [(name, (Path(path).name, _opened(path, files))) for name, path in items.files]
        return TakenBody({"files": parts})
    if not items.members:
        return TakenBody({})
    content = _bytes(json.dumps(items.members, ensure_ascii=False))
    return _typed(content, _JSON, ("Accept", _JSON))


def _typed(content: bytes | BinaryIO, kind: str, *more: tuple[str, str]) -> TakenBody:
    return TakenBody({"content": content}, (("Content-Type", kind), *more))


def _bytes(text: str) -> bytes:
    """Return what was typed as its bytes, also where they are not text in the locale's encoding."""
    return text.encode("utf-8", "surrogateescape")


def _inline(value: str) -> str:
    if not value.startswith("@"):
        return value
    return _read(value[1:]).decode("utf-8", "surrogateescape").translate({10: None, 13: None})


def _checked_json(value: str) -> bytes:
    content = _read(value[1:]) if value.startswith("@") else _bytes(value)
    try:
        json.loads(content)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"--json-body: this is not JSON: {error}") from None
    return content


def _multipart(parts: tuple[str, ...], files: ExitStack) -> TakenBody:
    found: list[tuple[str, FileInput]] = []
    for part in parts:
        name, equals, value = part.partition("=")
        if not equals or not name:
            raise click.UsageError("-F takes NAME=VALUE or NAME=@FILE")
        if not value.startswith("@"):
            found.append((name, (None, _bytes(value))))
            continue
        path, _, kind = value[1:].partition(";type=")
        found.append((name, (Path(path).name, _opened(path, files), kind or None)))
    return TakenBody({"files": found})


def _read(path: str) -> bytes:
    with ExitStack() as files:
        return _opened(path, files).read()


def _opened(path: str, files: ExitStack) -> BinaryIO:
    if path == "-":
        return sys.stdin.buffer
    try:
        return files.enter_context(Path(path).open("rb"))
    except OSError as error:
        raise CommandFailed(f"{path}: {error.strerror}", READ_ERROR) from None
