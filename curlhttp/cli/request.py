"""The commands that send one request: get, head, options, post, put, patch, delete, request."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import click

from curlhttp._features.typed_urls import add_scheme
from curlhttp._http.redaction import display_url
from curlhttp.cli.errors import WRITE_ERROR, CommandFailed
from curlhttp.cli.files import replace_file
from curlhttp.cli.options import ConnectionOptions, add_options, connection_options, integer
from curlhttp.cli.output import (
    MeasuredBody,
    TimingChart,
    print_body,
    print_error_json,
    print_head,
    print_info,
    print_request,
    print_response_json,
    print_retry,
    print_unsent,
    show_wire,
    validate_format,
    write_out,
)
from curlhttp.cli.request_body import (
    ITEMS_HELP,
    ORDER,
    RequestContent,
    add_piped,
    body_options,
    parse_items,
    pop_content,
)
from curlhttp.exceptions import RequestException

if TYPE_CHECKING:
    from curlhttp._api.client import Client
    from curlhttp._client.options import RequestOptions
    from curlhttp._client.stream import StreamedResponse
    from curlhttp._http.cookies.jar import Cookies
    from curlhttp._http.request import ClientRequest
    from curlhttp._http.response import Response
    from curlhttp._runtime.engine import Send
    from curlhttp.cli.sessions import SavedSession

_PARTS = "HhBbm"
_ESCAPED_BRACKET = re.compile(r"\\([][{}])")  # browsers escape them, because curl has ranges
_SLASHES = re.compile(r"^(https?):(?:/|///)(?=[^/])", re.IGNORECASE)  # curl takes 1 to 3
_FILE = click.Path(dir_okay=False, path_type=Path)


# --- what to print, and where to save the body ---


def _validate_parts(value: str) -> str:
    if not set(value) <= set(_PARTS):
        raise click.BadParameter(f"{value!r} has letters other than {_PARTS}")
    return value


_OUTPUT_OPTIONS = (
    click.option("-o", "--output", metavar="FILE",
                 help="Save the body to FILE. '-' is stdout, also for binary data on a terminal."),
    click.option("-O", "--remote-name", is_flag=True,
                 help="Save the body to a file named after the last part of the URL's path."),
    click.option("-J", "--remote-header-name", is_flag=True,
                 help="With -O: use the file name that the server suggests, if any."),
    click.option("--download", is_flag=True,
                 help="Save the body to a new file, with the name that the server or the URL gives "
                 "it. If the status is 400 or above, save nothing and exit with status 22."),
    click.option("-C", "--continue", "--continue-at", "resumes", is_flag=True,
                 help="With -o or -O: resume an interrupted download. GET only."),
    click.option("--segments", "--split", type=integer(1, 64), default=1, metavar="N",
                 help="With -o or -O: receive up to N ranges of the file at once, if the server "
                 "allows it, and resume as -C does. GET only."),
    click.option("-i", "--include", is_flag=True, help="Also print the response headers."),
    click.option("--print", "parts", type=_validate_parts, metavar="HhBbm",
                 help="What to print: request headers (H) and body (B), response headers (h) and "
                 "body (b), size and time (m)."),
    click.option("--json", "as_json", is_flag=True,
                 help="Print the response as one line of JSON: status, headers, body, timings."),
    click.option("-w", "--write-out", type=validate_format, metavar="FORMAT",
                 help=r"Print FORMAT at the end, such as '%{http_code} %{time_total}\n'."),
    click.option("-f", "--fail", is_flag=True,
                 help="If the status is 400 or above, print no body and exit with status 22."),
    click.option("--fail-with-body", is_flag=True,
                 help="If the status is 400 or above, exit with status 22 after the body."),
    click.option("-D", "--dump-header", type=click.Path(dir_okay=False, path_type=str),
                 metavar="FILE", help="Write the response headers to FILE. '-' is stdout."),
    click.option("--create-dirs", is_flag=True,
                 help="With -o: create the folder of FILE if it does not exist."),
    click.option("-e", "--referer", metavar="URL", help="Set the Referer header."),
    click.option("-r", "--range", "byte_range", metavar="RANGE",
                 help="Request only these bytes, such as 0-499."),
    click.option("-I", "--head", "wants_head", is_flag=True,
                 help="Send HEAD, and print the response headers."),
    click.option("-v", "--verbose", is_flag=True,
                 help="Print to stderr what is sent and received, for all attempts and redirects."),
    click.option("--show-secrets", is_flag=True,
                 help="With -v, --print H or --offline: do not mask credentials. --print h and "
                 "--json never mask them."),
    click.option("--timing", is_flag=True,
                 help="Print to stderr how long each phase took, for all attempts and redirects."),
    click.option("--timing-html", type=_FILE, metavar="FILE",
                 help="Write an HTML page with the phases of all attempts and redirects."),
    click.option("--offline", is_flag=True,
                 help="Print the request instead of sending it."),
    click.option("--har", type=_FILE, metavar="FILE",
                 help="Write all requests and responses to a HAR file. Credentials are masked."),
    click.option("-b", "--cookie", "cookies", multiple=True, metavar="COOKIES|FILE",
                 help="Send cookies: 'a=1; b=2', or those in FILE, as written by -c. May be "
                 "repeated."),
    click.option("-c", "--cookie-jar", type=_FILE, metavar="FILE",
                 help="Write all cookies to FILE at the end, in Netscape's format."),
    click.option("--session", metavar="NAME|FILE",
                 help="Save headers, credentials and cookies, and send them again next time."),
    click.option("--session-read-only", metavar="NAME|FILE",
                 help="Use a saved session without changing it."),
    click.option("-s", "--silent", "--no-progress-meter", is_flag=True,
                 help="Show no progress bar."),
    click.option("-S", "--show-error", is_flag=True, hidden=True, expose_value=False),
    # What these ask for is the default.
    click.option("--compressed", is_flag=True, hidden=True, expose_value=False),
    click.option("-N", "--no-buffer", is_flag=True, hidden=True, expose_value=False),
    click.option("-n", "--netrc", is_flag=True, hidden=True, expose_value=False),
    click.option("-#", "--progress-bar", is_flag=True, hidden=True, expose_value=False),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """The values of the output options. Their help texts describe them."""

    output: str | None
    remote_name: bool
    remote_header_name: bool
    download: bool
    offline: bool
    resumes: bool
    segments: int
    include: bool
    parts: str | None
    as_json: bool
    write_out: str | None
    fail: bool
    fail_with_body: bool
    dump_header: str | None
    create_dirs: bool
    referer: str | None
    byte_range: str | None
    wants_head: bool
    verbose: bool
    show_secrets: bool
    timing: bool
    timing_html: Path | None
    har: Path | None
    cookies: tuple[str, ...]
    cookie_jar: Path | None
    session: str | None
    session_read_only: str | None
    silent: bool

    def validate(self) -> None:
        """Check that the options can be combined.

        Raises:
            click.UsageError: they cannot.
        """
        if self.remote_header_name and not self.remote_name:
            raise click.UsageError("-J needs -O")
        if self.remote_name and self.output is not None:
            raise click.UsageError("-o and -O cannot be combined")
        if self.download and self.remote_name:
            raise click.UsageError("--download and -O cannot be combined")
        if self.offline and self.as_json:
            raise click.UsageError("--offline and --json cannot be combined")
        if self.session is not None and self.session_read_only is not None:
            raise click.UsageError("--session and --session-read-only cannot be combined")
        if self.as_json and (self.include or self.parts is not None or self.output == "-"):
            raise click.UsageError(
                "--json prints everything: it cannot be combined with -i, --print or -o -"
            )

    def without_files(self) -> OutputOptions:
        """Return these options without those that write files."""
        return replace(
            self,
            session=None,
            session_read_only=self.session or self.session_read_only,
            cookie_jar=None,
            har=None,
            timing=False,
            timing_html=None,
            create_dirs=False,
        )

    @property
    def headers(self) -> list[tuple[str, str]]:
        """Return the headers of -e and -r."""
        found = [("Referer", self.referer)] if self.referer else []
        if self.byte_range is not None:
            # curl adds the dash, too: a position alone means all from there on.
            is_start = self.byte_range[:1].isdigit() and "-" not in self.byte_range
            found.append(("Range", f"bytes={self.byte_range}{'-' if is_start else ''}"))
        return found

    @property
    def shows_progress(self) -> bool:
        """Return whether to draw a progress bar."""
        return not self.silent and sys.stderr.isatty()

    def get_parts(self, method: str) -> str:
        """Return the letters of --print. The default is "b", with -i "hb", and for HEAD "h"."""
        if self.parts is not None:
            return self.parts
        if method == "HEAD":
            return "h"
        return "hb" if self.include else "b"

    @property
    def is_resumable(self) -> bool:
        """Return whether download() saves the body, which resumes an interrupted download."""
        return self.resumes or self.segments > 1

    def get_path(self, url: str) -> Path | None:
        """Return the file to save the body to, or None for stdout."""
        if self.remote_name:
            from curlhttp.cli.download import get_name

            return Path(get_name(url))
        return None if self.output in (None, "-") else Path(str(self.output))


# --- one request ---


# They frame the body of one request, so a client does not take them for all requests.
_FRAMING = frozenset({"content-length", "transfer-encoding"})


class _RedirectRule(NamedTuple):
    """Choose the method after a redirect; without it, the clients' rule counts.

    Attributes:
        keeps_post: statuses that keep a POST: --post301 and so on.
        is_curl: whether to choose like curl, which keeps other methods than POST after a 302.
        uploads_file: -T: the file is sent whatever the method is called.
    """

    keeps_post: frozenset[int]
    is_curl: bool
    uploads_file: bool

    def __call__(self, method: str, status: int) -> str:
        if status in (307, 308) or (method == "POST" and status in self.keeps_post):
            return method
        if not self.is_curl:
            from curlhttp._features.redirects import get_redirect_method

            return get_redirect_method(method, status)
        if method == "HEAD" or (status != 303 and (self.uploads_file or method != "POST")):
            return method
        return "GET"

    def apply_to(self, request: ClientRequest) -> None:
        """Set the rule for a request: the hook on requests."""
        from curlhttp._http.request import REDIRECT_METHOD

        request._extend(REDIRECT_METHOD, self)


class _RequestSpec(NamedTuple):
    method: str
    url: str  # as it was typed
    params: tuple[tuple[str, str], ...]
    content: RequestContent
    framing: tuple[tuple[str, str | None], ...] = ()
    redirects: _RedirectRule | None = None

    @property
    def full_url(self) -> str:
        """Return the URL with a scheme, and with the data of -G added to its query."""
        return self.content.add_query(add_scheme(self.url))

    def keywords(self, output: OutputOptions) -> RequestOptions:
        """Return the arguments of build_request."""
        keywords: RequestOptions = {**self.content.keywords}
        if self.params:
            keywords["params"] = list(self.params)
        if self.framing:
            keywords["headers"] = list(self.framing)
        pairs = [pair.strip().partition("=") for text in output.cookies if "=" in text
                 for pair in text.split(";") if pair.strip()]  # fmt: skip
        if pairs:
            keywords["cookies"] = [(name, value) for name, _, value in pairs]
        return keywords


class _NotSent(Exception):
    """Ends a request right before it would be sent."""

    def __init__(self, request: ClientRequest) -> None:
        super().__init__()
        self.request = request


async def _refuse_to_send(request: ClientRequest, _: Send) -> Response:
    """End the request here. This is an attempt middleware, so the request is complete."""
    raise _NotSent(request)


def _send(spec: _RequestSpec, connection: ConnectionOptions, output: OutputOptions) -> None:
    """Send a request, and print the response.

    Raises:
        click.UsageError: the options cannot be combined.
        CommandFailed: a file cannot be read or written.
        RequestException: no response was received, or its status is an error with --fail.
    """
    url = spec.full_url
    if output.offline:
        output = output.without_files()
    path = output.get_path(url)
    if output.is_resumable and (
        spec.method != "GET" or path is None or spec.content.keywords or output.remote_header_name
    ):
        option = "-C" if output.resumes else "--segments"
        raise click.UsageError(f"{option} needs -o FILE or -O, a GET request, no body and no -J")
    if output.create_dirs and path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
    for file in (path, output.har, output.timing_html, output.cookie_jar):
        if file is not None and not file.parent.is_dir():
            raise CommandFailed(f"{file}: the folder does not exist", WRITE_ERROR)
    session = _open_session(output, url)
    if session is not None:
        connection = session.apply_to(connection)
    chart = TimingChart()
    settings: dict[str, object] = {
        "cookies": _load_cookies(output, session),
        "middleware": [] if session is None else [session.middleware(connection)],
        "attempt_middleware": [chart.record] * (output.timing or output.timing_html is not None),
    }
    hooks: dict[str, object] = {}
    if spec.redirects is not None:
        hooks["request"] = spec.redirects.apply_to
    if output.offline:
        settings["attempt_middleware"] = [_refuse_to_send]
    with ExitStack() as stack:
        if output.verbose:
            stack.enter_context(show_wire(shows_secrets=output.show_secrets))
            hooks["before_sleep"] = print_retry
            if "://" not in spec.url:
                print_info(f"* no scheme was given: {display_url(url)}")
        client = stack.enter_context(connection.client(**settings, hooks=hooks))
        if output.cookie_jar is not None:
            stack.callback(_save_cookies, output.cookie_jar, client, session)
        if session is not None and output.session is not None:
            stack.callback(session.save, connection)
        if output.har is not None:
            stack.enter_context(client.har(output.har))
        if output.timing:
            stack.callback(chart.draw)
        if output.timing_html is not None:
            stack.callback(chart.write_page, output.timing_html)
        spec.content.set_headers(client, connection.header)
        keywords = spec.keywords(output)
        try:
            if output.is_resumable and path is not None:
                from curlhttp.cli.download import resume

                resume(
                    client,
                    url,
                    path,
                    keywords,
                    segments=output.segments,
                    shows_progress=output.shows_progress,
                )
                return
            with client.stream(spec.method, url, **keywords) as response:
                if output.fail or output.download:
                    response.raise_for_status()
                if output.dump_header is not None:
                    _dump_head(response, output.dump_header)
                _show(response, output, url, path, output.get_parts(spec.method), chart)
                if output.fail_with_body:
                    response.raise_for_status()
        except _NotSent as unsent:
            parts = output.parts or "HB"
            print_unsent(unsent.request, parts, shows_secrets=output.show_secrets)
        except RequestException as error:
            if output.as_json:
                print_error_json(error, spec.method, url)
            raise


def _dump_head(response: StreamedResponse, path: str) -> None:
    head = response._head.block
    if path == "-":
        sys.stdout.buffer.write(head)
        return
    replace_file(path, head)


def _show(
    response: StreamedResponse,
    output: OutputOptions,
    url: str,
    path: Path | None,
    parts: str,
    chart: TimingChart,
) -> None:
    body = MeasuredBody(response)
    if output.remote_header_name and path is not None:
        from curlhttp.cli.download import get_server_name

        path = get_server_name(response, path)
    elif output.download and path is None:
        from curlhttp.cli.download import choose_name

        path = choose_name(response, url)
    if not output.as_json:
        print_request(
            response.request, response.http_version, parts, shows_secrets=output.show_secrets
        )
        if "h" in parts:
            print_head(response)
    if path is not None:
        from curlhttp.cli.download import save

        save(body, path, shows_progress=output.shows_progress)
        if output.download and not output.silent:
            print_info(f"saved {body.size:,} bytes in {path}")
    elif output.as_json:
        body.read()
    elif "b" in parts:
        print_body(body, raw=output.output == "-")
        if response.is_error and not body.size and parts == "b" and sys.stdout.isatty():
            print_head(response)  # otherwise nothing would say what happened
    else:
        body.discard()
    chart.set_end(body.ended, body.size)
    if output.verbose:
        print_info(f"* a body of {body.size:,} bytes was read")
    if output.as_json:
        print_response_json(body, path)
    elif "m" in parts:
        sys.stdout.write(f"{response.http_version} {response.status_code}, "
                         f"{body.size:,} bytes in {body.total:.3f} s\n")  # fmt: skip
    if output.write_out is not None:
        write_out(output.write_out, body)


def _open_session(output: OutputOptions, url: str) -> SavedSession | None:
    name = output.session if output.session is not None else output.session_read_only
    if name is None:
        return None
    from curlhttp.cli.sessions import SavedSession

    return SavedSession(name, url)


def _load_cookies(output: OutputOptions, session: SavedSession | None) -> Cookies | None:
    """Return a jar with the cookies of -b, or None if cookies are neither loaded nor saved."""
    files = [Path(text) for text in output.cookies if "=" not in text]
    if not files and output.cookie_jar is None and session is None:
        return None
    from curlhttp._http.cookies.jar import Cookies
    from curlhttp.cli.sessions import load_cookies

    cookies = Cookies() if session is None else session.cookies
    for file in files:
        if file == output.cookie_jar and not file.exists():
            continue  # `-b jar -c jar` is used for the first time
        loaded = load_cookies(file)
        if session is None:
            cookies.update(loaded)
        else:
            session.cookies.add(loaded)
    return cookies


def _save_cookies(path: Path, client: Client, session: SavedSession | None) -> None:
    from curlhttp.cli.sessions import save_cookies

    save_cookies(path, [*client.cookies, *(() if session is None else session.cookies.others)])


# --- the commands ---

_HELP = {
    "get": "Send a GET request and print the response. On a terminal, JSON is indented.",
    "head": "Send a HEAD request and print the response headers.",
    "options": "Send an OPTIONS request and print the response.",
    "post": "Send a POST request with a form, JSON or a file.",
    "put": "Send a PUT request.",
    "patch": "Send a PATCH request.",
    "delete": "Send a DELETE request.",
    "request": "Send a request with any method. The default is GET, or POST if there is a body. "
    "`curlhttp URL` is the same command.",
    "curl": "Run a command that you copied as cURL. Write `curlhttp` and paste it. Options "
    "mean the same as for curl: --json sends JSON, and redirects are followed only with -L.",
}
_EXAMPLES = {
    "get": """
  curlhttp get api.example.org/users q==ada page==2
  curlhttp get -o disk.img --timing https://example.org/disk.img
  curlhttp get -u me -H 'Accept: text/csv' https://example.org/export | head
  curlhttp get -s -o /dev/null -w '%{http_code}' localhost:8000/health""",
    "head": """
  curlhttp head https://example.org/disk.img""",
    "options": """
  curlhttp options -i https://api.example.org/users""",
    "post": """
  curlhttp post https://api.example.org/users name=Ada year:=1815
  curlhttp post https://api.example.org/users --json-body '{"name": "Ada"}'
  curlhttp post -d name=Ada -d year=1815 https://example.org/form
  curlhttp post https://example.org/upload photo@ada.jpg""",
    "put": """
  curlhttp put --data-binary @disk.img https://example.org/disk.img""",
    "patch": """
  curlhttp patch --json-body @change.json https://api.example.org/users/1""",
    "delete": """
  curlhttp delete -f https://api.example.org/users/1""",
    "request": """
  curlhttp request -X PURGE https://example.org/
  curlhttp request https://api.example.org/users name=Ada""",
    "curl": """
  curlhttp curl 'https://api.example.org/users' -H 'accept: */*' \\
    -b 'id=1' --data-raw '{"name": "Ada"}' --compressed""",
}
_OF_ANY_METHOD = ("request", "curl")
_METHODS = _HELP.keys() - set(_OF_ANY_METHOD)
_URL_HELP = """\b
A URL without a scheme means http for local hosts, and https for others.

"""


class _RequestCommand(click.Command):
    """A command for one request: it notes the order of options, and takes curl's `-C -`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments."""
        args = _drop_offsets(args)
        _, _, given = self.make_parser(ctx).parse_args(list(args))
        ctx.meta[ORDER] = [str(param.name) for param in given]
        return super().parse_args(ctx, args)


def _drop_offsets(args: list[str]) -> list[str]:
    """Remove the "-" after -C, with which curl finds the offset itself.

    Raises:
        click.UsageError: there is an offset.
    """
    kept: list[str] = []
    for argument in args:
        if kept and kept[-1] in ("-C", "--continue", "--continue-at"):
            if argument.isdigit():
                raise click.UsageError(
                    f"-C takes no offset such as {argument}: it resumes at the end of the file. "
                    "-r requests bytes from an offset on"
                )
            if argument == "-":
                continue
        kept.append(argument)
    return kept


def _create_command(name: str) -> click.Command:
    """Create the command for a method. `request` and `curl` have an option for the method."""

    @connection_options
    def command(
        url: str | None,
        items: tuple[str, ...],
        connection: ConnectionOptions,
        **options: Any,  # see pop_content
    ) -> None:
        output = OutputOptions(
            **{field.name: options.pop(field.name) for field in fields(OutputOptions)}
        )
        output.validate()
        if name == "request" and options["method"] is None and options["url_option"] is None:
            options["method"], url, items = _find_method(url, items)
        url, items = _find_url(url, items, options.get("url_option"))
        if name == "curl":
            url = _ESCAPED_BRACKET.sub(r"\1", url)
            url = _SLASHES.sub(r"\1://", url)
        parsed = parse_items(items)
        headers: tuple[tuple[str, str | None], ...] = parsed.headers
        for less_specific in (connection.header, output.headers):
            named = {name.lower() for name, _ in headers}
            headers = (*(f for f in less_specific if f[0].lower() not in named), *headers)
        framing = tuple(field for field in headers if field[0].lower() in _FRAMING)
        headers = tuple(field for field in headers if field[0].lower() not in _FRAMING)
        connection = replace(connection, header=headers)
        with ExitStack() as files:
            options["uploads_file"] = bool(options["upload"])
            if options["upload"] == ".":  # for curl, stdin that it does not wait for
                options["upload"] = "-"
            if options["upload"] not in (None, "", "-"):
                url = _add_file_name(url, options["upload"])
            content = pop_content(options, parsed, files, headers)
            method = options["method"] if name in _OF_ANY_METHOD else name.upper()
            ignores_stdin = name == "curl" or options["ignores_stdin"]
            content = add_piped(content, method, ignores_stdin)
            uploads = options.get("uploads_file", False)
            method = method or ("PUT" if uploads else "POST" if content.keywords else "GET")
            method = "HEAD" if output.wants_head and method == "GET" else method
            keeps_post = frozenset(status for status in _POST_STATUSES if options[f"post{status}"])
            rule = _RedirectRule(keeps_post, name == "curl", uploads)
            spec = _RequestSpec(
                method,
                url,
                parsed.params,
                content,
                framing,
                rule if keeps_post or name == "curl" else None,
            )
            _send(spec, connection, output)

    decorated: Callable[..., None] = body_options(
        add_options((*_OUTPUT_OPTIONS, *_REDIRECT_OPTIONS))(command)
    )
    if name in _OF_ANY_METHOD:
        decorated = add_options(_METHOD_OPTIONS)(decorated)
    decorated = click.argument("items", nargs=-1, metavar="[ITEM]...")(decorated)
    decorated = click.argument("url", required=name not in _OF_ANY_METHOD)(decorated)
    epilog = f"{_URL_HELP}{ITEMS_HELP}\n\b\nExamples:{_EXAMPLES[name]}"
    created = click.command(name, help=_HELP[name], epilog=epilog, cls=_RequestCommand)(decorated)
    if name == "curl":
        _set_meaning_of_curl(created)
    return created


def _add_file_name(url: str, path: str) -> str:
    """Return the URL with the name of an uploaded file, if its path is empty or ends with "/"."""
    host, folder, rest = re.fullmatch(  # type: ignore[union-attr]
        r"((?:[^:/?#]*://)?[^/?#]*)([^?#]*)(.*)", url, re.DOTALL
    ).groups()
    if folder and not folder.endswith("/"):
        return url
    return f"{host}{folder or '/'}{quote(Path(path).name)}{rest}"


_POST_STATUSES = (301, 302, 303)
_REDIRECT_OPTIONS = tuple(
    click.option(
        f"--post{status}", is_flag=True, help=f"Send a POST with its body again after a {status}."
    )
    for status in _POST_STATUSES
)
_METHOD_OPTIONS = (
    click.option("-X", "--method", "--request", "method", help="HTTP method."),
    click.option("--url", "url_option", hidden=True),
)


def _find_method(
    url: str | None, items: tuple[str, ...]
) -> tuple[str | None, str | None, tuple[str, ...]]:
    """Return the method that is written before the URL, or None, and the URL and the items.

    It is one of the methods that are commands, or a word in capitals. The words before it are
    options, or else App would have run its command.
    """
    if url is None or not items or not (url.isascii() and url.isalpha()):
        return None, url, items
    if not url.isupper() and url.lower() not in _METHODS:
        return None, url, items
    return url.upper(), items[0], items[1:]


def _find_url(
    url: str | None, items: tuple[str, ...], given: str | None
) -> tuple[str, tuple[str, ...]]:
    """Return the URL and the items. With --url, all arguments are items.

    Raises:
        click.UsageError: there is no URL.
    """
    if given is not None:
        return given, items if url is None else (url, *items)
    if url is None:
        raise click.UsageError("Missing argument 'URL'.")
    if url[:1] in ("{", "[") and ":" in url:  # curl --json '{"a": 1}' URL
        raise click.UsageError(
            "the first argument is JSON, not a URL. Use --json-body to send JSON; --json prints "
            "the response as JSON"
        )
    return url, items


def _set_meaning_of_curl(command: click.Command) -> None:
    """Change what options of `request` mean where they mean something else for curl."""
    for option in command.params:
        if option.name == "follow":
            option.default = False
        elif option.name == "as_json":
            option.opts = ["--json-output"]
        elif option.name == "json_text":
            option.opts = [*option.opts, "--json"]


def __getattr__(name: str) -> click.Command:
    """Create the command for a method when it is used, because each has more than 80 options."""
    if name not in _EXAMPLES:
        raise AttributeError(name)
    command = globals()[name] = _create_command(name)
    return command
