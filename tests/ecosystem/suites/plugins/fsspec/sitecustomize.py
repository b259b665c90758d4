"""Python imports this at its start: fsspec's HTTP file systems send through the port."""

from fsspec.implementations import http
from fsspec_on_curlhttp import get_client

# Not by fsspec's configuration: some tests compare the options of file systems.
_init = http.HTTPFileSystem.__init__
_init.__defaults__ = tuple(
    get_client if value is http.get_client else value for value in _init.__defaults__
)
