"""AWS signatures: AWS' own examples, and a server that verifies them from the wire."""

from __future__ import annotations

import datetime
import hashlib
import hmac
import io
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote_to_bytes

import pytest

import curlhttp
from curlhttp import AWSSigV4, RequestException
from tests.servers import AppServer
from tests.servers.record import Record
from tests.support.colours import ONE_OF_EACH, WITHOUT_UVLOOP, AnyClient
from tests.support.every_api import EVERY_CLIENT_API, Fetch
from tests.support.scripted import Scripted, moved

pytest.importorskip("botocore", reason="the extra aws is not installed")
pytestmark = pytest.mark.anyio

KEY, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
UNSIGNED = "UNSIGNED-PAYLOAD"


def auth(service: str = "service", *token: str) -> AWSSigV4:
    return AWSSigV4("us-east-1", service, (KEY, SECRET, *token))  # type: ignore[arg-type]


# --- examples of AWS ---


@ONE_OF_EACH
@pytest.mark.parametrize(
    ("method", "url", "options", "signature"),
    [
        ("GET", "/", {}, "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
        ("POST", "/", {}, "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
        (
            "GET",
            "/?Param2=value2&Param1=value1",
            {},
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
        ),
        ("GET", "/?ሴ=bar", {}, "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04"),
        (
            "POST",
            "/",
            {"data": {"Param1": "value1"}},
            "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
        ),
    ],
)
async def test_signatures_are_those_of_aws_examples(
    scripted: Scripted,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    url: str,
    options: Any,
    signature: str,
) -> None:
    """The signature version 4 test suite that AWS publishes; Authorization has the last word."""
    now = datetime.datetime(2015, 8, 30, 12, 36, 0)
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda *a, **k: now)
    client, engine = scripted([200], auth=auth())
    await client.request(method, "https://example.amazonaws.com" + url, **options)
    assert engine.sent[0].headers["Authorization"].endswith(f"Signature={signature}")


# --- what is on the wire ---


def reckoned(record: Record, service: str, secret: str = SECRET) -> str:
    """Return the signature of a request as it arrived, from the description of the algorithm."""
    given = str(record.header("authorization"))
    names = given.partition("SignedHeaders=")[2].partition(",")[0]
    scope = given.partition("Credential=")[2].partition(",")[0].partition("/")[2]
    pairs = []
    for pair in filter(None, record.query_string.split("&")):
        name, _, value = pair.partition("=")
        # A server decodes what arrives, in which a plus is a blank, and encodes it its own way.
        decoded = (unquote_to_bytes(part.replace("+", " ")) for part in (name, value))
        pairs.append("=".join(quote(part, safe="-_.~") for part in decoded))
    if service == "s3":
        path = quote(unquote_to_bytes(record.path), safe="/-_.~")
    else:  # escaped twice
        segments = [unquote_to_bytes(segment) for segment in record.path.split("/")]
        path = quote("/".join(quote(segment, safe="-_.~") for segment in segments), safe="/-_.~")
    body = str(record.header("x-amz-content-sha256") or hashlib.sha256(record.body).hexdigest())
    if body != UNSIGNED:
        assert body == hashlib.sha256(record.body).hexdigest()
    lines = [record.method, path, "&".join(sorted(pairs))]
    lines += [f"{name}:{' '.join(str(record.header(name)).split())}" for name in names.split(";")]
    canonical = "\n".join([*lines, "", names, body])
    date = str(record.header("x-amz-date"))
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    text = "\n".join(["AWS4-HMAC-SHA256", date, scope, digest])
    key = f"AWS4{secret}".encode()
    for part in (*scope.split("/"), text):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key.hex()


class Verifier:
    """Responds 200 to requests with a valid signature, and 403 to others."""

    def __init__(self, app: AppServer, service: str = "s3") -> None:
        self.service = service
        self.app = app
        for path in ("/a", "/b c", "/b%20c"):
            app.route(path, self.verify)

    def verify(self, record: Record, out: Any) -> None:
        signature = str(record.header("authorization")).rpartition("Signature=")[2]
        good = hmac.compare_digest(signature, reckoned(record, self.service))
        out.reply(200 if good else 403, b"signed" if good else b"forged")


@EVERY_CLIENT_API
async def test_with_every_api_a_server_accepts_the_signature(fetch: Fetch, app: AppServer) -> None:
    Verifier(app)
    assert (await fetch(app.url + "/a/b", auth=auth("s3"))).status_code == 200


ODD_URLS = [
    "/a",
    "/a/%41b~c/d'e!(f)*",
    "/a/ü/%FF/%2F/x+y",
    "/a/b:c@d,e;f=g$&h",
    "/a?",
    "/a?x",
    "/a?x=&x=1&X=2&b=%20+",
    "/a?list-type=2&prefix=a/b&delimiter=/",
    "/a?q=a:b,c'd!e(f)*~-_.",
    "/a?z=%FF&y=ü&y=%C3%BC",
    "/a?a==b&&c",
    "/a?versions&a=b",
    "/a?date=2020-01-01T00:00:00Z#fragment",
]


@WITHOUT_UVLOOP
@pytest.mark.parametrize("service", ("s3", "execute-api"))
@pytest.mark.parametrize("target", ODD_URLS)
async def test_the_signed_request_is_the_sent_one(
    client: AnyClient, app: AppServer, service: str, target: str
) -> None:
    Verifier(app, service)
    found = await client.get(app.url + target, auth=auth(service, "to/ken=="))
    assert (found.status_code, found.content) == (200, b"signed")
    assert app.requests[0].header("x-amz-security-token") == "to/ken=="
    assert "+" not in app.requests[0].target


@WITHOUT_UVLOOP
async def test_params_headers_and_host_are_signed_as_they_are_sent(
    client: AnyClient, app: AppServer
) -> None:
    Verifier(app)
    found = await client.request(
        "PUT",
        app.url + "/a/key",
        params={"a b": "c d+e", "ü": "&="},
        headers={
            "Host": "bucket.example:81",
            "X-Amz-Meta-Two": "a   b",
            "Content-Type": "text/plain; charset=utf-8",
            "Accept-Language": "de",
        },
        content=b"body",
        auth=auth("s3"),
    )
    assert found.status_code == 200
    names = str(app.requests[0].header("authorization")).partition("SignedHeaders=")[2]
    assert names.startswith("content-type;host;x-amz-content-sha256;x-amz-date;x-amz-meta-two,")


@WITHOUT_UVLOOP
@pytest.mark.parametrize("service", ("s3", "execute-api"))
@pytest.mark.parametrize("place", ("middleware", "attempt_middleware"))
async def test_what_a_middleware_changes_is_signed(
    make_client: Callable[..., AnyClient], app: AppServer, service: str, place: str
) -> None:
    async def change(
        request: curlhttp.ClientRequest, send: curlhttp.types.Send
    ) -> curlhttp.Response:
        request.content = request.content.upper()
        request.headers["X-Amz-Meta-Who"] = "me"
        return await send(request.derive(params={"b": "c d"}))

    Verifier(app, service)
    client = make_client(auth=auth(service), **{place: [change]})
    found = await client.request("PUT", app.url + "/a/key", content=b"body")
    assert (found.status_code, found.content) == (200, b"signed")
    assert app.requests[0].body == b"BODY"


def whole() -> bytes:
    return b"x" * 70_000


def a_file() -> io.BytesIO:
    return io.BytesIO(whole())


def a_generator() -> Iterator[bytes]:
    yield whole()


async def an_async_generator() -> AsyncIterator[bytes]:
    yield whole()


@WITHOUT_UVLOOP
@pytest.mark.parametrize("service", ("s3", "execute-api"))
@pytest.mark.parametrize("make", (whole, a_file, a_generator))
async def test_bodies_are_hashed_or_sent_unsigned_over_https(
    client: AnyClient,
    app: AppServer,
    tls_app: AppServer,
    service: str,
    make: Callable[[], Any],
) -> None:
    if make is a_generator and not client.is_blocking:
        make = an_async_generator
    for server in (app, tls_app):
        Verifier(server, service)
        send = client.post(server.url + "/a", content=make(), auth=auth(service))
        if server is app and make in (a_generator, an_async_generator):
            with pytest.raises(curlhttp.UnrewindableBodyError, match="https"):
                await send
            assert not server.requests
            continue
        assert (await send).status_code == 200
        assert server.requests[0].body == whole()
        checksum = server.requests[0].header("x-amz-content-sha256")
        is_streamed = make is not whole
        is_unsigned = server is tls_app and is_streamed and (make is not a_file or service == "s3")
        assert (checksum == UNSIGNED) == is_unsigned


@ONE_OF_EACH
async def test_a_redirect_to_another_host_has_no_signature(scripted: Scripted) -> None:
    client, engine = scripted([moved("http://evil.test/"), 200], auth=auth("s3", "token"))
    await client.get("http://s3.test/")
    assert "X-Amz-Security-Token" in engine.sent[0].headers
    for name in ("Authorization", "X-Amz-Security-Token", "X-Amz-Date"):
        assert name not in engine.sent[1].headers


# --- credentials ---


class Renewing:
    """Credentials that expire, as botocore has them."""

    def __init__(self) -> None:
        self.expired = False
        self.count = 0
        self.threads: list[threading.Thread] = []

    def refresh_needed(self) -> bool:
        return self.expired

    def get_frozen_credentials(self) -> Any:
        from botocore.credentials import ReadOnlyCredentials

        self.count += 1
        self.expired = False
        self.threads.append(threading.current_thread())
        return ReadOnlyCredentials(f"AK{self.count}", SECRET, f"token{self.count}")


@ONE_OF_EACH
@pytest.mark.parametrize("is_function", (False, True))
async def test_credentials_that_expire_are_renewed_in_a_thread(
    scripted: Scripted, is_function: bool
) -> None:
    keys = Renewing()
    given: Any = (lambda: keys) if is_function else keys
    client, engine = scripted([200] * 3, auth=AWSSigV4("r", "s3", given))
    for _ in range(2):
        await client.get("https://s3.test/")
    keys.expired = True
    await client.get("https://s3.test/")
    assert [sent.headers["X-Amz-Security-Token"] for sent in engine.sent] == [
        "token1",
        "token1",
        "token2",
    ]
    in_main = [thread is threading.main_thread() for thread in keys.threads]
    assert in_main == [client.is_blocking] * 2


@ONE_OF_EACH
async def test_credentials_are_those_of_the_environment(
    scripted: Scripted, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKENV")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", "envtoken")
    client, engine = scripted([200])
    await client.get("https://s3.test/", auth=AWSSigV4("r", "s3"))
    assert "Credential=AKENV/" in engine.sent[0].headers["Authorization"]
    assert engine.sent[0].headers["X-Amz-Security-Token"] == "envtoken"


@ONE_OF_EACH
async def test_credentials_are_those_of_a_profile(
    scripted: Scripted, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "credentials"
    path.write_text(f"[work]\naws_access_key_id = AKWORK\naws_secret_access_key = {SECRET}\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(path))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    client, engine = scripted([200])
    await client.get("https://s3.test/", auth=AWSSigV4("r", "s3", profile="work"))
    assert "Credential=AKWORK/" in engine.sent[0].headers["Authorization"]


@ONE_OF_EACH
async def test_no_credentials_are_an_error_of_the_request(
    scripted: Scripted, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from botocore.exceptions import NoCredentialsError

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "BOTO_CONFIG"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    client, engine = scripted([])
    with pytest.raises(RequestException, match="no AWS credentials: ") as caught:
        await client.get("https://s3.test/", auth=AWSSigV4("r", "s3"))
    assert isinstance(caught.value.__cause__, NoCredentialsError)
    assert str(caught.value.request) == "GET https://s3.test/"
    assert engine.sent == []


@ONE_OF_EACH
async def test_credentials_that_cannot_be_renewed_are_an_error_of_the_request(
    scripted: Scripted,
) -> None:
    from botocore.credentials import ReadOnlyCredentials
    from botocore.exceptions import CredentialRetrievalError

    class Failing:
        calls = 0

        def get_frozen_credentials(self) -> ReadOnlyCredentials:
            self.calls += 1
            if self.calls == 1:
                raise CredentialRetrievalError(provider="sso", error_msg="the token \x1b[2J ended")
            return ReadOnlyCredentials("AK", SECRET, None)

    client, engine = scripted([200])
    signing = AWSSigV4("r", "s3", Failing())
    with pytest.raises(RequestException, match=r"no AWS credentials: .* sso: the token ") as caught:
        await client.get("https://s3.test/", auth=signing)
    assert isinstance(caught.value.__cause__, CredentialRetrievalError)
    assert "\x1b" not in str(caught.value)
    assert caught.value.request is not None
    assert not caught.value.request_sent
    assert (await client.get("https://s3.test/", auth=signing)).status_code == 200  # tried again
    assert len(engine.sent) == 1


def test_nothing_of_the_keys_is_shown() -> None:
    shown = repr(auth("s3", "token"))
    assert KEY not in shown
    assert SECRET not in shown


def test_without_botocore_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore.auth", None)
    with pytest.raises(ImportError, match=r"pip install 'curlhttp\[aws\]'"):
        auth()
