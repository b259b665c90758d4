"""Python imports this at its start: httpx's clients send through libcurl unless told otherwise."""

import httpx
import httpx._client
import httpx._transports.default

import curlhttp.httpx

for _module in (httpx, httpx._client, httpx._transports.default):
    _module.HTTPTransport = curlhttp.httpx.Transport  # type: ignore[attr-defined]
    _module.AsyncHTTPTransport = curlhttp.httpx.AsyncTransport  # type: ignore[attr-defined]
