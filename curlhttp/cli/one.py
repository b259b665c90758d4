"""One request: it is sent, its response is shown, and its body goes where it was wanted."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from curlhttp._models.redaction import display_url
from curlhttp.cli.body import MeasuredBody, print_body
from curlhttp.cli.body_options import TakenBody
from curlhttp.cli.exits import WRITE_ERROR, CommandFailed
from curlhttp.cli.files import download, name_of_response, name_of_url, save
from curlhttp.cli.timing import Laps
from curlhttp.cli.url import completed
from curlhttp.cli.wire import print_head, print_request, say, tell_attempt, wire_shown
from curlhttp.cli.write_out import write_out
from curlhttp.exceptions import RequestException

if TYPE_CHECKING:
    from curlhttp._building import RequestOptions
    from curlhttp._client import Client
    from curlhttp._models.cookies.jar import Cookies
    from curlhttp._stream import StreamedResponse
    from curlhttp.cli.connection import ConnectionOptions
    from curlhttp.cli.output_options import OutputOptions
    from curlhttp.cli.session import KeptSession

__all__ = ["Asked", "send"]


class Asked(NamedTuple):
    """What is to be sent.

    Attributes:
        method: a token.
        url: as it was typed.
        params: of the query.
        body: if there is one.
    """

    method: str
    url: str
    params: tuple[tuple[str, str], ...]
    body: TakenBody

    @property
    def full_url(self) -> str:
        """Return the URL with a scheme, and with what -G puts into its query."""
        url = completed(self.url)
        if not self.body.query:
            return url
        before, hash_mark, fragment = url.partition("#")
        return f"{before}{'&' if '?' in before else '?'}{self.body.query}{hash_mark}{fragment}"

    def keywords(self, wanted: OutputOptions) -> RequestOptions:
        """Return those of build_request."""
        keywords: RequestOptions = {**self.body.keywords}
        if self.params:
            keywords["params"] = list(self.params)
        pairs = [pair.strip().partition("=") for text in wanted.cookies if "=" in text
                 for pair in text.split(";") if pair.strip()]  # fmt: skip
        if pairs:
            keywords["cookies"] = [(name, value) for name, _, value in pairs]
        return keywords


def send(asked: Asked, connection: ConnectionOptions, wanted: OutputOptions) -> None:
    """Send a request, and show what comes of it.

    Raises:
        click.UsageError: options that do not go together.
        CommandFailed: a file cannot be read or written.
        RequestException: no response came of it, or one that --fail does not let pass.
    """
    url = asked.full_url
    path = _path(url, wanted)
    if wanted.resumes and (
        asked.method != "GET" or path is None or asked.body.keywords or wanted.remote_header_name
    ):
        raise click.UsageError("-C continues a GET that -o or -O saves to a file")
    for file in (path, wanted.har, wanted.cookie_jar):
        if file is not None and not file.parent.is_dir():
            raise CommandFailed(f"{file}: there is no such folder", WRITE_ERROR)
    session = _session(wanted, url)
    if session is not None:
        connection = session.joined(connection)
    cookies = _cookies(wanted, session)
    laps = Laps()
    settings: dict[str, object] = {
        "cookies": cookies,
        "middleware": [] if session is None else [session.keeping(connection)],
        "attempt_middleware": [laps.around] * wanted.timing,
    }
    with ExitStack() as ends:
        if wanted.verbose:
            ends.enter_context(wire_shown(shows_secrets=wanted.show_secrets))
            settings["hooks"] = {"before_sleep": tell_attempt}
            if "://" not in asked.url:
                say(f"* no scheme was given: {display_url(url)}")
        client = ends.enter_context(connection.client(**settings))
        if wanted.cookie_jar is not None:
            ends.callback(_write_cookies, wanted.cookie_jar, client, session)
        if session is not None and wanted.session is not None:
            ends.callback(session.write, connection)
        if wanted.har is not None:
            ends.enter_context(client.har(wanted.har))
        if wanted.timing:
            ends.callback(laps.draw)
        for name, value in asked.body.headers:
            if name not in {given.title() for given, _ in connection.header}:
                client.headers[name] = value
        try:
            _send(client, asked, url, path, wanted, laps)
        except RequestException as error:
            if wanted.as_json:
                _print_error(error, asked.method, url)
            raise


def _send(
    client: Client,
    asked: Asked,
    url: str,
    path: Path | None,
    wanted: OutputOptions,
    laps: Laps,
) -> None:
    keywords = asked.keywords(wanted)
    if wanted.resumes and path is not None:
        download(client, url, path, keywords, shows_progress=wanted.shows_progress)
        return
    with client.stream(asked.method, url, **keywords) as response:
        if wanted.fail:
            response.raise_for_status()
        _show(response, wanted, path, wanted.shown(asked.method), laps)


def _show(
    response: StreamedResponse, wanted: OutputOptions, path: Path | None, parts: str, laps: Laps
) -> None:
    reading = MeasuredBody(response)
    if wanted.remote_header_name and path is not None:
        path = name_of_response(response, path)
    if not wanted.as_json:
        print_request(response, parts, shows_secrets=wanted.show_secrets)
        if "h" in parts:
            print_head(response)
    if path is not None:
        save(reading, path, shows_progress=wanted.shows_progress)
    elif wanted.as_json:
        reading.keep()
    elif "b" in parts:
        print_body(reading, raw=wanted.output == "-")
    else:
        reading.skip()
    laps.end(reading.ended)
    if wanted.verbose:
        say(f"* a body of {reading.size:,} bytes was read")
    if wanted.as_json:
        from curlhttp.cli.as_json import print_response

        print_response(reading, path)
    if "m" in parts and not wanted.as_json:
        sys.stdout.write(f"{response.http_version} {response.status_code}, "
                         f"{reading.size:,} bytes in {reading.total:.3f} s\n")  # fmt: skip
    if wanted.write_out is not None:
        write_out(wanted.write_out, response, reading.size, reading.total)


def _path(url: str, wanted: OutputOptions) -> Path | None:
    """Return the file to save to; None for stdout."""
    if wanted.remote_name:
        return Path(name_of_url(url))
    return None if wanted.output in (None, "-") else Path(str(wanted.output))


def _session(wanted: OutputOptions, url: str) -> KeptSession | None:
    name = wanted.session if wanted.session is not None else wanted.session_read_only
    if name is None:
        return None
    from curlhttp.cli.session import KeptSession

    return KeptSession(name, url)


def _cookies(wanted: OutputOptions, session: KeptSession | None) -> Cookies | None:
    """Return the cookies of files; None where there are none to read or to keep."""
    files = [Path(text) for text in wanted.cookies if "=" not in text]
    if not files and wanted.cookie_jar is None and session is None:
        return None
    from curlhttp._models.cookies.jar import Cookies
    from curlhttp.cli.cookie_file import read_cookies

    cookies = Cookies() if session is None else session.cookies
    for file in files:
        if file == wanted.cookie_jar and not file.exists():
            continue  # `-b jar -c jar`, for the first time
        given = read_cookies(file)
        if session is None:
            cookies.update(given)
        else:
            session.cookies.add(given)
    return cookies


def _write_cookies(path: Path, client: Client, session: KeptSession | None) -> None:
    from curlhttp.cli.cookie_file import write_cookies

    write_cookies(path, [*client.cookies, *(() if session is None else session.cookies.others)])


def _print_error(error: RequestException, method: str, url: str) -> None:
    from curlhttp.cli.as_json import print_error

    print_error(error, method, url)
