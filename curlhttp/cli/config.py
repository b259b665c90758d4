"""Options in files: the file of defaults, and the files of -K.

The options of a file are put before those of the command line, which therefore take precedence.
Both kinds of file have the format of curl's -K. Each option is validated here, so that an error
can name the file and the line.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple

import click

from curlhttp._http.redaction import is_secret_header
from curlhttp.cli.errors import READ_ERROR, CommandFailed, improve_suggestions, reading
from curlhttp.cli.options import ConnectionOptions

_VARIABLE = "CURLHTTP_CONFIG"
_HEADER = ("-H", "--header")
_SECTIONS = ("request", "fetch", "bench", "ws", "sse")
_ONE_REQUEST = "request"  # the section of all commands that send one request

# Patterns are compiled when they are first used, because most commands read no file.
_SECTION = r"\[\s*([\w-]+)\s*\]"
_LINE = r"(-{0,2}[\w.-]+)(?:\s*[=:]\s*|\s+|$)(.*)"
_QUOTED = r'"((?:[^"\\]|\\.)*)"\s*(?:#.*)?'
_ESCAPE = r"\\(.)"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "v": "\v"}

# The parameters whose values are credentials, which a default would send to every host.
_CREDENTIALS = frozenset({"user", "oauth2_bearer", "cookies", "session", "session_read_only"})
_SHARED = frozenset(field.name for field in fields(ConnectionOptions))
_FLAGS = frozenset({"no_color", "config"})  # options of all commands that set no parameter


class _Line(NamedTuple):
    place: str  # the file and the number of the line
    section: str  # the name in brackets above it, or ""
    option: str  # with its dashes
    value: str | None


def add_options_of_files(
    command: click.Command, name: str, context: click.Context, arguments: list[str]
) -> list[str]:
    """Return the arguments of a command, preceded by the options of files.

    Args:
        command: the command. Others than those that send requests read no files.
        name: the name of the command.
        context: the context of the group.
        arguments: the arguments of the command as they were typed.

    Raises:
        CommandFailed: a file cannot be read, or has an invalid line.
    """
    if not _SHARED.issubset(param.name for param in command.params):
        return arguments
    path = _get_default_path()
    defaults = [] if path is None else list(_read(str(path)))
    lines: list[_Line] = []
    if any(word.startswith("-") and ("K" in word or "config" in word) for word in arguments):
        for file in _get_given(command, context, arguments, "config"):
            lines += _read(file)
    if not (defaults or lines):
        return arguments
    section = name if name in _SECTIONS else _ONE_REQUEST
    reader = _OptionReader(command, name, context)
    found = [
        reader.read(line, is_default=is_default)
        for is_default, each in ((True, defaults), (False, lines))
        for line in each
        if line.section in ("", section)
    ]
    return [*_drop_replaced(found, command, context, arguments), *arguments]


# --- the files ---


def _get_default_path() -> Path | None:
    given = os.environ.get(_VARIABLE)
    if given is not None:
        return Path(given).expanduser() if given else None
    path = Path(click.get_app_dir("curlhttp"), "config")
    return path if path.exists() else None


def _read(path: str) -> Iterator[_Line]:
    """Yield the lines of a file that have an option.

    Raises:
        CommandFailed: it cannot be read, or a line is malformed.
    """
    with reading(path):
        if path == "-":
            text = sys.stdin.buffer.read().decode()
        else:
            text = Path(path).read_text(encoding="utf-8")
    section = ""
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        line, place = line.strip(), f"{path}:{number}"
        if not line or line.startswith("#"):
            continue
        if header := re.fullmatch(_SECTION, line):
            section = header[1]
            if section not in _SECTIONS:
                known = ", ".join(f"[{each}]" for each in _SECTIONS)
                raise CommandFailed(f"{place}: [{section}] is not one of {known}", READ_ERROR)
            continue
        option = re.fullmatch(_LINE, line)
        if option is None:  # the message does not show it, because it may contain a secret
            raise CommandFailed(f"{place}: the line is not OPTION or OPTION = VALUE", READ_ERROR)
        dashed = option[1] if option[1].startswith("-") else f"--{option[1]}"
        yield _Line(place, section, dashed, _unquote(option[2], place))


def _unquote(text: str, place: str) -> str | None:
    """Return a value without its quotation marks, or None if there is none."""
    if not text.startswith('"'):
        return text or None
    quoted = re.fullmatch(_QUOTED, text)
    if quoted is None:
        raise CommandFailed(f"{place}: the quotation mark is not closed", READ_ERROR)
    return re.sub(_ESCAPE, lambda found: _ESCAPES.get(found[1], found[1]), quoted[1])


# --- their options ---


class _OptionReader:
    """Turn lines into arguments of a command, and validate them."""

    def __init__(self, command: click.Command, name: str, context: click.Context) -> None:
        self._name = name
        self._context = click.Context(command, parent=context, info_name=name)
        self._parser = command.make_parser(self._context)
        self._has_url = any(param.name == "url" for param in command.params)
        self._options = {
            option: param
            for param in command.params
            for option in (*param.opts, *param.secondary_opts)
            if option.startswith("-")
        }

    def read(self, line: _Line, *, is_default: bool) -> tuple[str, ...]:
        """Return the arguments for a line.

        Args:
            line: the line.
            is_default: it is in the file of defaults, and so for every host.

        Raises:
            CommandFailed: the line is invalid.
        """
        if line.option == "--url" and self._has_url and line.value and not is_default:
            return (line.value,)
        param = self._options.get(line.option)
        if param is None and line.option not in ("--url", "-h", "--help"):
            unknown = improve_suggestions(
                click.NoSuchOption(line.option, possibilities=[*self._options])
            )
            raise self._make_error(line, unknown.format_message())
        if param is None or line.option in ("-K", "--config", "-h", "--help"):
            raise self._make_error(
                line, f"{line.option} cannot be used in a file for `{self._name}`"
            )
        if is_default:
            self._validate_default(line, param)
        words = (line.option,) if line.value is None else (line.option, line.value)
        try:
            if line.value is not None and isinstance(param, click.Option) and param.is_flag:
                raise click.UsageError(f"{line.option} takes no value")
            values, _, _ = self._parser.parse_args(list(words))
            value = values[str(param.name)]
            param.process_value(
                self._context, [value] if isinstance(value, str) and param.multiple else value
            )
            if param.name == "proxy" and line.value:
                from curlhttp._http.config import Proxy
                from curlhttp.exceptions import InvalidProxyURL

                try:
                    Proxy.parse(line.value)
                except InvalidProxyURL as error:
                    raise click.UsageError(str(error)) from None
        except click.UsageError as error:
            raise self._make_error(line, error.format_message()) from None
        return words

    def _validate_default(self, line: _Line, param: click.Parameter) -> None:
        header = (line.value or "").partition(":")[0]
        if param.name in _CREDENTIALS or (
            param.name == "header" and (is_secret_header(header) or header.startswith("@"))
        ):
            raise self._make_error(
                line,
                "a default is sent to every host: put credentials into ~/.netrc, which names "
                "their host",
            )
        if not line.section and param.name not in _SHARED | _FLAGS:
            raise self._make_error(
                line,
                f"{line.option} is not an option of all commands: put it below [{_ONE_REQUEST}] "
                "or the name of its command",
            )

    @staticmethod
    def _make_error(line: _Line, what: str) -> CommandFailed:
        return CommandFailed(f"{line.place}: {what}", 2)


def _get_given(
    command: click.Command, context: click.Context, arguments: list[str], name: str
) -> list[str]:
    """Return the values of an option on the command line, before they are validated."""
    with suppress(click.UsageError):  # is reported when the command parses its arguments
        inner = click.Context(command, parent=context)
        values: list[str] = command.make_parser(inner).parse_args(list(arguments))[0].get(name, [])
        return values
    return []


def _drop_replaced(
    found: list[tuple[str, ...]],
    command: click.Command,
    context: click.Context,
    arguments: list[str],
) -> Iterator[str]:
    """Yield the words of files, without headers that the command line also has."""
    given: set[str] = set()
    if any(words[0] in _HEADER for words in found):
        given = {*map(_get_header_name, _get_given(command, context, arguments, "header"))}
    for words in found:
        if words[0] not in _HEADER or _get_header_name(words[1]) not in given:
            yield from words


def _get_header_name(line: str) -> str:
    return re.split("[:;]", line, maxsplit=1)[0].strip().lower()
