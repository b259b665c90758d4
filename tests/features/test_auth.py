"""Authentication over the wire, without libcurl's own."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import curlhttp
from curlhttp import BasicAuth, BearerAuth, DigestAuth
from tests.servers import AppServer, Record, refused_port
from tests.support.colours import WITHOUT_UVLOOP, AnyClient

pytestmark = [pytest.mark.anyio, WITHOUT_UVLOOP]

MakeClient = Callable[..., AnyClient]
DIGEST = "/digest?user=u&password=p"


def sent(app: AppServer) -> list[str | None]:
    return [record.header("authorization") for record in app.requests]


# --- what needs no challenge ---


@pytest.mark.parametrize("auth", [("u", "p"), BasicAuth("u", "p"), BasicAuth(b"u", b"p")])
async def test_basic_is_sent_at_once(client: AnyClient, app: AppServer, auth: Any) -> None:
    found = await client.get(app.url + "/basic?user=u&password=p", auth=auth)
    assert found.content == b"welcome"
    assert sent(app) == ["Basic dTpw"]


async def test_bearer_may_be_a_function(client: AnyClient, app: AppServer) -> None:
    tokens = iter(["one", "two"])
    auth = BearerAuth(lambda: next(tokens))
    for token in ("one", "two"):
        assert (await client.get(app.url + f"/bearer?token={token}", auth=auth)).ok
    assert (await client.get(app.url + "/bearer?token=t", auth=BearerAuth("t"))).ok


async def test_a_function_of_the_request_authenticates(client: AnyClient, app: AppServer) -> None:
    def sign(request: curlhttp.ClientRequest) -> curlhttp.ClientRequest:
        request.headers["X-Signature"] = f"{request.method} {request.url.target}"
        return request

    found = await client.get(app.url + "/redirect/1", auth=sign)
    assert [r.header("x-signature") for r in app.requests] == ["GET /redirect/1", "GET /"]
    assert found.request.headers["X-Signature"] == "GET /"


async def test_an_auth_object_may_send_to_another_server_first(
    client: AnyClient, app: AppServer
) -> None:
    class Token(curlhttp.Auth):
        def auth_flow(self, request: curlhttp.ClientRequest) -> Any:
            token = yield request.derive(url=app.url + "/json", method="POST")
            request.headers["Authorization"] = f"Bearer {token.json()['hello']}"
            yield request

    found = await client.get(app.url + "/bearer?token=world", auth=Token())
    assert found.content == b"welcome"
    assert [record.method for record in app.requests] == ["POST", "GET"]


async def test_after_an_auth_raises_the_client_is_usable(
    make_client: MakeClient, app: AppServer
) -> None:
    client = make_client(max_connections=1, timeout=curlhttp.Timeout(pool=30))

    class Broken(curlhttp.Auth):
        def auth_flow(self, request: curlhttp.ClientRequest) -> Any:
            yield request
            raise LookupError("no token")

    for stream in (False, True):
        with pytest.raises(LookupError, match="no token"):
            await client.request("GET", app.url + "/bytes/300000", auth=Broken(), stream=stream)
        assert (await client.get(app.url)).ok


async def test_wrong_values_of_auth_are_refused(client: AnyClient, app: AppServer) -> None:
    with pytest.raises(TypeError, match="auth must be"):
        await client.get(app.url, auth="user:s3cret")
    assert not app.requests


# --- which credentials count ---


async def test_the_requests_auth_overrides_the_clients_and_none_disables_it(
    make_client: MakeClient, app: AppServer
) -> None:
    client = make_client(auth=("client", "c"))
    await client.get(app.url)
    await client.get(app.url, auth=("u", "p"))
    await client.get(app.url, auth=None)
    assert sent(app) == ["Basic Y2xpZW50OmM=", "Basic dTpw", None]


async def test_auth_overwrites_a_header_and_a_header_alone_is_sent(
    client: AnyClient, app: AppServer
) -> None:
    headers = {"Authorization": "Bearer mine"}
    await client.get(app.url, headers=headers, auth=("u", "p"))
    await client.get(app.url, headers=headers)
    assert sent(app) == ["Basic dTpw", "Bearer mine"]


async def test_userinfo_authenticates_and_is_never_shown(
    make_client: MakeClient, app: AppServer
) -> None:
    client = make_client(auth=("client", "c"))
    url = f"http://us%40er:s3%3Acret@127.0.0.1:{app.port}"
    found = await client.get(url + "/status/404")
    await client.get(url + "/", auth=("u", "p"))
    await client.get(url + "/", auth=None)
    assert sent(app) == ["Basic dXNAZXI6czM6Y3JldA==", "Basic dTpw", "Basic dXNAZXI6czM6Y3JldA=="]
    assert b"cret@" not in app.requests[0].raw
    assert found.url == app.url + "/status/404"
    with pytest.raises(curlhttp.HTTPError) as caught:
        found.raise_for_status()
    for shown in (str(caught.value), repr(caught.value), repr(found.request), repr(found)):
        assert "s3" not in shown


async def test_userinfo_is_in_no_message_of_a_failure(client: AnyClient) -> None:
    with refused_port() as port:
        with pytest.raises(curlhttp.ConnectionError) as caught:
            await client.get(f"http://user:s3cret@127.0.0.1:{port}/")
    error = caught.value
    assert "s3cret" not in f"{error}{error!r}{error.request!r}{error.args!r}"
    assert error.request is not None
    assert "czNjcmV0" not in repr(error.request.headers)


async def test_credentials_of_base_url_are_for_urls_below_it(
    make_client: MakeClient, app: AppServer
) -> None:
    client = make_client(base_url=f"http://u:p@127.0.0.1:{app.port}/")
    await client.get("/bytes/1")
    await client.get(app.at("localhost") + "/bytes/1")
    assert sent(app) == ["Basic dTpw", None]
    assert "u:p" not in repr(client.real)


# --- netrc ---


@pytest.fixture
def netrc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a netrc file for 127.0.0.1, which the environment names."""
    path = tmp_path / "netrc"
    path.write_text("machine 127.0.0.1 login u password p\n")
    path.chmod(0o600)
    monkeypatch.setenv("NETRC", str(path))
    return path


async def test_netrc_is_used_last(netrc: Path, make_client: MakeClient, app: AppServer) -> None:
    client = make_client()
    await client.get(app.url)
    await client.get(app.url, auth=("other", "x"))
    await client.get(app.url, headers={"Authorization": "Bearer mine"})
    await client.get(app.url, auth=None)
    await client.get(app.at("localhost"))
    assert sent(app) == ["Basic dTpw", "Basic b3RoZXI6eA==", "Bearer mine", None, None]


async def test_netrc_is_not_read_without_trust(
    netrc: Path, make_client: MakeClient, app: AppServer
) -> None:
    await make_client(trust_env=False).get(app.url)
    assert sent(app) == [None]


async def test_netrc_is_the_one_of_when_the_client_was_made(
    netrc: Path,
    make_client: MakeClient,
    app: AppServer,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    client = make_client()
    monkeypatch.setenv("NETRC", str(tmp_path / "another"))
    await client.get(app.url)
    await make_client().get(app.url)
    assert sent(app) == ["Basic dTpw", None]


async def test_each_redirect_has_its_own_netrc_entry(
    netrc: Path, make_client: MakeClient, app: AppServer
) -> None:
    """An entry of netrc is for its own host."""
    netrc.write_text(netrc.read_text() + "machine localhost login l password q\n")
    client = make_client()
    target = f"/redirect-to?url={app.at('localhost')}/echo"
    await client.get(app.url + target)
    await client.get(app.url + target, auth=("mine", "m"))
    assert sent(app) == ["Basic dTpw", "Basic bDpx", "Basic bWluZTpt", "Basic bDpx"]


async def test_auth_none_holds_for_redirects_as_well(
    netrc: Path, make_client: MakeClient, app: AppServer
) -> None:
    netrc.write_text("default login u password p\n")
    target = f"/redirect-to?url={app.at('localhost')}/redirect/1"
    await make_client().get(app.url + target, auth=None)
    assert sent(app) == [None, None, None]


# --- Digest ---


@pytest.mark.parametrize("qop", ("auth", "auth,auth-int", ""))
@pytest.mark.parametrize(
    "algorithm", ("MD5", "MD5-sess", "SHA-256", "SHA-256-sess", "SHA-512", "SHA-512-sess")
)
async def test_digest_supports_every_algorithm(
    client: AnyClient, app: AppServer, algorithm: str, qop: str
) -> None:
    url = app.url + f"{DIGEST}&algorithm={algorithm}&qop={qop}"
    found = await client.get(url, auth=DigestAuth("u", "p"))
    assert found.content == b"welcome"
    assert [past.status_code for past in found.history] == [401]
    assert len(app.requests) == 2


async def test_digest_uses_a_nonce_again_without_another_challenge(
    client: AnyClient, app: AppServer
) -> None:
    auth = DigestAuth("u", "p")
    for _ in range(3):
        assert (await client.get(app.url + DIGEST, auth=auth)).content == b"welcome"
    values = sent(app)
    assert len(values) == 4
    assert values[0] is None
    assert all(f"nc=0000000{n}" in str(values[n]) for n in (1, 2, 3))


async def test_digest_of_a_client_is_shared_by_its_requests(
    make_client: MakeClient, app: AppServer
) -> None:
    client = make_client(auth=DigestAuth("u", "p"))
    await client.get(app.url + DIGEST)
    # Counts may arrive out of order, which this server refuses as a replay: only then is there
    # another challenge.
    found = await client.gather(8, "GET", app.url + DIGEST)
    assert [response.content for response in found].count(b"welcome") >= 1
    assert (await client.get(app.url + DIGEST)).content == b"welcome"


async def test_digest_retries_once_for_a_stale_nonce(client: AnyClient, app: AppServer) -> None:
    auth = DigestAuth("u", "p")
    for _ in range(2):
        assert (await client.get(app.url + DIGEST + "&stale=1", auth=auth)).content == b"welcome"
    assert len(app.requests) == 4


async def test_digest_stops_after_a_wrong_password(client: AnyClient, app: AppServer) -> None:
    auth = DigestAuth("u", "wrong")
    found = await client.get(app.url + DIGEST, auth=auth)
    assert (found.status_code, len(app.requests)) == (401, 2)
    await client.get(app.url + DIGEST, auth=auth)
    assert sent(app)[2] is None  # the session that was refused is forgotten


@pytest.mark.parametrize("kind", ("bytes", "file", "form", "callable"))
async def test_digest_sends_the_body_again(client: AnyClient, app: AppServer, kind: str) -> None:
    data = b"z" * 70_000
    kinds: dict[str, dict[str, Any]] = {
        "bytes": {"content": data},
        "file": {"content": io.BytesIO(data)},
        "form": {"files": {"f": io.BytesIO(data)}},
        "callable": {"content": lambda: iter([data])},
    }
    options = kinds[kind]
    found = await client.post(app.url + DIGEST, auth=DigestAuth("u", "p"), **options)
    assert found.content == b"welcome"
    first, second = app.requests
    assert first.body == second.body
    assert data in second.body


async def test_digest_cannot_send_a_generator_again(client: AnyClient, app: AppServer) -> None:
    with pytest.raises(curlhttp.UnrewindableBodyError) as caught:
        body = (piece for piece in [b"a", b"b"])
        await client.post(app.url + DIGEST, auth=DigestAuth("u", "p"), content=body)
    assert len(app.requests) == 1
    assert caught.value.response is not None
    assert caught.value.response.status_code == 401


async def test_a_flow_that_cannot_send_a_body_again_names_the_request(
    client: AnyClient, app: AppServer
) -> None:
    class Twice(curlhttp.Auth):
        def auth_flow(self, request: curlhttp.ClientRequest) -> curlhttp.types.AuthFlow:
            yield request
            yield request

    with pytest.raises(curlhttp.UnrewindableBodyError) as caught:
        await client.post(app.url + "/echo", auth=Twice(), content=iter([b"a", b"b"]))
    assert str(caught.value).startswith(f"POST {app.url}/echo: an iterator cannot be sent again")


async def test_digest_of_a_streamed_response(client: AnyClient, app: AppServer) -> None:
    url = app.url + DIGEST
    async with await client.stream("GET", url, auth=DigestAuth("u", "p")) as streamed:
        assert await streamed.read() == b"welcome"
    assert app.connections == 1  # the body of the challenge was read, not thrown away


async def test_digest_continues_after_a_redirect_on_the_same_origin(
    client: AnyClient, app: AppServer
) -> None:
    app.route("/hop", lambda record, out: out.reply(302, b"", [("Location", DIGEST)]))
    found = await client.get(app.url + "/hop", auth=DigestAuth("u", "p"))
    assert found.content == b"welcome"
    assert [past.status_code for past in found.history] == [302, 401]


async def test_the_authenticated_request_has_the_cookie_of_the_challenge(
    client: AnyClient, app: AppServer
) -> None:
    def guarded(record: Record, out: Any) -> None:
        challenge = ("WWW-Authenticate", 'Digest realm="r", nonce="n"')
        if record.header("authorization") is None:
            out.reply(401, b"", [challenge, ("Set-Cookie", "session=1")])
        else:
            out.reply(200)

    app.route("/guarded", guarded)
    await client.get(app.url + "/guarded", auth=DigestAuth("u", "p"))
    assert [record.header("cookie") for record in app.requests] == [None, "session=1"]
    assert client.real.cookies["session"] == "1"


@pytest.mark.parametrize("challenge", ("Basic realm=x", "Digest realm=r, nonce=n", "Negotiate"))
async def test_without_auth_a_challenge_is_returned(
    client: AnyClient, app: AppServer, challenge: str
) -> None:
    app.route("/hop", lambda r, out: out.reply(401, b"", [("WWW-Authenticate", challenge)]))
    assert (await client.get(app.url + "/hop")).status_code == 401
    assert (await client.get(app.url + "/hop", auth=("u", "p"))).status_code == 401
    assert sent(app) == [None, "Basic dTpw"]
