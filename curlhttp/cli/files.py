"""Bodies in files: their names, and how a download that was stopped goes on."""

from __future__ import annotations

import os
import re
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import click

from curlhttp._download.partial_file import PartialFile
from curlhttp._models.redaction import redact_field, redact_text, redact_url
from curlhttp._policy.resume import ResumeRecord
from curlhttp.cli.body import MeasuredBody
from curlhttp.cli.exits import WRITE_ERROR, CommandFailed
from curlhttp.cli.items import item_parts
from curlhttp.cli.terminal import console, printable
from curlhttp.cli.url import completed
from curlhttp.exceptions import RequestException

if TYPE_CHECKING:
    from curlhttp._building import RequestOptions
    from curlhttp._client import Client
    from curlhttp._models.response import Response

__all__ = ["TYPED", "download", "name_of_response", "name_of_url", "save"]

TYPED = "curlhttp.typed"  # in click's meta: the arguments as they were typed
_NAME = re.compile(r";\s*filename=(?:\"((?:[^\"\\]|\\.)*)\"|([^;\s]+))", re.IGNORECASE)
_EXTENDED_NAME = re.compile(r";\s*filename\*=utf-8'[^']*'([^;\s]+)", re.IGNORECASE)
_SECRETS = ("user", "cookies", "proxy", "data", "show_secrets")  # parameters of the command
_OURS = (".part", ".part.json")


def name_of_url(url: str) -> str:
    """Return the name of a file for a URL: the last part of its path.

    Raises:
        click.UsageError: it has none.
    """
    name = _plain_name(urlsplit(url).path)
    if name is None:
        raise click.UsageError("-O: the path of the URL ends without a name: use -o FILE")
    return name


def name_of_response(response: Response, path: Path) -> Path:
    """Return the name that Content-Disposition gives (RFC 6266), without any folder.

    Args:
        response: of the server, which is not to be trusted.
        path: the name without it.

    Raises:
        CommandFailed: there is such a file already, or one that is written to meanwhile: no server
            may choose what is replaced, nor with what another download goes on.
    """
    value = response.headers.get("content-disposition", "")
    extended, plain = _EXTENDED_NAME.search(value), _NAME.search(value)
    if extended:
        name = _plain_name(unquote(extended[1]))
    else:
        name = _plain_name(plain[1] or plain[2] or "") if plain else None
    if name is None:
        return path
    taken = [each for each in (name, *(name + end for end in _OURS)) if os.path.lexists(each)]
    if taken:
        raise CommandFailed(f"{taken[0]}: there is such a file: a server's name replaces none: "
                            "use -o FILE", WRITE_ERROR)  # fmt: skip
    if name.lower().endswith(_OURS):
        raise CommandFailed(f"{name}: the server's name is that of a download that was stopped: "
                            "use -o FILE", WRITE_ERROR)  # fmt: skip
    return Path(name)


def _plain_name(text: str) -> str | None:
    """Return the last part of a path if it may be the name of a file here."""
    name = printable(text.replace("\\", "/").rpartition("/")[2]).strip().lstrip(".")
    name = name.encode("utf-8", "replace").decode()[:200]
    return name or None


def save(reading: MeasuredBody, path: Path, *, shows_progress: bool) -> None:
    """Write the body to a file, which is there only when it is complete.

    It is written to `<path>.part`, which takes the place of the file at the end: a body that breaks
    off leaves the old file as it was, and what came can be completed with -C where the server says
    which version it is. What is no file, such as a pipe, is written to as it is.

    Args:
        reading: its body is read here.
        path: of the file.
        shows_progress: draw a bar on stderr.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            file.writelines(reading.watched(shows_progress))
        return
    response = reading.response
    record = None
    first = (response.history or [response])[0].request
    if first.method == "GET" and first.body is None and response.status_code == 200:
        record = ResumeRecord.of(first, response.request.url, response.headers, time.time())
    partial = PartialFile(path, resumes=True)
    try:
        partial.restart(record)
        for piece in reading.watched(shows_progress):
            partial.write(piece)
        partial.commit()
    except (KeyboardInterrupt, RequestException):
        partial.close()
        _tell_how_to_go_on(path, partial.size if partial.is_kept else 0)
        raise
    finally:
        partial.close()


def download(
    client: Client, url: str, path: Path, keywords: RequestOptions, *, shows_progress: bool
) -> None:
    """Download to a file, from where an earlier attempt has stopped."""
    from contextlib import nullcontext

    from curlhttp.progress import bar

    bars = bar(console=console(stderr=True)) if shows_progress else nullcontext()
    try:
        with bars as tell:
            client.download(url, path, progress=tell, **keywords)  # type: ignore[misc]
    except (KeyboardInterrupt, RequestException):
        part = Path(f"{os.path.realpath(path)}.part")
        is_kept = part.with_name(f"{part.name}.json").exists()
        _tell_how_to_go_on(path, part.stat().st_size if is_kept else 0)
        raise


def _tell_how_to_go_on(path: Path, size: int) -> None:
    """Say on stderr what is kept of a download that was stopped, and the command for the rest."""
    name = printable(str(path))
    if not size:
        reason = "the server does not say how to know its rest (a strong ETag)"
        click.echo(f"curlhttp: nothing of {name} is kept: {reason}", err=True)
        return
    click.echo(f"curlhttp: {size:,} bytes are kept in {name}.part; to go on: {_command(path)}",
               err=True)  # fmt: skip


def _command(path: Path) -> str:
    """Return the command that was typed with -C; where it may hold a secret, a description."""
    context = click.get_current_context(silent=True)
    typed: list[str] = [] if context is None else context.meta.get(TYPED, [])
    if context is None or not typed or not _may_be_shown(context.params):
        return f"the same command with -C -o {shlex.quote(str(path))}"
    again = [] if context.params["resumes"] else ["-C"]
    return shlex.join(["curlhttp", typed[0], *again, *typed[1:]])


def _may_be_shown(params: dict[str, Any]) -> bool:  # Any: of each parameter its own type
    """Return whether a command, however it was spelled, holds no secret and names its file."""
    if params["remote_header_name"] or any(map(params.get, _SECRETS)):
        return False
    url = completed(params["url"])
    parts = [item_parts(text) for text in params["items"]]
    headers = [*params["header"], *((name, value) for name, mark, value in parts if mark == ":")]
    query = [f"{name}={value}" for name, mark, value in parts if mark == "=="]
    return (
        redact_url(url) == url
        and all(redact_text(text) == text for text in query)
        and all(redact_field(name, value or "") == (value or "") for name, value in headers)
    )
