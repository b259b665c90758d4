"""Blocking ways in: requests, streams, maps and downloads of Client, and the command's fetch."""

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
from tests.fuzz.judge import Judge
from tests.fuzz.looks import Surprise
from tests.fuzz.ways import (
    Way,
    control_name,
    in_threads,
    is_followed_by_control,
    of,
    persist,
    settings_of,
)
from tests.support.cli import run as run_command

__all__ = ["Download", "Fetch", "Map", "Request", "Stream", "read_stream"]


class _OnClient(Way):
    def __init__(self, judge: Judge, kind: str, *, hedges: bool = False) -> None:
        super().__init__(judge, kind)
        self.client = curlhttp.Client(**settings_of(kind, judge.port, hedges=hedges))

    def run(self, cases: Sequence[Case]) -> None:
        in_threads(cases, self._send_and_control)

    def _send_and_control(self, case: Case) -> None:
        with self.judge.judging(case) as began:
            self.send(case, began)
        if is_followed_by_control(case):
            with self.judge.judging(case) as began:
                name = control_name(case)
                data = persist(lambda: self.control(case, self.good(name)))
                self.judge.controlled(case, name, data, began)

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
        self.judge.answered(case, response, began)


class Stream(_OnClient):
    """Client.stream, read in one of its ways; sometimes not to the end."""

    def send(self, case: Case, began: float) -> None:
        response = self.client.stream(case.method, case.url, **case.options())
        if read_stream(case, response, self.judge, began):
            self.judge.answered(case, response, began)

    def control(self, case: Case, url: str) -> bytes:
        with self.client.stream("GET", url) as response:
            return response.read()


def read_stream(case: Case, response: Any, judge: Judge, began: float) -> bool:
    """Read a streamed response; return whether its content is there to be looked at."""
    how = case.random.choice(["read", "bytes", "few bytes", "text", "lines", "part", "drop", "raw"])
    if how == "drop":
        return False
    with response:
        if how == "read":
            response.read()
            return True
        pieces = list(islice(_pieces(response, how), 2 if how == "part" else None))
    judge.iterated(case, response, how, pieces, began, ended=how != "part")
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
            self.judge.judging(cases[0]),
            self.client.map(self._items(cases), concurrency=16) as results,
        ):
            for result in results:
                case, name = of(result)
                done += 1
                self._keep(case, name, result, began)
            if done < len(cases):
                raise Surprise(f"a map of {len(cases)} gives fewer results")
        with self.judge.judging(cases[-1]) as later:
            name = control_name(cases[-1])
            data = persist(lambda: self.control(cases[-1], self.good(name)))
            self.judge.controlled(cases[-1], name, data, later)

    def _keep(self, case: Case, name: str, result: Any, began: float) -> None:
        if isinstance(result, RequestException):
            if not name:
                self.judge.failed(case, result)
        elif name:
            self.judge.controlled(case, name, result.content, began)
        else:
            self.judge.answered(case, result, began)

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
    """Client.download; what fails goes on where it stopped."""

    def __init__(self, judge: Judge, kind: str) -> None:
        super().__init__(judge, kind)
        self._folder = tempfile.TemporaryDirectory(prefix="curlhttp-fuzz-")

    def send(self, case: Case, began: float) -> None:
        options = case.options()
        options.pop("data", None)
        path = Path(self._folder.name, f"{threading.get_ident()}-{case.number % 3}")
        try:
            response = self.client.download(case.url, path, **options)
        except RequestException:
            response = self.client.download(case.url, path, **options)
        self.judge.saved(case, response, path.read_bytes(), began)

    def control(self, case: Case, url: str) -> bytes:
        path = Path(self._folder.name, f"{threading.get_ident()}-control")
        self.client.download(url, path)
        return path.read_bytes()

    def close(self) -> None:
        super().close()
        self._folder.cleanup()


class Fetch(Way):
    """The command `curlhttp fetch`, whose client lives for one list."""

    may_stall = False  # its one time limit is for all lines

    def __init__(self, judge: Judge, kind: str) -> None:
        super().__init__(judge, kind)
        self._folder = tempfile.TemporaryDirectory(prefix="curlhttp-fuzz-")

    def run(self, cases: Sequence[Case]) -> None:
        with self.judge.judging(cases[0]) as began:
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
                self._judge(cases[record["line"] - 1], record, began)

    def _judge(self, case: Case, record: Any, began: float) -> None:
        with self.judge.judging(case):
            if record["error"] is None:
                self.judge.read(case, json.dumps(record).encode(), began)
                return
            self.judge.errors += 1
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
