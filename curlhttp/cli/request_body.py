r"""The body of a request: curl's -d, --data-binary, -F and -G, --json-body, and httpie's items.

Items are name=value, name==query, Name:value and so on. A backslash before a separator makes it
part of the name: `a\:b=c`.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeAlias, TypeVar, cast
from urllib.parse import quote_plus

import click

from curlhttp._http.redaction import display_url
from curlhttp.cli.errors import reading
from curlhttp.cli.files import encode_text, open_file
from curlhttp.cli.options import add_options

if TYPE_CHECKING:
    from curlhttp._api.client import Client
    from curlhttp._client.options import RequestOptions
    from curlhttp._http.inputs import FileInput

ORDER = "curlhttp.cli.order"  # in a context's meta: the names of options, in the order given
ParsedOptions: TypeAlias = "dict[str, Any]"  # Any: the values that click parsed
_T = TypeVar("_T")

ITEMS_HELP = """\b
Each ITEM adds a part to the request, as in httpie:
  name=value     a string in a JSON object (=@FILE: read it from FILE)
  name:=JSON     any JSON value in the object (:=@FILE: read it from FILE)
  a[b]=value     a value in a nested object; a[]=value adds to an array
  name==value    a query parameter
  Name:value     a header; 'Name:' removes a default header
  name@FILE      a file to upload, in a multipart form instead of JSON
"""
_match_item = re.compile(r"((?:\\.|[^\\:=@])*)(:=@|=@|:=|==|=|:|@)(.*)", re.DOTALL).fullmatch
_is_url = re.compile(
    r"(?:https?:|localhost:|[\w-]+(?:\.[\w-]+)+:)(?://|\d+/)|localhost:\d+", re.IGNORECASE
).match
_PART = r"(?:\\[\[\]]|(?!\\[\[\]])[^\[\]])"  # a character of a name; brackets in it are escaped
_match_name = re.compile(rf"({_PART}+)((?:\[{_PART}*?\])*)", re.DOTALL).fullmatch
_find_steps = re.compile(rf"\[({_PART}*?)\]", re.DOTALL).findall
_ESCAPED = re.compile(r"\\([\\:=@])")

_WITH_BODY = ("POST", "PUT", "PATCH")  # what is piped to them is the body
_PATIENCE = 5.0  # seconds without anything on stdin
_FORM = "application/x-www-form-urlencoded"
_JSON = "application/json"
_BODY_OPTIONS = {
    "data": "-d",
    "data_binary": "--data-binary",
    "json_text": "--json-body",
    "form": "-F",
    "upload": "-T",
}

_OPTIONS = (
    click.option("-d", "--data", "--data-ascii", multiple=True, metavar="DATA",
                 help="Send form data. @FILE reads FILE without line breaks, @- reads stdin. "
                 "Repeated values are joined with '&'."),
    click.option("--data-binary", metavar="DATA",
                 help="Send DATA unchanged. @FILE streams FILE, @- streams stdin."),
    click.option("--json-body", "json_text", metavar="JSON",
                 help="Send JSON. It is an error if it is not valid. @FILE reads FILE, @- "
                 "reads stdin."),
    click.option("-F", "--form", multiple=True, metavar="NAME=VALUE",
                 help="Add a field to a multipart form. NAME=@FILE uploads FILE, NAME=<FILE sends "
                 "the text in FILE. ;type=, ;filename=, ;headers= and ;encoder= may follow, as in "
                 "curl. May be repeated."),
    click.option("--form-escape", is_flag=True,
                 help="With -F: write quotation marks in names as \\\" instead of %22."),
    click.option("--data-raw", multiple=True, metavar="DATA",
                 help="Like -d, but a leading @ has no special meaning."),
    click.option("--data-urlencode", "encoded", multiple=True, metavar="[NAME=]TEXT|NAME@FILE",
                 help="Like -d, but percent-encode TEXT."),
    click.option("--form-string", multiple=True, metavar="NAME=VALUE",
                 help="Like -F, but a leading @ or < has no special meaning."),
    click.option("-T", "--upload-file", "upload", metavar="FILE",
                 help="Stream FILE as the body, or stdin if FILE is -. The method is PUT unless "
                 "you choose another."),
    click.option("--url-query", "url_query", multiple=True, metavar="[NAME=]TEXT",
                 help="Percent-encode TEXT and add it to the query of the URL."),
    click.option("--ignore-stdin", "ignores_stdin", is_flag=True,
                 help="Do not send what is piped to a POST, PUT or PATCH."),
    click.option("-G", "--get", "in_query", is_flag=True,
                 help="With -d: send the data in the query of the URL instead of the body."),
)  # fmt: skip


def body_options(command: Callable[..., _T]) -> Callable[..., _T]:
    """Add the body options to a command. pop_content() reads their values."""
    return add_options(_OPTIONS)(command)


# --- items ---


class Items(NamedTuple):
    """The items of a request.

    Attributes:
        headers: headers, with None as the value to remove a default header, as for -H.
        params: query parameters.
        members: names and values of members of a JSON object, or of fields of a form.
        files: names and paths of files. If there are any, the body is a multipart form.
    """

    headers: tuple[tuple[str, str | None], ...]
    params: tuple[tuple[str, str], ...]
    members: tuple[tuple[str, object], ...]
    files: tuple[tuple[str, str], ...]


def parse_items(texts: Iterable[str]) -> Items:
    """Parse the arguments after a URL.

    Raises:
        click.UsageError: an argument is not an item.
        CommandFailed: a file cannot be read.
    """
    items = Items((), (), (), ())
    for text in texts:
        items = _add_item(items, text)
    return items


def split_item(text: str) -> tuple[str, str, str]:
    """Return the name, the separator and the value of an item.

    Raises:
        click.UsageError: the text is not an item.
    """
    match = _match_item(text)
    if match is None or "://" in text[: match.end(2) + 2] or not match[1]:
        hint = "; a command sends only one URL" if "://" in text else ""
        raise click.UsageError(f"{text!r} is not an ITEM such as name=value or Name:value{hint}")
    return _ESCAPED.sub(r"\1", match[1]), match[2], match[3]


def _add_item(items: Items, text: str) -> Items:
    if text.lstrip()[:1] in ("{", "["):
        raise click.UsageError(
            f"{text!r} is not an ITEM. Use --json-body to send JSON; --json prints the response as "
            "JSON"
        )
    name, separator, value = split_item(text)
    if separator in (":", "==", "@"):
        name = _unescape_brackets(name)
    if separator == ":":
        if _is_url(text):
            raise click.UsageError(
                f"{display_url(text)!r} looks like a second URL, but a command sends only one. "
                "Use `curlhttp fetch` to send many, or -H to send this header"
            )
        return items._replace(headers=(*items.headers, (name, value.strip() or None)))
    if separator == "==":
        return items._replace(params=(*items.params, (name, value)))
    if separator == "@":
        return items._replace(files=(*items.files, (name, value)))
    if separator.endswith("@"):
        value = _read_text(value)
    member = _parse_member(name, value) if separator.startswith(":") else value
    return items._replace(members=(*items.members, (name, member)))


def _parse_member(name: str, value: str) -> object:
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{name!r}: the value after := is not JSON: {error}") from None


def _read_text(path: str) -> str:
    with reading(path):
        return Path(path).read_text(encoding="utf-8")


# --- the body ---


class RequestContent(NamedTuple):
    """The content that the body options and items describe.

    Attributes:
        keywords: arguments of build_request(). Empty if there is no body.
        headers: default headers, which -H overrides.
        query: the text to append to the query of the URL.
        form_type: the Content-Type of a form, which is that of -H, if there is one, with the
            boundary.
    """

    keywords: RequestOptions
    headers: tuple[tuple[str, str], ...] = ()
    query: str = ""
    form_type: str | None = None

    def add_query(self, url: str) -> str:
        """Return a URL with the query."""
        if not self.query:
            return url
        before, hash_mark, fragment = url.partition("#")
        separator = "&" if "?" in before else "?"
        return f"{before}{separator}{self.query}{hash_mark}{fragment}"

    def set_headers(self, client: Client, given: Iterable[tuple[str, str | None]]) -> None:
        """Set the default headers of a client, without those that were given."""
        names = {name.lower() for name, _ in given}
        for name, value in self.headers:
            if name.lower() not in names:
                client.headers[name] = value
        if self.form_type is not None:
            client.headers["Content-Type"] = self.form_type


def pop_content(
    options: ParsedOptions,
    items: Items,
    files: ExitStack,
    given: Iterable[tuple[str, str | None]],
) -> RequestContent:
    """Remove the body options from the options of a command, and return the content they describe.

    Args:
        options: the options of a command.
        items: its items, which may also describe a body.
        files: closes the files that this function opens.
        given: the headers of -H, whose Content-Type is that of a form.

    Raises:
        CommandFailed: a file cannot be read.
        click.UsageError: there are two kinds of body, or JSON is invalid.
    """
    raw, encoded = options.pop("data_raw"), options.pop("encoded")
    strings = options.pop("form_string")
    escapes = options.pop("form_escape")
    query = [_encode_query(text) for text in options.pop("url_query")]
    values = {name: options.pop(name) for name in _BODY_OPTIONS}
    data = values["data"] = _in_order(
        data=map(_read_data, values["data"]), data_raw=raw, encoded=map(_encode_pair, encoded)
    )
    values["form"] = _in_order(
        form=((text, False) for text in values["form"]),
        form_string=((text, True) for text in strings),
    )
    types = [value for name, value in given if name.lower() == "content-type"]
    media_type = types[-1] if types else None
    chosen = [name for name, value in values.items() if value]
    kinds = [_BODY_OPTIONS[name] for name in chosen]
    kinds += ["name=value"] * bool(items.members or items.files)
    if len(kinds) > 1:
        raise click.UsageError(f"{' and '.join(kinds)} cannot be combined")
    if options.pop("in_query"):
        if chosen != ["data"]:
            raise click.UsageError("-G needs -d, because it sends the data of -d in the query")
        return RequestContent({}, query="&".join([*query, *data]))
    if kinds == ["-F"]:
        content = _create_form(values["form"], files, media_type, escapes)
    else:
        content = _make_body(values, chosen, items, files)
    return content._replace(query="&".join(query))


def _in_order(**values: Iterable[_T]) -> list[_T]:
    """Return the values of several options in the order in which they were given."""
    given: list[str] | None = click.get_current_context().meta.get(ORDER)
    if given is None:  # not the command of one request
        return [value for each in values.values() for value in each]
    left = {name: iter(each) for name, each in values.items()}
    return [next(left[name]) for name in given if name in left]


def _make_body(
    values: ParsedOptions, chosen: list[str], items: Items, files: ExitStack
) -> RequestContent:
    if not chosen:
        return _encode_items(items, files)
    value = values[chosen[0]]
    if chosen[0] == "data":
        return _create_content(encode_text("&".join(value)), _FORM)
    if chosen[0] == "upload":
        return RequestContent({"content": open_file(value, files)})
    if chosen[0] == "data_binary":
        return _create_content(
            open_file(value[1:], files) if value[0] == "@" else encode_text(value), _FORM
        )
    return _create_content(_read_json(value), _JSON, ("Accept", _JSON))


def _create_form(
    fields: list[tuple[str, bool]], files: ExitStack, media_type: str | None, escapes: bool
) -> RequestContent:
    from curlhttp.cli.form import make_form

    body = make_form(fields, files, media_type=media_type, escapes=escapes)
    return RequestContent({"content": cast(BinaryIO, body)}, form_type=body.content_type)


def _encode_items(items: Items, files: ExitStack) -> RequestContent:
    """Return the items as a JSON object, or as a multipart form if there are files."""
    if items.files:
        parts: list[tuple[str, FileInput]] = [
            (
                _unescape_brackets(name),
                (None, encode_text(value if isinstance(value, str) else json.dumps(value))),
            )
            for name, value in items.members
        ]
        parts += [(name, _make_file(path, files)) for name, path in items.files]
        return RequestContent({"files": parts})
    if not items.members:
        return RequestContent({})
    content = encode_text(json.dumps(_nest(items.members), ensure_ascii=False))
    return _create_content(content, _JSON, ("Accept", _JSON))


def _make_file(text: str, files: ExitStack) -> FileInput:
    """Return a file of an item: FILE or FILE;type=TYPE. As in httpie, its name implies the type."""
    from mimetypes import guess_type

    path, _, media_type = text.partition(";type=")
    return Path(path).name, open_file(path, files), media_type or guess_type(path)[0]


def _nest(members: tuple[tuple[str, object], ...]) -> dict[str, object]:
    """Return members with names such as a[b] or a[] as objects and arrays, as in httpie.

    Raises:
        click.UsageError: two names do not go together, or a name is malformed.
    """
    root: dict[str, object] = {}
    for name, value in members:
        first, *steps = _split_name(name)
        place: dict[str, object] | list[object] = root
        key: str | int = first
        for step in steps:
            inner = _get(place, key, name)
            if inner is None:
                inner = [] if step == "" or step.isdigit() else {}
                _put(place, key, inner, name)
            if isinstance(inner, list) and (step == "" or step.isdigit()):
                place, key = inner, len(inner) if step == "" else int(step)
            elif isinstance(inner, dict) and step:
                place, key = inner, step
            else:
                raise click.UsageError(f"{name!r} does not fit an earlier ITEM")
        _put(place, key, value, name)
    return root


def _split_name(name: str) -> list[str]:
    match = _match_name(name)
    steps = [] if match is None else _find_steps(match[2])
    if match is None or any(re.fullmatch(r"-\d+", step) for step in steps):
        raise click.UsageError(
            f"{name!r} is not a name such as a[b], a[0] or a[]; write \\[ and \\] for brackets "
            "that are part of a name"
        )
    return [_unescape_brackets(part) for part in (match[1], *steps)]


def _unescape_brackets(text: str) -> str:
    return re.sub(r"\\([\[\]])", r"\1", text)


def _get(place: dict[str, object] | list[object], key: str | int, name: str) -> object:
    if isinstance(place, dict):
        return place.get(str(key))
    assert isinstance(key, int)
    if key > len(place):
        raise click.UsageError(f"{name!r} leaves out an element of the array")
    return place[key] if key < len(place) else None


def _put(place: dict[str, object] | list[object], key: str | int, value: object, name: str) -> None:
    if isinstance(place, dict):
        place[str(key)] = value
        return
    assert isinstance(key, int)
    _get(place, key, name)
    place[key:] = [value, *place[key + 1 :]]


def _create_content(content: bytes | BinaryIO, kind: str, *more: tuple[str, str]) -> RequestContent:
    return RequestContent({"content": content}, (("Content-Type", kind), *more))


def _read_data(value: str) -> str:
    if not value.startswith("@"):
        return value
    return _read(value[1:]).decode("utf-8", "surrogateescape").translate({10: None, 13: None})


def _read_json(value: str) -> bytes:
    content = _read(value[1:]) if value.startswith("@") else encode_text(value)
    try:
        json.loads(content)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"--json-body: the value is not JSON: {error}") from None
    return content


def add_piped(content: RequestContent, method: str | None, ignores: bool) -> RequestContent:
    """Return the content with what is piped to stdin as the body, if the request has no other.

    Args:
        content: the content that options and items describe.
        method: the method that was chosen, if any. Only POST, PUT and PATCH take a piped body.
        ignores: --ignore-stdin was given.
    """
    if ignores or content.keywords or (method or "").upper() not in _WITH_BODY:
        return content
    return read_piped()._replace(query=content.query)


def read_piped() -> RequestContent:
    """Return what is piped to stdin, or comes from a file there, as the body; as in httpie."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError, AttributeError):  # closed, or replaced
        return RequestContent({})
    if not (stat.S_ISFIFO(mode) or stat.S_ISREG(mode)):
        return RequestContent({})
    if stat.S_ISFIFO(mode) and os.name == "posix":
        _say_if_waiting()
    content = sys.stdin.buffer.read()
    if not content:
        return RequestContent({})
    try:
        json.loads(content)
    except (ValueError, RecursionError):
        return RequestContent({"content": content})
    return _create_content(content, _JSON, ("Accept", _JSON))


def _say_if_waiting() -> None:
    """Say what to do if nothing arrives on stdin, which a program may have left open."""
    from select import select

    if not select([sys.stdin.fileno()], [], [], _PATIENCE)[0]:
        click.echo(
            "curlhttp: waiting for the body on stdin; to send none, add < /dev/null", err=True
        )


def _encode_pair(text: str) -> str:
    """Encode a value of --data-urlencode: "text", "=text", "name=text", "@file" or "name@file"."""
    name, mark, value = re.fullmatch(r"([^=@]*)([=@]?)(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
    if not mark:
        name, value = "", name
    content = _read(value) if mark == "@" else encode_text(value)
    return f"{name}={quote_plus(content)}" if name else quote_plus(content)


def _encode_query(text: str) -> str:
    """Encode a value of --url-query, which after a + is sent as it is."""
    return text[1:] if text.startswith("+") else _encode_pair(text)


def _read(path: str) -> bytes:
    with ExitStack() as files:
        return open_file(path, files).read()
