"""Blocking senders: requests, streams, maps and downloads of Client, and `curlhttp fetch`."""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import curlhttp
from curlhttp import exceptions
from curlhttp.exceptions import RequestException
from tests.fuzz.case import Case
from tests.fuzz.checker import Checker
from tests.fuzz.inspection import Surprise
from tests.fuzz.senders import (
    Sender,
    control_name,
    in_threads,
    is_followed_by_control,
    of,
    persist,
    settings_of,
)
from tests.support.cli import run as run_command


class _OnClient(Sender):
    def __init__(self, checker: Checker, kind: str, *, hedges: bool = False) -> None:
        super().__init__(checker, kind)
        self.client = curlhttp.Client(**settings_of(kind, checker.port, hedges=hedges))

    def run(self, cases: Sequence[Case]) -> None:
        in_threads(cases, self._send_and_control)

    def _send_and_control(self, case: Case) -> None:
        with self.checker.checking(case) as began:
            self.send(case, began)
        if is_followed_by_control(case):
            with self.checker.checking(case) as began:
                name = control_name(case)
                data = persist(lambda: self.control(case, self.good(name)))
                self.checker.controlled(case, name, data, began)

    def send(self, case: Case, began: float) -> None:
        raise NotImplementedError

    def control(self, case: Case, url: str) -> bytes:
        method, body = ("POST", b"x") if case.number % 8 == 0 else ("GET", None)
        return self.client.request(method, url, content=body).content

    def close(self) -> None:
        self.client.close()


class Request(_OnClient):
    """Client.request."""

    def send(self, case: Case, began: float) -> None:
        response = self.client.request(case.method, case.url, **case.options())
        self.checker.answered(case, response, began)


class Stream(_OnClient):
    """Client.stream, read by any of its methods, sometimes only in part."""

    def send(self, case: Case, began: float) -> None:
        response = self.client.stream(case.method, case.url, **case.options())
        if read_stream(case, response, self.checker, began):
            self.checker.answered(case, response, began)

    def control(self, case: Case, url: str) -> bytes:
        with self.client.stream("GET", url) as response:
            return response.read()


def read_stream(case: Case, response: Any, checker: Checker, began: float) -> bool:
    """Read a streamed response; return whether its content is there to be looked at."""
    how = case.random.choice(["read", "bytes", "few bytes", "text", "lines", "part", "drop", "raw"])
    if how == "drop":
        return False
    with response:
        if how == "read":
            response.read()
            return True
        pieces = list(islice(_pieces(response, how), 2 if how == "part" else None))
    checker.iterated(case, response, how, pieces, began, ended=how != "part")
    return False


def _pieces(response: Any, how: str) -> Iterator[Any]:
    if how == "text":
        return response.iter_text()  # type: ignore[no-any-return]
    if how == "lines":
        return response.iter_lines()  # type: ignore[no-any-return]
    if how == "raw":
        return response.iter_raw()  # type: ignore[no-any-return]
    return response.iter_bytes(7 if how == "few bytes" else None)  # type: ignore[no-any-return]


class Map(_OnClient):
    """Client.map, with controls among the cases and after them."""

    def run(self, cases: Sequence[Case]) -> None:
        began = time.monotonic()
        done = 0
        with (
            self.checker.checking(cases[0]),
            self.client.map(self._items(cases), concurrency=16) as results,
        ):
            for result in results:
                case, name = of(result)
                done += 1
                self._keep(case, name, result, began)
            if done < len(cases):
                raise Surprise(f"a map of {len(cases)} gives fewer results")
        with self.checker.checking(cases[-1]) as later:
            name = control_name(cases[-1])
            data = persist(lambda: self.control(cases[-1], self.good(name)))
            self.checker.controlled(cases[-1], name, data, later)

    def _keep(self, case: Case, name: str, result: Any, began: float) -> None:
        if isinstance(result, RequestException):
            if not name:
                self.checker.failed(case, result)
        elif name:
            self.checker.controlled(case, name, result.content, began)
        else:
            self.checker.answered(case, result, began)

    def _items(self, cases: Sequence[Case]) -> Iterator[Any]:
        for case in cases:
            request = self.client.build_request(case.method, case.url, **case.options())
            request.extensions = {"fuzz": (case, "")}
            yield request
            if is_followed_by_control(case):
                name = f"{control_name(case)}-m"
                request = self.client.build_request("GET", self.good(name))
                request.extensions = {"fuzz": (case, name)}
                yield request

    def control(self, case: Case, url: str) -> bytes:
        for result in self.client.map([url]):
            if isinstance(result, RequestException):
                raise result
            return result.content
        raise Surprise("a map of one gives no result")


class Download(_OnClient):
    """Client.download; a failed download is resumed."""

    def __init__(self, checker: Checker, kind: str) -> None:
        super().__init__(checker, kind)
        self._folder = tempfile.TemporaryDirectory(prefix="curlhttp-fuzz-")

    def send(self, case: Case, began: float) -> None:
        options = case.options()
        options.pop("data", None)
        path = Path(self._folder.name, f"{threading.get_ident()}-{case.number % 3}")
        try:
            response = self.client.download(case.url, path, **options)
        except RequestException:
            response = self.client.download(case.url, path, **options)
        self.checker.saved(case, response, path.read_bytes(), began)

    def control(self, case: Case, url: str) -> bytes:
        path = Path(self._folder.name, f"{threading.get_ident()}-control")
        self.client.download(url, path)
        return path.read_bytes()

    def close(self) -> None:
        super().close()
        self._folder.cleanup()


class Fetch(Sender):
    """The command `curlhttp fetch`, whose client lives for one list."""

    may_stall = False  # its one time limit is for all lines

    def __init__(self, checker: Checker, kind: str) -> None:
        super().__init__(checker, kind)
        self._folder = tempfile.TemporaryDirectory(prefix="curlhttp-fuzz-")

    def run(self, cases: Sequence[Case]) -> None:
        with self.checker.checking(cases[0]) as began:
            file, out = Path(self._folder.name, "list"), Path(self._folder.name, "out.jsonl")
            file.write_text("\n".join(map(_line, cases)) + "\n")
            ended = run_command(
                "fetch",
                file,
                "-o",
                out,
                "--overwrite",
                "-q",
                "-c",
                16,
                "--timeout",
                15,
                "--max-body",
                "1M",
            )
            if ended.status not in (0, 1):
                raise Surprise(f"fetch ends with {ended.status}: {ended.err[-300:]}")
            records = [json.loads(line) for line in out.read_bytes().split(b"\n")[:-1]]
            if len(records) != len(cases):
                raise Surprise(f"fetch records {len(records)} of {len(cases)} lines")
            for record in records:
                self._check_record(cases[record["line"] - 1], record, began)

    def _check_record(self, case: Case, record: Any, began: float) -> None:
        with self.checker.checking(case):
            if record["error"] is None:
                self.checker.read(case, json.dumps(record).encode(), began)
                return
            self.checker.errors += 1
            if record["error"] == "ReadTimeout" or not hasattr(exceptions, record["error"]):
                raise Surprise(f"fetch records {record['error']}: {record['message']}")

    def close(self) -> None:
        self._folder.cleanup()


def _line(case: Case) -> str:
    fields = {"url": case.url, "method": case.method}
    body = case.options().get("data")
    if isinstance(body, bytes):
        fields["body"] = body.decode()
    return json.dumps(fields)
