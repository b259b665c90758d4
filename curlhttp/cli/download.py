"""Save bodies to files: choose their names, and resume interrupted downloads."""

from __future__ import annotations

import os
import re
import shlex
import time
from contextlib import nullcontext, suppress
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import click

from curlhttp._features.download.file_names import (
    PARTIAL_SUFFIXES,
    avoid_partial_suffix,
    sanitize_name,
    split_suffix,
)
from curlhttp._features.download.partial_file import PartialFile, count_kept
from curlhttp._features.download.resume import ResumeRecord
from curlhttp._features.typed_urls import add_scheme
from curlhttp._http.redaction import redact_field, redact_text, redact_url
from curlhttp.cli.errors import WRITE_ERROR, CommandFailed
from curlhttp.cli.files import writing
from curlhttp.cli.options import ARGUMENTS
from curlhttp.cli.output import MeasuredBody
from curlhttp.cli.request_body import split_item
from curlhttp.cli.terminal import console, printable
from curlhttp.exceptions import RequestException

if TYPE_CHECKING:
    from curlhttp._api.client import Client
    from curlhttp._client.options import RequestOptions
    from curlhttp._http.response import Response
    from curlhttp._http.url import URL

_NAME = re.compile(r";\s*filename=(?:\"((?:[^\"\\]|\\.)*)\"|([^;\s]+))", re.IGNORECASE)
_EXTENDED_NAME = re.compile(r";\s*filename\*=(utf-8|iso-8859-1)'[^']*'([^;\s]+)", re.IGNORECASE)
_SECRETS = (  # parameters of the command
    *(
        "user",
        "proxy_user",
        "oauth2_bearer",
        "key_password",
        "proxy_key_password",
        "cookies",
        "proxy",
        "socks5",
        "socks5_hostname",
        "show_secrets",
    ),
    *("data", "data_raw", "encoded", "url_query", "url_option"),
)


def get_name(url: str) -> str:
    """Return the file name for -O: the last segment of the URL's path.

    Raises:
        click.UsageError: the path ends with a slash.
    """
    name = sanitize_name(urlsplit(url).path)
    if name is None:
        raise click.UsageError("-O: the path of the URL has no file name; use -o FILE")
    return name


def get_server_name(response: Response, path: Path) -> Path:
    """Return the file name for -OJ: the one in Content-Disposition (RFC 6266), without folders.

    Args:
        response: the response. Its headers are not trusted.
        path: the name to use if there is no such header.

    Raises:
        CommandFailed: a file with this name exists, or belongs to a download. A server must not
            choose which file is replaced, or which download is resumed.
    """
    name = _parse_server_name(response)
    if name is None:
        return path
    existing = _find_existing(name)
    if existing:
        raise CommandFailed(f"{existing[0]}: the file exists, and a name from the server never "
                            "replaces a file; use -o FILE", WRITE_ERROR)  # fmt: skip
    if name.lower().endswith(PARTIAL_SUFFIXES):
        raise CommandFailed(f"{name}: this name from the server is reserved for interrupted "
                            "downloads; use -o FILE", WRITE_ERROR)  # fmt: skip
    return Path(name)


def choose_name(response: Response, url: str) -> Path:
    """Return the file name for --download, which no file has yet.

    It is the name in Content-Disposition, or else the last segment of the URL's path, or "index"
    with a suffix for the media type. If there is such a file, a number is added: "name-1.txt".

    Args:
        response: the response. Its headers are not trusted.
        url: the URL that was requested.
    """
    name = _parse_server_name(response) or sanitize_name(urlsplit(url).path)
    if name is None:
        from mimetypes import guess_extension

        kind = response.headers.get("content-type", "").partition(";")[0].strip()
        name = f"index{guess_extension(kind) or ''}"
    name = avoid_partial_suffix(name)
    stem, suffix = split_suffix(name)
    names = chain([name], (f"{stem}-{number}{suffix}" for number in count(1)))
    return Path(next(each for each in names if not _find_existing(each)))


def _find_existing(name: str) -> list[str]:
    """Return the files that exist of a download to this name."""
    return [file for end in ("", *PARTIAL_SUFFIXES) if os.path.lexists(file := name + end)]


def _parse_server_name(response: Response) -> str | None:
    """Return the file name in Content-Disposition, made safe, or None."""
    value = response.headers.get("content-disposition", "")
    extended, plain = _EXTENDED_NAME.search(value), _NAME.search(value)
    if extended:
        return sanitize_name(unquote(extended[2], encoding=extended[1]))
    if plain is None:
        return None
    name = plain[1] or plain[2] or ""
    with suppress(UnicodeDecodeError):
        name = name.encode("latin-1").decode()  # as most servers send it
    return sanitize_name(name)


def save(body: MeasuredBody, path: Path, *, shows_progress: bool) -> None:
    """Read a body and write it to a file, which is replaced only when the body is complete.

    The body is written to `<path>.part`, which is renamed at the end. If the download is
    interrupted, the old file remains, and -C can resume the download if the server identified the
    version of the file. If the path is not a regular file, such as a pipe, the body is written to
    it directly.

    Args:
        body: the body of the response.
        path: the path of the file.
        shows_progress: draw a progress bar on stderr.
    """
    if path.exists() and not path.is_file():
        with writing(path), path.open("wb") as file:
            file.writelines(body.chunks_with_progress(shows_progress))
        return
    response = body.response
    record = None
    first = (response.history or [response])[0].request
    if first.method == "GET" and first.body is None and response.status_code == 200:
        record = ResumeRecord.of(first, response.request.url, response.headers, time.time())
    with writing(path):
        partial = PartialFile(path, resumes=True)
        try:
            partial.restart(record)
            for chunk in body.chunks_with_progress(shows_progress):
                partial.write([chunk])
            partial.commit()
        except (KeyboardInterrupt, RequestException):
            partial.close()
            _print_how_to_resume(path, partial.size if partial.is_kept else 0)
            raise
        finally:
            partial.close()


def resume(
    client: Client,
    url: str | URL,
    path: Path,
    keywords: RequestOptions,
    *,
    segments: int,
    shows_progress: bool,
) -> None:
    """Download to a file, and resume an interrupted download if there is one."""
    from curlhttp.progress import bar

    bars = bar(console=console(stderr=True)) if shows_progress else nullcontext()
    try:
        with bars as update, writing(path):
            client.download(
                url,
                path,
                progress=update,
                segments=segments,
                **keywords,  # type: ignore[misc]
            )
    except (KeyboardInterrupt, RequestException):
        _print_how_to_resume(path, count_kept(path))
        raise


def _print_how_to_resume(path: Path, size: int) -> None:
    """Print how much of an interrupted download was kept, and the command that resumes it."""
    name = printable(str(path))
    if not size:
        reason = "the server sent no strong ETag, so the download cannot be resumed"
        click.echo(f"curlhttp: nothing of {name} was kept: {reason}", err=True)
        return
    click.echo(f"curlhttp: kept {size:,} bytes in {name}.part; to resume: {_get_command(path)}",
               err=True)  # fmt: skip


def _get_command(path: Path) -> str:
    """Return the command line with -C, or a description of it if it may contain a secret."""
    context = click.get_current_context(silent=True)
    arguments: list[str] = [] if context is None else context.meta.get(ARGUMENTS, [])
    if context is None or not arguments or not _is_public(context.params):
        return f"the same command with -C -o {shlex.quote(str(path))}"
    option = [] if context.params["resumes"] or context.params["segments"] > 1 else ["-C"]
    return shlex.join(["curlhttp", arguments[0], *option, *arguments[1:]])


def _is_public(params: dict[str, Any]) -> bool:  # Any: each parameter has its own type
    """Return whether a command line contains no secret, and names its file."""
    if params["remote_header_name"] or any(map(params.get, _SECRETS)):
        return False
    if params["cert"] is not None and params["cert"][1] is not None:
        return False
    url = add_scheme(params["url"] or "")
    items = [split_item(text) for text in params["items"]]
    headers = [*params["header"], *((name, value) for name, mark, value in items if mark == ":")]
    query = [f"{name}={value}" for name, mark, value in items if mark == "=="]
    return (
        redact_url(url) == url
        and all(redact_text(text) == text for text in query)
        and all(redact_field(name, value or "") == (value or "") for name, value in headers)
    )
