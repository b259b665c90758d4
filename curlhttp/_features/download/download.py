"""The method download of both clients. Loaded by the first download; stream.py does the work."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

from curlhttp._client.request_builder import check_options, check_raises
from curlhttp._features.download.file_object import FileObject
from curlhttp._features.download.partial_file import Checksum, PartialFile
from curlhttp._features.download.stream import DownloadStream, Tools
from curlhttp._features.progress import ProgressMeter
from curlhttp._http.errors import add_note, check_flags, check_number
from curlhttp._http.inputs import Progress
from curlhttp._http.request import ClientRequest
from curlhttp._http.response import Response
from curlhttp._http.url import URL
from curlhttp._runtime.engine import Runtime, Send

if TYPE_CHECKING:
    from curlhttp._client.base import BaseClient
    from curlhttp._client.options import DownloadOptions
    from curlhttp._features.download.file_object import WritableFile
    from curlhttp._runtime.run import Offload

_RANGE_HEADERS = ("Range", "If-Range", "Content-Range")
_MOST_SEGMENTS = 64


async def download(
    client: BaseClient,
    url: str | bytes | URL,
    path: str | os.PathLike[str] | WritableFile,
    *,
    resume: bool | Literal["any"],
    checksum: str | None,
    mtime: bool,
    progress: Progress | None,
    segments: int,
    options: DownloadOptions,
    run_blocking: Offload,
    batch: int,
    exchange: Send,
    runtime: Runtime,
) -> Response:
    """Download a file. The arguments are those of Client.download, and five more.

    `client` builds the request, `run_blocking` calls functions that may block, `batch` is the
    number of bytes to collect before they are written to disk, `exchange` passes a request to the
    engine, and `runtime` is that of the engine.
    """
    _check_path(path)
    check_number("segments", segments, least=1, most=_MOST_SEGMENTS, whole=True)
    check_flags(resume=resume == "any" or resume, mtime=mtime)
    expected = None if checksum is None else Checksum.parse(checksum)
    request = _build_request(client, url, options)
    meter = ProgressMeter(progress, runtime.now)
    tools = Tools(client, exchange, runtime, run_blocking, batch, meter, expected)
    return await download_request(
        tools, request, path, resume=resume, mtime=mtime, segments=segments
    )


async def download_request(
    tools: Tools,
    request: ClientRequest,
    path: str | os.PathLike[str] | WritableFile,
    *,
    resume: bool | Literal["any"],
    mtime: bool,
    segments: int = 1,
) -> Response:
    """Download the file of a request, through the layers of a client and any engine.

    Args:
        tools: of the download.
        request: complete, as `to_download` returns it.
        path: see Client.download; so are the others.
        resume: see there.
        mtime: see there.
        segments: see there.
    """
    part = _open_target(path, resume, tools.expected, mtime, segments)
    transfer: DownloadStream
    try:
        try:
            if isinstance(part, PartialFile) and (segments > 1 or part.spans is not None):
                from curlhttp._features.download.segments import download_segments

                transfer, response = await download_segments(tools, request, part, segments)
            else:
                transfer = DownloadStream(tools, request, part)
                response = await transfer.send()
            await transfer.verify(response)
            await tools.run_blocking(part.commit, transfer.modified if mtime else None)
        finally:
            part.close()  # waits for a thread that still writes, so its size is final
    except Exception as error:
        if part.is_kept:
            add_note(error, f"{part.size} bytes are kept: the same download continues from there")
        raise
    return response


def _check_path(path: object) -> None:
    """Raise TypeError if the path is not one, or is the URL."""
    if isinstance(path, URL) or "://" in str(path)[:8]:
        raise TypeError("the URL comes first, then the path: download(url, path)")
    if not isinstance(path, (str, os.PathLike)) and not callable(getattr(path, "write", None)):
        kind = type(path).__name__
        raise TypeError(f"download() needs the path of the file, such as 'file.zip', not {kind}")


def _open_target(
    path: str | os.PathLike[str] | WritableFile,
    resume: bool | Literal["any"],
    expected: Checksum | None,
    mtime: bool,
    segments: int,
) -> PartialFile | FileObject:
    if isinstance(path, (str, os.PathLike)):
        return PartialFile(path, resumes=bool(resume), adopts=resume == "any")
    if mtime or resume == "any" or segments > 1:
        raise ValueError(
            "mtime=, segments= and resume='any' need the path of a file, not a file object"
        )
    return FileObject(path, resumes=bool(resume), checksum=expected)


def _build_request(
    client: BaseClient, url: str | bytes | URL, options: DownloadOptions
) -> ClientRequest:
    other = "use stream() for other requests"
    check_options(client, "download", options, other)
    check_raises("download", options)
    return to_download(client.build_request("GET", url, stream=True, **options), "download")


def to_download(request: ClientRequest, method: str) -> ClientRequest:
    """Prepare a request for a file, and return it.

    Args:
        request: complete and streamed.
        method: of the client, for a message.

    Raises:
        ValueError: it has header fields that the download sets.
    """
    for name in _RANGE_HEADERS:
        if request.get_header(name) is not None:
            raise ValueError(f"{method}() sets the header {name}: omit it")
    request.headers["Accept-Encoding"] = "identity"  # each coding has its own ranges
    return request
