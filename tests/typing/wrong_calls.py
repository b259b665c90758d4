"""Calls that type checkers refuse: each line with `# refused`, and none of the others.

Nothing runs this; test_wrong_calls.py has mypy and pyright read it.
"""

from __future__ import annotations

from io import BytesIO, StringIO
from typing import TYPE_CHECKING

import curlhttp
from curlhttp import AsyncClient, Client
from curlhttp.testing import Answer, ScriptedEngine
from curlhttp.types import (
    USE_CLIENT_DEFAULT,
    AuthInput,
    RequestOptions,
    RetryInput,
    TimeoutInput,
    UseClientDefault,
    VerifyInput,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

URL = "http://localhost/"


def names() -> None:
    curlhttp.Clinet()  # refused
    curlhttp.RetryPolice(2)  # refused
    curlhttp.exceptions.ReadTimeOut  # refused
    curlhttp.Client().gett(URL)  # refused


def urls(client: Client) -> None:
    client.get()  # refused
    client.get(3)  # refused
    client.get(None)  # refused
    client.get(URL, "and another")  # refused
    client.get([URL])  # refused
    client.request("GET")  # refused
    client.request(URL, method=3)  # refused
    client.get(URL)
    client.get(URL.encode())
    client.get(curlhttp.URL(URL))


def headers(client: Client) -> None:
    client.get(URL, headers=3)  # refused
    client.get(URL, headers="Accept: */*")  # refused
    client.get(URL, headers={"X-Number": 3})  # refused
    client.get(URL, headers={3: "x"})  # refused
    client.get(URL, headers=["Accept"])  # refused
    client.get(URL, headers=[("Accept", "*/*", "q")])  # refused
    client.get(URL, header={"Accept": "*/*"})  # refused
    client.get(URL, headers={"Accept": "*/*", "User-Agent": None})
    client.get(URL, headers={b"Accept": b"*/*"})
    client.get(URL, headers=[("Accept", "*/*"), ("Accept", b"text/html")])
    client.get(URL, headers=client.headers)
    Client(headers=3)  # refused
    Client(headers={"X-Number": 3})  # refused
    curlhttp.Headers({"X": None})  # refused
    curlhttp.Headers({"X": "y"})["X"] = 3  # refused


def params(client: Client) -> None:
    client.get(URL, params=object())  # refused
    client.get(URL, params=3)  # refused
    client.get(URL, params=["a", "b"])  # refused
    client.get(URL, params=[("a",)])  # refused
    Client(params=3)  # refused
    client.get(URL, params="a=b")
    client.get(URL, params={"a": 1, "b": None, "c": ["d", 2.5]})
    client.get(URL, params=[("a", 1), ("b", "c")])


def cookies_and_auth(client: Client) -> None:
    client.get(URL, cookies="a=b")  # refused
    client.get(URL, cookies={"a": 1})  # refused
    client.get(URL, cookies=3)  # refused
    client.get(URL, auth="user:password")  # refused
    client.get(URL, auth=("user", "password", "realm"))  # refused
    client.get(URL, auth=("user", 3))  # refused
    client.get(URL, auth=curlhttp.BasicAuth)  # refused
    client.get(URL, auth=lambda: None)  # refused
    client.cookies.sett("a", "b")  # refused
    client.get(URL, max_response_size=client.cookies["a"])  # refused
    client.get(client.cookies["a"])
    names: list[str] = list(client.cookies)  # refused
    names = list(client.cookies.keys())
    names.append(client.cookies.pop("b"))
    print(names, client.cookies.popitem())
    client.get(URL, cookies={"a": "b"}, auth=("user", "password"))
    client.get(URL, cookies=[("a", "b")], auth=curlhttp.BearerAuth("token"))
    client.get(URL, cookies=curlhttp.Cookies({"a": "b"}), auth=None)
    client.get(URL, auth=lambda request: request.derive(method="PUT"))
    curlhttp.BasicAuth("user")  # refused
    curlhttp.BearerAuth(b"token")  # refused


def bodies(client: Client) -> None:
    client.post(URL, data=3)  # refused
    client.post(URL, content={"a": "b"})  # refused
    client.post(URL, content=3)  # refused
    client.post(URL, content=StringIO("text"))  # refused
    client.post(URL, content=[1, 2])  # refused
    client.post(URL, json=object())  # refused
    client.post(URL, json={1, 2})  # refused
    client.post(URL, files="name")  # refused
    client.post(URL, files={"a": 3})  # refused
    client.post(URL, files={"a": ("name", b"content", "text/plain", {}, "more")})  # refused
    client.post(URL, progress=lambda done: None)  # refused
    client.post(URL, progress=3)  # refused
    client.post(URL, data={"a": 1, "b": ["c", "d"]})
    client.post(URL, data=[("a", "b")])
    client.post(URL, data=b"bytes", progress=lambda done, total: None)
    client.post(URL, content=BytesIO(b"bytes"))
    client.post(URL, content=(piece for piece in (b"a", b"b")))
    client.post(URL, content=lambda: [b"a", b"b"])
    client.post(URL, json={"a": [1, 2.5, None, {"b": True}]})
    client.post(URL, files={"a": BytesIO(b"bytes")})
    client.post(URL, files=[("a", ("name", b"bytes", "text/plain", {"X": "y"}))])


def limits(client: Client) -> None:
    client.get(URL, timeout="x")  # refused
    client.get(URL, timeout=(1, 2, 3))  # refused
    client.get(URL, timeout=[1, 2])  # refused
    client.get(URL, max_response_size="1M")  # refused
    client.get(URL, retry="twice")  # refused
    client.get(URL, follow_redirects="yes")  # refused
    client.get(URL, timeout=1, retry=2, follow_redirects=False)
    client.get(URL, timeout=(1, None), retry=curlhttp.RetryPolicy(2))
    client.get(URL, timeout=curlhttp.Timeout(connect=1, total=10))
    Client(timeout="x")  # refused
    Client(limits=10)  # refused
    Client(max_connections="10")  # refused
    Client(retry=curlhttp.RetryBudget())  # refused
    Client(rate_limit=3)  # refused
    Client(concurrency_limit=3)  # refused
    Client(breaker=True)  # refused
    Client(hedge=0.1)  # refused
    Client(http2="2")  # refused
    Client(base_url=3)  # refused
    Client(transport=Answer())  # refused
    Client(base_ur=URL)  # refused
    Client(URL)  # refused
    curlhttp.Limits(10)  # refused
    curlhttp.RateLimit(10, 60)  # refused
    curlhttp.ConcurrencyLimit(10, None)  # refused
    curlhttp.RateLimit(10 / 60, burst=10)
    curlhttp.Limits(max_connection=10)  # refused
    Client(http2="prior-knowledge", limits=curlhttp.Limits(max_connections=10))
    Client(transport=ScriptedEngine([200]), retry=2, breaker=curlhttp.CircuitBreaker())


def routes(client: Client) -> None:
    client.get(URL, verify=3)  # refused
    client.get(URL, cert=3)  # refused
    client.get(URL, proxies=["http://localhost"])  # refused
    client.get(URL, proxies={"all": 3})  # refused
    Client(verify=None)  # refused
    client.get(URL, verify=False, cert=("a.pem", "b.pem"), proxies={"all": "http://localhost"})


def changed(request: curlhttp.ClientRequest) -> None:
    request.method = "PUT"


def told(event: curlhttp.types.AttemptEvent) -> None:
    print(event.delay)


async def passed(request: curlhttp.ClientRequest, send: curlhttp.types.Send) -> curlhttp.Response:
    return await send(request)


def hooks() -> None:
    Client(hooks={"respons": print})  # refused
    Client(hooks={"request": told})  # refused
    Client(hooks={"before_sleep": changed})  # refused
    Client(hooks={"request": 3})  # refused
    Client(hooks=changed)  # refused
    Client(hooks=[changed])  # refused
    Client(middleware=passed)  # refused
    Client(middleware=[changed])  # refused
    Client(hooks={"request": changed, "before_sleep": [told, print]}, middleware=[passed])


def responses(client: Client) -> None:
    response = client.get(URL)
    response.status  # refused
    response.text()  # refused
    response.content + "text"  # refused
    response.headers["X"] + 1  # refused
    response.iter_lines()  # refused
    with client.stream("GET", URL) as streamed:
        streamed.iter_bytes("1M")  # refused
        for line in streamed.iter_lines():
            line + b""  # refused
    response.headers["X"] + response.text + response.url


def errors(client: Client) -> None:
    try:
        client.get(URL).raise_for_status()
    except curlhttp.HTTPError as error:
        error.response.status_code + error.request.method  # refused
        print(error.response.status_code, error.request.url.path)
    except curlhttp.RequestException as error:
        error.response.status_code  # refused
        error.request.url.host + ""


def many(client: Client) -> None:
    client.map(URL, concurrency="8")  # refused
    client.map([3])  # refused
    client.map([URL], data={})  # refused
    client.download(URL)  # refused
    client.download(URL, 3)  # refused
    client.download(URL, "file", checksum=3)  # refused
    client.download(URL, "file", json={})  # refused
    client.download(URL, "file", progress=lambda done: None)  # refused
    for result in client.map([URL, client.build_request("GET", URL)], headers={"A": "b"}):
        result.ok  # refused
        if isinstance(result, curlhttp.RequestException):
            result.request.url.host + result.request.urls  # refused
    for response in client.map([URL], return_exceptions=False):
        response.text + ""
        response.request.method + 1  # refused
    results: curlhttp.types.Results = client.map([URL], return_exceptions=False)
    responses: curlhttp.types.Results[curlhttp.Response] = client.map([URL])  # refused
    print(results, responses)
    client.download(URL, "file", checksum="sha256:00", headers={"A": "b"})


async def awaited(client: AsyncClient) -> None:
    client.get()  # refused
    await client.get(URL, headers=3)  # refused
    await client.post(URL, json=object())  # refused
    client.get(URL).status_code  # refused
    with client.stream("GET", URL):  # refused
        pass
    with client:  # refused
        pass
    await client.close()  # refused
    AsyncClient(timeout="x")  # refused
    async with client.stream("GET", URL, params={"a": 1}) as response:
        await response.aread()
    async for result in client.map([URL]):
        result.ok  # refused
    async for received in client.map([URL], return_exceptions=False):
        print(received.ok)
    (await client.get(URL, headers={"A": "b"})).raise_for_status()


def functions() -> None:
    curlhttp.get()  # refused
    status: str = curlhttp.get(URL).raise_for_status().json(type=int)  # refused
    status = curlhttp.get(URL).raise_for_status().json(type=str)
    print(status)
    curlhttp.get(3)  # refused
    curlhttp.get(URL, headers=3)  # refused
    curlhttp.get(URL, headers={"X-Number": 3})  # refused
    curlhttp.get(URL, params=object())  # refused
    curlhttp.get(URL, timeout="x")  # refused
    curlhttp.get(URL, auth="user")  # refused
    curlhttp.get(URL, proxies=["http://localhost"])  # refused
    curlhttp.get(URL, hooks={"response": print})  # refused
    curlhttp.get(URL).iter_content(3)  # refused
    curlhttp.get(URL, verify=3)  # refused
    curlhttp.get(URL, retry="3")  # refused
    curlhttp.post(URL, files={"a": 3})  # refused
    curlhttp.post(URL, json=object())  # refused
    curlhttp.get(URL).status  # refused
    curlhttp.get(URL, {"a": 1}, headers={"A": "b", "C": None}, timeout=(1, 2.5))
    curlhttp.post(URL, {"a": 1}, auth=("user", "password"), verify="ca.pem", retry=3)
    received: curlhttp.Response = curlhttp.post(URL, None, {"a": 1}, params={"b": 2})
    print(received, curlhttp.stream("GET", URL).iter_text())


def moved_names(error: curlhttp.exceptions.Timeout) -> None:
    curlhttp.Timings  # refused
    curlhttp.Request("GET", URL)  # refused
    curlhttp.exceptions.Timeout(connect=3)  # refused
    curlhttp.Timeout("too late")  # refused
    curlhttp.Timeout(3, connect=5)  # refused
    same: curlhttp.TimeoutException = error
    raise same from curlhttp.requests.Timeout("too late")


def wraps(
    client: Client,
    timeout: TimeoutInput | UseClientDefault = USE_CLIENT_DEFAULT,
    retry: RetryInput | UseClientDefault = USE_CLIENT_DEFAULT,
    auth: AuthInput | UseClientDefault | None = USE_CLIENT_DEFAULT,
    verify: VerifyInput | UseClientDefault = USE_CLIENT_DEFAULT,
) -> None:
    client.get(URL, timeout=timeout, retry=retry, auth=auth, verify=verify)
    client.build_request("GET", URL, timeout=timeout, proxies=USE_CLIENT_DEFAULT)
    client.get(URL, timeout=UseClientDefault)  # refused
    if timeout is not USE_CLIENT_DEFAULT:
        Client(timeout=timeout)
    Client(timeout=USE_CLIENT_DEFAULT)  # refused


def wraps_all(client: Client, **options: Unpack[RequestOptions]) -> None:
    client.post(URL, **options)
    curlhttp.request("POST", URL, **options)
    wraps_all(client, timeout=USE_CLIENT_DEFAULT, json={"a": 1})
    wraps_all(client, timeout="3")  # refused


def drop_in() -> None:
    with curlhttp.Session() as session:
        session.get()  # refused
        session.get(URL, headers=3)  # refused
        session.get(URL, timeout="x")  # refused
        session.gett(URL)  # refused
        session.headers = 3  # refused
        session.get(URL, params=[("a", "b")], timeout=None, stream=True)
        session.send(session.prepare_request(curlhttp.requests.Request("GET", URL)))
