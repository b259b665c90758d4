"""The method download_many of both clients: a map whose bodies go to files.

The map is that of `_features/map`, and each file is downloaded as `download` does it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import partial
from inspect import iscoroutinefunction
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from curlhttp._client.request_builder import check_raises
from curlhttp._features.download.download import download_request, to_download
from curlhttp._features.download.file_names import Targets, is_folder
from curlhttp._features.download.partial_file import Checksum
from curlhttp._features.download.stream import Tools
from curlhttp._features.map.receiving import (
    MakeReceive,
    ReceivingScheduler,
    get_receiver,
    set_receiver,
)
from curlhttp._features.progress import ProgressMeter
from curlhttp._http.errors import add_note, check_flags
from curlhttp._http.named_tuple import NamedTuple
from curlhttp._http.redaction import display_url
from curlhttp._http.request import ClientRequest
from curlhttp._http.response import Response
from curlhttp._http.url import URL
from curlhttp._runtime.engine import Runtime, Send

if TYPE_CHECKING:
    from curlhttp._client.base import BaseClient
    from curlhttp._client.options import DownloadOptions
    from curlhttp._features.map.backlog import Job
    from curlhttp._features.map.receiving import Receive
    from curlhttp._features.map.scheduler import ErrorResult, Item
    from curlhttp._runtime.run import Offload
    from curlhttp.exceptions import RequestException

Source: TypeAlias = "str | bytes | URL | ClientRequest"
Target: TypeAlias = "str | os.PathLike[str]"
DownloadPair: TypeAlias = "tuple[Source, Target] | tuple[Source, Target, str | None]"
"""A URL or a request, the path of a file or folder, and perhaps the checksum of the file."""
FilesProgress: TypeAlias = "Callable[[Path, int, int | None], object]"
"""Called with the path of a file, the bytes of it on disk, and its size, None while unknown."""

_SOURCES = (str, bytes, URL, ClientRequest)


class DownloadResult(NamedTuple):
    """A file that download_many has downloaded.

    Attributes:
        path: of the file.
        size: of the file in bytes.
        response: the last response, whose body is in the file.
    """

    path: Path
    size: int
    response: Response


class _PlannedFile(NamedTuple):
    """The file for the body of a request.

    Attributes:
        path: of the file.
        expected: its checksum, or None.
        settings: of the call.
    """

    path: str
    expected: Checksum | None
    settings: FileSettings


class FileSettings(NamedTuple):
    """The arguments of one call of download_many, for all of its files.

    Attributes:
        resume: see Client.download.
        mtime: see there.
        progress: see Client.download_many.
    """

    resume: bool | Literal["any"]
    mtime: bool
    progress: FilesProgress | None

    def check(self) -> None:
        """Check the values.

        Raises:
            TypeError: one has a wrong type.
        """
        check_flags(resume=self.resume == "any" or self.resume, mtime=self.mtime)
        progress = self.progress
        if progress is not None and (not callable(progress) or iscoroutinefunction(progress)):
            raise TypeError(
                f"progress must be a plain function of (path, done, total), not {progress!r}"
            )


class DownloadScheduler(ReceivingScheduler):
    """Track the downloads of one call.

    Args:
        client: see MapScheduler.
        pairs: of sources and targets.
        settings: of the call.
        queued: see MapScheduler, as for the rest.
        concurrency: see there.
        backlog: see there.
        ordered: see there.
        return_exceptions: see there.
        options: see there.

    Raises:
        TypeError: the pairs are not a suitable iterable.
        ValueError: two pairs of a list have the same file.
    """

    __slots__ = ("_settings", "_targets")
    _method, _takes = "download_many", "pairs (URL or request, path)"

    def __init__(
        self,
        client: BaseClient,
        pairs: Iterable[DownloadPair],
        settings: FileSettings,
        *,
        queued: bool = False,
        concurrency: int,
        backlog: int,
        ordered: bool,
        return_exceptions: bool,
        options: DownloadOptions,
    ) -> None:
        settings.check()
        check_raises("download_many", options)
        super().__init__(
            client,
            cast("Iterable[Item]", pairs),
            queued=queued,
            concurrency=concurrency,
            backlog=backlog,
            ordered=ordered,
            return_exceptions=return_exceptions,
            options=options,
        )
        if isinstance(pairs, (list, tuple)):
            _check_list(pairs)
        self._settings = settings
        self._targets = Targets()

    def _make_job(self, item: Item) -> Job | None:
        if isinstance(item, _SOURCES):
            self.fail(_make_pair_error(item))
            return None
        return super()._make_job(item)

    def _make_request(self, item: object) -> ClientRequest:
        source, path, checksum = _split_pair(item)
        expected = None if checksum is None else Checksum.parse(checksum)
        request = to_download(self._build_source(source), self._method)
        target = self._targets.claim(request.url, path)
        set_receiver(request, _PlannedFile(target, expected, self._settings))
        return request

    def _build_source(self, source: Source) -> ClientRequest:
        if not isinstance(source, ClientRequest):
            return self._build("GET", source, self._options)
        request = self._client._complete(source)
        if request.method != "GET" or request.body is not None:
            raise ValueError(f"{request}: download_many sends only GET, without a body")
        request = request.copy()
        request.headers = request.headers.copy()
        return request

    def _to_result(self, error: BaseException, item: Item) -> RequestException | ErrorResult:
        return super()._to_result(error, item[0] if isinstance(item, tuple) else item)


def _split_pair(pair: object) -> tuple[Source, Target, str | None]:
    """Return the source, the target and the checksum of a pair.

    Raises:
        TypeError: it is not a pair.
    """
    if not isinstance(pair, (tuple, list)) or not 2 <= len(pair) <= 3:
        raise _make_pair_error(pair)
    source, path = pair[:2]
    if not isinstance(source, _SOURCES):
        raise _make_pair_error(pair)
    if not isinstance(path, (str, os.PathLike)) or "://" in str(path)[:8]:
        kind = "a URL" if isinstance(path, (str, URL)) else type(path).__name__
        raise TypeError(f"a pair is (URL, path): download_many needs a path, not {kind}")
    return source, path, pair[2] if len(pair) == 3 else None


def _make_pair_error(pair: object) -> TypeError:
    kind = "one URL" if isinstance(pair, (str, bytes, URL)) else type(pair).__name__
    return TypeError(
        f"download_many takes pairs such as (url, 'folder/') or (request, 'file.zip'), not {kind}"
    )


def _check_list(pairs: Iterable[object]) -> None:
    """Find pairs with the same target at once, if no iterator has to be read for that.

    Pairs that name a file in different ways are found when it is their turn.

    Raises:
        ValueError: two pairs have the same target.
        TypeError: one is not a pair.
    """
    seen, folders = set[object](), dict[str, bool]()
    for pair in pairs:
        source, path, _ = _split_pair(pair)
        text = os.fspath(path)
        if text not in folders:
            folders[text] = is_folder(text)
        url = source.url if isinstance(source, ClientRequest) else source
        target = (text, str(url)) if folders[text] else text
        if target in seen:
            shown = display_url(str(url))
            raise ValueError(f"two downloads to {text}, the second one from {shown}")
        seen.add(target)


def make_downloading(client: BaseClient, run_blocking: Offload, batch: int) -> MakeReceive:
    """Return the function that makes the one which downloads files.

    Args:
        client: has the layers.
        run_blocking: see Tools; so is the next one.
        batch: see there.
    """

    def make(exchange: Send, runtime: Runtime) -> Receive[DownloadResult]:
        async def receive(request: ClientRequest) -> DownloadResult:
            plan = cast("_PlannedFile", get_receiver(request))
            path, settings = Path(plan.path), plan.settings
            progress = None if settings.progress is None else partial(settings.progress, path)
            meter = ProgressMeter(progress, runtime.now)
            tools = Tools(client, exchange, runtime, run_blocking, batch, meter, plan.expected)
            try:
                response = await download_request(
                    tools, request, plan.path, resume=settings.resume, mtime=settings.mtime
                )
            except Exception as error:
                add_note(error, f"it was to be downloaded to {plan.path}")
                raise
            return _make_result(path, response)

        return receive

    return make


def _make_result(path: Path, response: Response) -> DownloadResult:
    return DownloadResult(path, path.stat().st_size, response)
