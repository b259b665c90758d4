"""No secret remains in a recording, however it was sent, and the recording plays back."""

from __future__ import annotations

import base64
import gzip
import json
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import brotli
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from curlhttp import Record
from curlhttp.exceptions import ChunkedEncodingError, ConnectionError
from curlhttp.testing import Answer, ScriptedEngine
from tests.record.test_redaction import mask_body
from tests.support.codings import zstd
from tests.support.colours import ONE_OF_EACH, AnyClient
from tests.support.pace import assert_cheap
from tests.support.scripted import URL
from tests.support.values import slow_but_for

Make = Callable[..., AnyClient]

CODINGS = ["gzip", "deflate", "br", *(["zstd"] if zstd else [])]
CANARY = "c4nary-Zq7w9"
OTHER = "0ther-Xk2m5-value"
FORM = "application/x-www-form-urlencoded"
JSON = "application/json"
PLAIN = json.dumps({"user": "me", "password": CANARY})
CUT = PLAIN[:-4]
UTF_16 = "text/plain; charset=utf-16"
MULTIPART = "multipart/form-data; boundary=b0undary"


def compressed(coding: str, data: bytes) -> bytes:
    if coding == "zstd":
        return bytes(zstd.compress(data))
    ways: dict[str, Callable[[bytes], bytes]] = {
        "gzip": gzip.compress, "br": brotli.compress, "deflate": zlib.compress}  # fmt: skip
    return ways[coding](data)


def part(head: str, value: str | bytes = CANARY, *, boundary: str = "b0undary") -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return (
        f'--{boundary}\r\nContent-Disposition: form-data; name="user"\r\n\r\nme\r\n'
        f"--{boundary}\r\n{head}\r\n\r\n".encode()
        + data
        + f"\r\n--{boundary}--\r\n".encode()
    )


def disposed(rest: str, value: str | bytes = CANARY) -> bytes:
    return part(f"Content-Disposition: form-data; {rest}", value)


def nested(depth: int) -> str:
    text = PLAIN
    for _ in range(depth):
        text = json.dumps({"body": text})
    return text


Case = tuple[str, "str | bytes"]  # the Content-Type and the body

BODIES: dict[str, Case] = {
    # JSON
    "json": (JSON, PLAIN),
    "json in text/plain": ("text/plain", PLAIN),
    "json of no type": ("", PLAIN),
    "json as a form": (FORM, PLAIN),
    "json as binary": ("application/octet-stream", PLAIN),
    "json lines": ("application/x-ndjson", f'{{"a": 1}}\n{PLAIN}\n{{"b": 2}}\n'),
    "json in events": ("text/event-stream", f"event: x\ndata: {PLAIN}\n\ndata: end\n\n"),
    "json over lines of an event": (
        "text/event-stream", f'data: {{"token":\ndata: "{CANARY}"}}\n\n'),
    "json behind a guard": (JSON, f")]}}',\n{PLAIN}"),
    "json in a call": ("text/javascript", f"back({PLAIN});"),
    "json behind a lone quotation mark": ("text/plain", f'5" wide {PLAIN}'),
    "json twice": (JSON, f'{{"token": "a", "token": "{CANARY}"}}'),
    "json with an escaped name": (JSON, f'{{"pass\\u0077ord": "{CANARY}"}}'),
    "json with an escaped quotation mark": (JSON, f'{{"token": "a\\"{CANARY}"}}'),
    "json with a long name": (JSON, json.dumps({"a" * 80 + "_password": CANARY})),
    "json with a line end in the value": (JSON, f'{{"password": "a\n{CANARY}"}}'),
    "json in a list": (JSON, json.dumps({"tokens": ["a", CANARY], "b": 1})),
    "json in lists of lists": (JSON, json.dumps({"tokens": [["a"], [{"x": CANARY}]]})),
    "json in an object": (JSON, json.dumps({"password": {"value": CANARY}, "b": "x"})),
    "json with names as of headers": (JSON, json.dumps({"headers": {"X-Api-Key": CANARY}})),
    "json with cookies": (JSON, json.dumps({"cookies": {"sid": CANARY}})),
    "json with Authorization": (JSON, json.dumps({"Authorization": f"Basic {CANARY}"})),
    "json with a jwt": (JSON, json.dumps({"jwt": CANARY, "pwd": CANARY, "auth": CANARY})),
    "json with an account key": (JSON, json.dumps({"accountKey": CANARY})),
    "json with a number": (JSON, '{"pin": 48151623, "password": 48151623}'),
    "json in json": (JSON, nested(1)),
    "json in json in json": (JSON, nested(3)),
    "json too deep": (JSON, nested(7)),
    "json that is a string": (JSON, json.dumps(PLAIN)),
    "json in json in a list": (JSON, json.dumps([1, PLAIN])),
    "json in json as html has it": (JSON, json.dumps({"a": PLAIN}).replace('\\"', "\\u0022")),
    "json with a form": (JSON, json.dumps({"body": f"user=me&password={CANARY}"})),
    "json with a url": (JSON, json.dumps(["https://h.test/?a=1&token=" + CANARY])),
    "json with a url of a user": (JSON, json.dumps({"a": f"https://me:{CANARY}@h.test/"})),
    "json with a url's fragment": (JSON, json.dumps({"a": "https://h/#access_token=" + CANARY})),
    "graphql": (JSON, json.dumps({"query": "q($p: String)", "variables": {"password": CANARY}})),
    "graphql in a query": (JSON, json.dumps({"query": f'{{ login(password: "{CANARY}") }}'})),
    "graphql itself": ("application/graphql", f'mutation {{ login(password: "{CANARY}") }}'),
    "graphql's blocks": ("application/graphql", f'{{ a(password: """x "{CANARY}" y""") }}'),
    # cut
    "json that is cut": (JSON, CUT),
    "json that is cut in an escape": (JSON, f'{{"password": "{CANARY}\\'),
    "json that is cut in a list": (JSON, f'{{"tokens": ["a", "{CANARY}'),
    "json that is cut within json": (JSON, json.dumps({"body": PLAIN})[:-6]),
    "json that is cut in a letter": (JSON, f'{{"a": "é", "token": "{CANARY}é'),
    "events that are cut": ("text/event-stream", f"data: {{}}\n\ndata: {CUT}"),
    "a form that is cut": (FORM, f"a=1&password={CANARY}"),
    "parts that are cut": (MULTIPART, disposed('name="password"')[:-20]),
    "parts that are cut in a head": (
        MULTIPART, b'--b0undary\r\nContent-Disposition: x; password="' + CANARY.encode()),
    # charsets
    "json in latin-1": (JSON, f'{{"a": "é", "password": "{CANARY}"}}'.encode("latin-1")),
    "json of half a letter": (JSON, f'{{"password": "{CANARY}", "a": "é'.encode()[:-1]),
    "json behind bytes": ("application/octet-stream", b"\xff\xfe\xfd" + PLAIN.encode()),
    **{
        f"{name} in {charset}{' as said' if says else ''}": (
            f"{kind}; charset={charset}" if says else kind, text.encode(charset))
        for name, kind, text in [
            ("json", JSON, PLAIN), ("cut json", JSON, CUT), ("a form", FORM, f"a=1&token={CANARY}"),
            ("text", "text/plain", PLAIN),
            ("xml", "text/xml", f"<a><password>{CANARY}</password></a>")]
        for charset in ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be", "utf-8-sig"]
        for says in (True, False)
    },
    "json in half of utf-16": (JSON, PLAIN.encode("utf-16")[:-1]),
    "json in utf-16 that says utf-8": (f"{JSON}; charset=utf-8", PLAIN.encode("utf-16-le")),
    "json in utf-8 that says utf-16": (f"{JSON}; charset=utf-16", PLAIN.encode()),
    "json in utf-7": (f"{JSON}; charset=utf-7", PLAIN.replace('"', "+ACI-").encode()),
    "json in ebcdic": (f"{JSON}; charset=cp037", PLAIN.encode("cp037")),
    "json in shift_jis": (f"{JSON}; charset=shift_jis",
                          f'{{"a": "表", "token": "{CANARY}"}}'.encode("shift_jis")),
    "json in shift_jis unsaid": (JSON, f'{{"a": "表", "token": "{CANARY}"}}'.encode("shift_jis")),
    # forms
    "a form": (FORM, f"user=me&password={CANARY}"),
    "a form with a charset": (f"{FORM}; charset=utf-8", f"user=me&password={CANARY}"),
    "a form in capitals": (FORM.upper(), f"user=me&password={CANARY}"),
    "a form of no type": ("", f"user=me&password={CANARY}"),
    "a form as text": ("text/html", f"oauth_token=a&oauth_token_secret={CANARY}"),
    "a form twice": (FORM, f"password=a&password={CANARY}"),
    "a form with brackets": (FORM, f"user[password]={CANARY}"),
    "a form with an escaped name": (FORM, f"p%61ssword={CANARY}"),
    "a form in utf-16 in its escapes": (FORM, f"%00p%00a%00s%00s%00w%00o%00r%00d={CANARY}"),
    "a form with a semicolon": (FORM, f"password=a;{CANARY}"),
    "a form with a hash": (FORM, f"password=a#{CANARY}"),
    "a form with a semicolon and an equals sign": (FORM, f"password=a;b={CANARY}"),
    "a form with json": (FORM, urlencode({"payload": PLAIN})),
    "a form with cut json": (FORM, urlencode({"payload": CUT})),
    "a form with json as it is": (FORM, f"payload={PLAIN}"),
    "a form with escaped json, escaped": (FORM, f"payload={quote(quote(PLAIN))}"),
    "a form with a url": (FORM, urlencode({"next": f"https://h.test/?token={CANARY}"})),
    # parts
    "parts": (MULTIPART, disposed('name="password"')),
    "parts of a quoted boundary": ('multipart/form-data; boundary="b0undary"',
                                   disposed('name="password"')),
    "parts whose boundary comes first": ("multipart/form-data;boundary=b0undary; charset=utf-8",
                                         disposed('name="password"')),
    "parts whose boundary is another": ("multipart/form-data; boundary=other",
                                        disposed('name="password"')),
    "parts without a boundary": ("multipart/form-data", disposed('name="password"')),
    **{f"a part named {name}": (MULTIPART, disposed(f'name="{name}"'))
       for name in ("api_key", "client_secret", "access_token", "session", "code", "pwd", "otp",
                    "user[password]", "p%61ssword", "x.key")},
    "a part with its name unquoted": (MULTIPART, disposed("name=password")),
    "a part with its name in RFC 2231": (MULTIPART, disposed("name*=utf-8''p%61ssword")),
    "a part with its name in pieces": (MULTIPART, disposed('name*0="pass"; name*1="word"')),
    "a part with its name in RFC 2047": (MULTIPART, disposed('name="=?utf-8?B?cGFzc3dvcmQ=?="')),
    "a part with its name in the next line": (MULTIPART, disposed('\r\n name="password"')),
    "a file named so": (MULTIPART, disposed('name="f"; filename="password"')),
    "a file of secrets": (MULTIPART, disposed('name="f"; filename="api_token.txt"')),
    "a file in a field named so": (MULTIPART, disposed('name="password"; filename="x"')),
    "a file of json": (MULTIPART, disposed('name="f"; filename="x"', PLAIN)),
    "a file of cut json": (MULTIPART, disposed('name="f"; filename="x"', CUT)),
    "a part of json": (MULTIPART, part(
        'Content-Disposition: form-data; name="f"\r\nContent-Type: application/json', PLAIN)),
    "a part of json in utf-16": (MULTIPART, part(
        'Content-Disposition: form-data; name="f"\r\nContent-Type: application/json',
        PLAIN.encode("utf-16"))),
    "a part in base64": (MULTIPART, part(
        'Content-Disposition: form-data; name="f"\r\nContent-Transfer-Encoding: base64',
        base64.b64encode(PLAIN.encode()))),
    "a part in quoted-printable": (MULTIPART, part(
        'Content-Disposition: form-data; name="f"\r\nContent-Transfer-Encoding: quoted-printable',
        PLAIN.replace("p", "=70"))),
    "a part that is coded": (MULTIPART, part(
        'Content-Disposition: form-data; name="f"\r\nContent-Encoding: gzip',
        gzip.compress(PLAIN.encode()))),
    "a part with a header": (MULTIPART, part(
        f'Content-Disposition: form-data; name="f"\r\nX-Api-Key: {CANARY}', "x")),
    "a part of parts": (MULTIPART, part(
        'Content-Disposition: form-data; name="f"\r\nContent-Type: multipart/mixed; boundary=in',
        part('Content-Disposition: file; name="password"', boundary="in"))),
    "parts with bare line ends": (MULTIPART, disposed('name="password"').replace(b"\r\n", b"\n")),
    "parts of requests": ("multipart/mixed; boundary=b0undary", part(
        "Content-Type: application/http",
        f"GET /x?token={CANARY} HTTP/1.1\r\nAuthorization: Bearer {CANARY}\r\n\r\n{PLAIN}")),
    # XML
    "xml": ("text/xml", f"<a><password>{CANARY}</password><b>c</b></a>"),
    "xml with a prefix": ("application/soap+xml", f'<w:Password Type="x">{CANARY}</w:Password>'),
    "xml with cdata": ("text/xml", f"<password><![CDATA[a<{CANARY}]]></password>"),
    "xml that is cut": ("text/xml", f"<a><password>{CANARY}"),
    "xml with an attribute": ("text/xml", f'<a password="{CANARY}"/><b token=\'{CANARY}\'/>'),
    "xml of no type": ("", f"<Credentials><Id>{CANARY}</Id></Credentials>"),
}  # fmt: skip


def forms_of(secret: str) -> list[str]:
    """Return all that a secret may look like in a file."""
    found = [secret, quote(secret), "".join(f"%{byte:02X}" for byte in secret.encode()),
             "".join(f"\\u{ord(letter):04x}" for letter in secret)]  # fmt: skip
    for shape in (secret.encode(), secret.encode("utf-16-le"), secret.encode("utf-16-be")):
        for shift in range(3):  # base64 has three forms of what stands in the middle
            text = base64.b64encode(b"\0" * shift + shape).decode()
            found.append(text[(0, 2, 3)[shift] + 2 : -4])
    return found


def assert_gone(path: Path, secret: str = CANARY) -> list[dict[str, Any]]:
    """Return the entries of a file that has nothing of a secret, in whatever form."""
    text = path.read_text()
    decoded = text
    entries: list[dict[str, Any]] = json.loads(text)["log"]["entries"]
    for entry in entries:
        for place in (entry["request"].get("postData", {}), entry["response"]["content"]):
            if "base64" in (place.get("_encoding"), place.get("encoding")):
                data = base64.b64decode(place["text"])
                decoded += data.decode("latin-1") + data.replace(b"\0", b"").decode("latin-1")
    for form in forms_of(secret):
        assert form not in decoded, form
    assert "48151623" not in decoded
    return entries


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cassette.har"


def of_type(kind: str) -> dict[str, str]:
    return {"Content-Type": kind} if kind else {}


def as_bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


def test_the_forms_of_a_secret_are_found() -> None:
    for encode in (str.encode, lambda text: text.encode("utf-16-le")):
        for lead in ("", "a", "ab", "abc"):
            text = base64.b64encode(encode(lead + CANARY + "tail")).decode()
            assert any(form in text for form in forms_of(CANARY))


@pytest.mark.anyio
@ONE_OF_EACH
@pytest.mark.parametrize("name", BODIES)
async def test_a_secret_in_a_body_is_masked_and_any_other_matches(
    make_client: Make, path: Path, name: str
) -> None:
    kind, text = BODIES[name]
    body = as_bytes(text)
    engine = ScriptedEngine([Answer(headers=of_type(kind), content=body)])
    async with make_client(transport=engine) as client:
        with client.real.har(path):
            await client.post(URL, content=body, headers=of_type(kind))
    assert_gone(path)
    async with make_client(transport=Record(path, "none")) as client:
        response = await client.post(URL, content=body, headers=of_type(kind))
        assert response.content != body


@pytest.mark.anyio
@ONE_OF_EACH
@pytest.mark.parametrize("coding", [*CODINGS, "gzip, br", "x-gzip", "identity"])
@pytest.mark.parametrize("name", ["json", "a form", "json in utf-16", "a part named code"])
async def test_a_secret_in_a_coded_body_is_masked_and_any_other_matches(
    make_client: Make, path: Path, coding: str, name: str
) -> None:
    kind, text = BODIES.get(name, (JSON, PLAIN.encode("utf-16")))
    headers = {**of_type(kind), "Content-Encoding": coding}

    def coded(secret: str) -> bytes:
        data = as_bytes(text).replace(CANARY.encode(), secret.encode())
        data = data.replace(CANARY.encode("utf-16-le"), secret.encode("utf-16-le"))
        for each in coding.replace("x-gzip", "gzip").replace("identity", "").split(", "):
            data = compressed(each, data) if each else data
        return data

    engine = ScriptedEngine([Answer(headers=headers, content=coded(CANARY))] * 2)
    async with make_client(transport=engine) as client:
        with client.real.har(path):
            await client.post(URL, content=coded(CANARY), headers=headers)
            async with await client.stream("GET", URL) as stream:
                async for _ in stream.iterate("raw"):
                    pass
    first, second = assert_gone(path)
    assert first["request"]["postData"].get("_decoded", coding == "identity")
    assert "_coded" not in first["response"]["content"]
    assert second["response"]["content"]["text"] == first["response"]["content"]["text"]
    async with make_client(transport=Record(path, "none")) as client:
        response = await client.post(URL, content=coded(OTHER), headers=headers)
        assert CANARY.encode() not in response.content
        assert response.ok


@pytest.mark.anyio
@ONE_OF_EACH
@pytest.mark.parametrize("coding", ["gzip", "br", "compress", "aes128gcm", "gzip, made-up"])
async def test_a_body_that_cannot_be_decoded_is_masked_whole(
    make_client: Make, path: Path, coding: str
) -> None:
    body = b"\x1f\x8b" + base64.b64encode(PLAIN.encode())
    headers = {"Content-Type": JSON, "Content-Encoding": coding}
    response = Answer(headers=headers, content=body)
    async with make_client(transport=ScriptedEngine([response])) as client:
        with client.real.har(path):
            async with await client.stream("POST", URL, content=body, headers=headers) as stream:
                async for _ in stream.iterate("raw"):
                    pass
    (entry,) = assert_gone(path)
    assert entry["request"]["postData"]["text"] == "***"
    assert entry["response"]["content"]["text"] == "***"
    async with make_client(transport=Record(path, "none")) as client:
        other = b"\x1f\x8b" + b"other"
        async with await client.stream("POST", URL, content=other, headers=headers) as stream:
            raw = [piece async for piece in stream.iterate("raw")]
            assert b"".join(raw) == b"***"


@pytest.mark.anyio
@ONE_OF_EACH
@pytest.mark.parametrize("coding", ["identity", *CODINGS])
async def test_a_coded_stream_left_early_is_recorded_as_far_as_it_decodes(
    make_client: Make, path: Path, coding: str
) -> None:
    text = json.dumps({"password": CANARY, "a": ["%04x" % (7919 * n % 65536) for n in range(9000)]})
    data = text.encode() if coding == "identity" else compressed(coding, text.encode())
    pieces = [data[: len(data) // 2], data[len(data) // 2 :]]
    headers = {"Content-Type": JSON, "Content-Encoding": coding}
    engine = ScriptedEngine([Answer(headers=headers, content=pieces)])
    async with make_client(transport=engine) as client:
        with client.real.har(path):
            async with await client.stream("GET", URL) as stream:
                async for _ in stream.iterate("raw"):
                    break
    (entry,) = assert_gone(path)
    content = entry["response"]["content"]
    assert content["_cut"] is True
    begin = json.dumps({"password": "***", "a": ["0000", "1eef"]})[:-2]
    if coding in ("identity", "gzip", "deflate"):  # others give whole blocks only
        assert content["text"].startswith(begin)
    async with make_client(transport=Record(path, "none")) as client:
        response = await client.get(URL)
        assert response.text == content.get("text", "")


@pytest.mark.parametrize("name", slow_but_for([*BODIES][::3], BODIES))
def test_wherever_a_body_is_cut_no_part_of_its_secret_remains(name: str) -> None:
    kind, text = BODIES[name]
    body = as_bytes(text)
    for end in range(1, len(body), 2 if len(body) > 200 else 1):
        masked = mask_body(body[:end], kind)
        shown = masked.decode("cp037" if "cp037" in kind else "latin-1").replace("\0", "")
        assert CANARY[:4] not in shown
        assert mask_body(masked, kind) == masked


# --- what is around bodies ---


URLS = [
    f"?password={CANARY}",
    f"?password=a;{CANARY}",
    f"?a=1;token={CANARY}",
    f"?pass%77ord={CANARY}",
    "?" + urlencode({"variables": PLAIN}),
    "?" + urlencode({"variables": CUT}),
    "?variables=" + quote(quote(PLAIN)),
    "?" + urlencode({"next": f"https://h.test/?token={CANARY}"}),
    f"?tenant={CANARY}",
    f"?tenant=a;{CANARY}",
    f"#access_token={CANARY}",
]


@pytest.mark.anyio
@ONE_OF_EACH
@pytest.mark.parametrize("rest", URLS)
async def test_a_secret_in_a_url_is_masked_wherever_it_is_written(
    make_client: Make, path: Path, rest: str
) -> None:
    headers = dict.fromkeys(["Location", "Referer", "Link", "X-Original-Url"], URL + rest)
    engine = ScriptedEngine([Answer(302, headers=headers)])
    async with make_client(transport=engine) as client:
        with client.real.har(path, secrets=["tenant"]):
            await client.get(URL + rest, headers=headers, follow_redirects=False)
    (entry,) = assert_gone(path)
    assert entry["response"]["redirectURL"]
    async with make_client(transport=Record(path, "none", secrets=["tenant"])) as client:
        assert (await client.get(URL + rest, follow_redirects=False)).status_code == 302


FIELDS = [
    ("Authorization", f"Bearer {CANARY}"),
    ("Authorization", CANARY),
    ("Proxy-Authorization", f"Basic {base64.b64encode(CANARY.encode()).decode()}"),
    ("X-Api-Key", CANARY),
    ("Tenant", CANARY),
    ("X-Context", PLAIN),
    ("X-Context", CUT),
    ("X-Forwarded-Uri", f"/a?token={CANARY}"),
    ("X-Forwarded-Uri", f"/a?tenant={CANARY}"),
    ("Location", f"https://me:{CANARY}@h.test/"),
    ("Refresh", f"0; url=/a?token={CANARY}"),
    ("Cookie", f"a={CANARY}; b={CANARY}"),
    ("Cookie", CANARY),
    ("Set-Cookie", f"a={CANARY}; Path=/"),
    ("Set-Cookie", f"{CANARY}; Path=/"),
    ("Set-Cookie", f"={CANARY}"),
]


@pytest.mark.anyio
@ONE_OF_EACH
@pytest.mark.parametrize(("name", "value"), FIELDS)
async def test_a_secret_in_a_header_is_masked_there_and_among_the_cookies(
    make_client: Make, path: Path, name: str, value: str
) -> None:
    engine = ScriptedEngine([Answer(headers=[(name, value), (name, value)])])
    async with make_client(transport=engine) as client:
        with client.real.har(path, secrets=["tenant"]):
            await client.get(URL, headers={name: value}, follow_redirects=False)
    (entry,) = assert_gone(path)
    for side in ("request", "response"):
        assert name.lower() in {field["name"].lower() for field in entry[side]["headers"]}


WITH_SECRETS: dict[str, dict[str, Any]] = {
    "in a parameter": {"params": {"password": CANARY}},
    "in a parameter of its own": {"params": {"tenant": CANARY}},
    "in a header": {"headers": {"X-Api-Key": CANARY}},
    "in a header of its own": {"headers": {"Tenant": CANARY}},
    "in a cookie": {"headers": {"Cookie": f"a={CANARY}"}},
    "in basic credentials": {"auth": ("me", CANARY)},
    "in a form": {"data": {"password": CANARY}},
    "in json": {"json": {"password": CANARY}},
    "in json in a parameter": {"params": {"variables": PLAIN}},
    "in a part": {"files": {"password": CANARY}},
}


@pytest.mark.anyio
@ONE_OF_EACH
@pytest.mark.parametrize("place", WITH_SECRETS)
@pytest.mark.parametrize(
    "said",
    ["no answer for {}", 'they sent {{"password": "{}"}}', "https://h.test/?password={}: refused",
     "https://h.test/?tenant={}: refused", "https://me:{}@h.test/: refused"],
)  # fmt: skip
async def test_an_error_is_recorded_without_the_secrets_of_its_request(
    make_client: Make, path: Path, place: str, said: str
) -> None:
    error = ConnectionError(said.format(CANARY))
    async with make_client(transport=ScriptedEngine([error])) as client:
        with client.real.har(path, secrets=["tenant"]), pytest.raises(ConnectionError):
            await client.post(URL, **WITH_SECRETS[place])
    (entry,) = assert_gone(path)
    assert entry["_error"].startswith("ConnectionError: ")
    assert "***" in entry["_error"]


@pytest.mark.anyio
@ONE_OF_EACH
async def test_a_body_that_broke_off_is_recorded_without_its_secret(
    make_client: Make, path: Path
) -> None:
    response = Answer(
        headers={"Content-Type": JSON}, content=CUT.encode(), error=ChunkedEncodingError(CUT)
    )
    async with make_client(transport=ScriptedEngine([response, response])) as client:
        with client.real.har(path):
            with pytest.raises(ChunkedEncodingError):
                async with await client.stream("GET", URL) as stream:
                    await stream.read()
            with pytest.raises(ChunkedEncodingError):
                await client.get(URL)
    first, _ = assert_gone(path)
    assert first["response"]["content"]["text"] == '{"user": "me", "password": "***'


# --- what is no secret ---


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (JSON, '{"a": "https://h.test/?page=1", "b": "c=d", "session_id": "x", "n": [1, "t"]}'),
        (JSON, json.dumps({"body": json.dumps({"a": "b\n"})})),
        (JSON, '{"a": "unfinished'),
        ("text/plain", 'He said "the password: no'),
        ("text/html", "<p class=\"x\">a=b & token</p><br/><input value='1'>"),
        (MULTIPART, disposed('name="f"; filename="a.bin"', b"\xff\x00\r\n\x01")),
        (f"{JSON}; charset=utf-16", '{"a": "b"}'.encode("utf-16")),
        ("image/png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"),
        ("", b"\xff\x00"),
        ("text/plain", "é".encode("latin-1")),
        ("text/plain; charset=utf-8", "é".encode()[:1]),
        (f"{JSON}; charset=shift_jis", '{"a": "表"}'.encode("shift_jis")),
        ("text/xml", "<a><b>c</b><!-- d --></a>"),
        (FORM, "a=1&b=c;d#e&f=%22x%22"),
    ],
)
def test_text_without_secrets_is_unchanged(kind: str, text: str | bytes) -> None:
    assert mask_body(as_bytes(text), kind) == as_bytes(text)


LETTERS = st.sampled_from(
    ['"', "\\", "{", "}", "[", "]", ":", ",", " ", "\n", "=", "&", ";", "<", ">", "/", "'", "%22",
     "token", "a", "password", "1", "--b0undary", "\r\n", "data:", "\0", "é", "<token>", "</",
     'name="otp"', "://", "u:p@", "https://h?"]
)  # fmt: skip
TEXTS = st.lists(LETTERS, max_size=4).map("".join)


@given(
    body=st.lists(LETTERS, max_size=24).map("".join).map(str.encode),
    kind=st.sampled_from(
        [JSON, FORM, "", "text/plain", "text/xml", MULTIPART, "text/x;charset=utf-16"]
    ),
)
def test_masking_twice_changes_nothing(body: bytes, kind: str) -> None:
    masked = mask_body(body, kind, "a")
    assert mask_body(masked, kind, "a") == masked


@given(st.recursive(TEXTS | st.integers(), lambda x: st.lists(x) | st.dictionaries(TEXTS, x)))
def test_json_stays_json_and_keeps_its_names(value: object) -> None:
    def names(found: object) -> object:
        if isinstance(found, dict):
            return {name: names(inner) for name, inner in found.items()}
        return [names(inner) for inner in found] if isinstance(found, list) else None

    masked = mask_body(json.dumps({"v": value}).encode(), JSON)
    assert names(json.loads(masked)) == names({"v": value})


def with_secret(inner: object, name: str, shape: str) -> object:
    value: object = {"string": CANARY, "list": ["x", [CANARY]], "object": {"a": {"b": CANARY}}}[
        shape
    ]
    return {"before": inner, name: value, "after": inner}


@given(
    inner=st.recursive(
        TEXTS, lambda x: st.lists(x, max_size=3) | st.dictionaries(TEXTS, x, max_size=3)
    ),
    name=st.sampled_from(["password", "api_key", "X-Api-Key", "authToken", "a"]),
    shape=st.sampled_from(["string", "list", "object"]),
    wraps=st.lists(st.sampled_from(["list", "member", "string"]), max_size=4),
    indent=st.sampled_from([None, 1]),
)
@example(
    inner=[['name="otp";"'], {"token://": "="}],
    name="password",
    shape="string",
    wraps=["member", "string"],
    indent=None,
)
def test_a_secret_is_found_in_any_json(
    inner: object, name: str, shape: str, wraps: list[str], indent: int | None
) -> None:
    value = with_secret(inner, name, shape)
    for wrap in wraps:
        value = {"list": [inner, value], "member": {"m": value, "n": inner}}.get(
            wrap, json.dumps(value, indent=indent)
        )
    masked = mask_body(json.dumps(value, indent=indent).encode(), JSON, "a")
    assert CANARY.encode() not in masked
    json.loads(masked)
    assert mask_body(masked, JSON, "a") == masked


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    ['"' * 200_000, '\\"' * 200_000, '"a\\' * 100_000, '{"a":' * 100_000, "[" * 300_000,
     "<token>" * 50_000, "<token " * 50_000, "a='" * 100_000, '"token":{' * 50_000, "a=b;" * 80_000,
     '"' + "\\" * 300_000, "data:" * 100_000, '"a"' + "data:" * 100_000, "token=" * 50_000,
     '"a": "' + '\\\\\\"' * 50_000, " " * 300_000 + '"', "x" * 300_000 + '="'],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["", FORM, "text/xml"])
def test_masking_takes_linear_time(text: str, kind: str) -> None:
    begin = time.thread_time()
    mask_body(text.encode(), kind, "a")
    assert_cheap(time.thread_time() - begin, limit=10)  # minutes, where it grows with the square
