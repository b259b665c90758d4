"""Credentials: preemptive ones, parsing of challenges, and Digest by the RFC's examples."""

from __future__ import annotations

import base64
import hashlib
import threading
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curlhttp import Auth, BasicAuth, BearerAuth, ClientRequest, DigestAuth, Response
from curlhttp._features.auth.digest import Challenge, parse_challenges, parse_parameters
from curlhttp._http.auth import to_auth
from curlhttp._http.body import Body, open_body
from curlhttp._http.response import Head
from curlhttp.exceptions import InvalidHeader, UnrewindableBodyError
from curlhttp.types import AuthFlow, Timings

UNTIMED = Timings(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, False, None)


def asked(
    url: str = "http://h.test/", method: str = "GET", body: Body | None = None
) -> ClientRequest:
    return ClientRequest(method, url, body=body)


def answered(status: int, url: str, *fields: tuple[str, str]) -> Response:
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields)
    head = Head(f"HTTP/1.1 {status} \r\n{lines}\r\n".encode("latin-1"))
    return Response(asked(url), head, b"", UNTIMED)


def begin(auth: Auth, request: ClientRequest) -> tuple[AuthFlow, ClientRequest]:
    flow = auth.auth_flow(request)
    return flow, cast(ClientRequest, next(flow))


def challenged(flow: AuthFlow, *values: str, url: str = "http://h.test/") -> ClientRequest | None:
    """Send a 401 into the flow; return the next request, or None when the flow has ended."""
    fields = [("WWW-Authenticate", value) for value in values]
    return finish(flow, 401, *fields, url=url)


def finish(
    flow: AuthFlow, status: int, *fields: tuple[str, str], url: str = "http://h.test/"
) -> ClientRequest | None:
    try:
        return cast(ClientRequest, flow.send(answered(status, url, *fields)))
    except StopIteration:
        return None


def sent_parameters(request: ClientRequest | None) -> dict[str, str]:
    assert request is not None
    (challenge,) = parse_challenges([request.headers["Authorization"]])
    assert challenge.scheme == "digest"
    return challenge.parameters


# --- without a challenge ---


@pytest.mark.parametrize(
    ("username", "password", "pair"),
    [
        ("user", "pass", b"user:pass"),
        ("J\xe4s", "\xf6", b"J\xc3\xa4s:\xc3\xb6"),
        ("\u20ac", "p\xe9", b"\xe2\x82\xac:p\xc3\xa9"),
        (b"\xff", b"\x00", b"\xff:\x00"),
        (b"J\xe4", "p\xe9", b"J\xe4:p\xc3\xa9"),
        ("J\udce4", "p\xe9", b"J\xe4:p\xc3\xa9"),  # a byte, as of os.fsdecode
        ("", "", b":"),
        ("u", "a:b\r\n" * 50, b"u:" + b"a:b\r\n" * 50),
    ],
)
def test_basic_sends_user_and_password(
    username: str | bytes, password: str | bytes, pair: bytes
) -> None:
    flow, request = begin(BasicAuth(username, password), asked())
    assert request.headers["Authorization"] == "Basic " + base64.b64encode(pair).decode()
    assert challenged(flow, "Basic realm=x") is None


def test_basic_replaces_an_authorization_header_and_takes_text_only() -> None:
    request = asked()
    request.headers["authorization"] = "old"
    _, request = begin(BasicAuth("u", "p"), request)
    assert request.headers.get_list("Authorization") == ["Basic dTpw"]
    with pytest.raises(TypeError) as caught:
        BasicAuth("u", cast(Any, 12345))
    assert "12345" not in str(caught.value)


def test_basic_compares_by_its_credentials() -> None:
    assert BasicAuth("u", "p") == BasicAuth(b"u", b"p")
    assert hash(BasicAuth("u", "p")) == hash(BasicAuth(b"u", b"p"))
    assert BasicAuth("u", "p") != BasicAuth("u", "q")
    assert BasicAuth("u", "p") != ("u", "p")


def test_bearer_sends_the_token_or_what_the_function_returns_now() -> None:
    tokens = iter(["one", "two"])
    auth = BearerAuth(lambda: next(tokens))
    assert begin(auth, asked())[1].headers["Authorization"] == "Bearer one"
    assert begin(auth, asked())[1].headers["Authorization"] == "Bearer two"
    assert begin(BearerAuth("abc"), asked())[1].headers["Authorization"] == "Bearer abc"


@pytest.mark.parametrize("token", ["", "sec ret", "sec\r\nret", "secret\n", "sec\xe9ret", "sec\0"])
def test_a_token_that_could_break_the_header_is_refused(token: str) -> None:
    with pytest.raises(InvalidHeader) as caught:
        BearerAuth(token)
    assert "sec" not in str(caught.value)
    with pytest.raises(InvalidHeader):
        begin(BearerAuth(lambda: token), asked())


def test_a_token_is_text() -> None:
    with pytest.raises(TypeError):
        BearerAuth(cast(Any, b"bytes"))
    with pytest.raises(TypeError):
        begin(BearerAuth(cast(Any, lambda: None)), asked())


def test_as_auth_accepts_every_kind_of_auth() -> None:
    basic = BasicAuth("u", "p")
    assert to_auth(None) is None
    assert to_auth(basic) is basic
    assert to_auth(("u", "p")) == basic


def test_a_function_may_change_or_replace_the_request() -> None:
    other = asked("http://h.test/other")

    def change(request: ClientRequest) -> None:
        request.headers["X-Key"] = "1"

    request = asked()
    adapted = to_auth(change)
    assert adapted is not None
    assert begin(adapted, request)[1] is request
    assert request.headers["X-Key"] == "1"
    replaced = to_auth(lambda request: other)
    assert replaced is not None
    assert begin(replaced, request)[1] is other


@pytest.mark.parametrize("value", ["user:secret", ("secret",), ("u", "secret", "x"), 1, ["u", "p"]])
def test_anything_else_is_no_auth(value: Any) -> None:
    with pytest.raises(TypeError) as caught:
        to_auth(value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "auth", [BasicAuth("user", "s3cret"), BearerAuth("s3cret"), DigestAuth("user", "s3cret")]
)
def test_no_repr_shows_a_secret(auth: Auth) -> None:
    begin(auth, asked())
    shown = repr(auth) + str(auth)
    assert "s3cret" not in shown
    assert base64.b64encode(b"user:s3cret").decode() not in shown
    assert type(auth).__name__ in shown


# --- challenges ---


@pytest.mark.parametrize(
    ("values", "challenges"),
    [
        (["Basic realm=x"], [("basic", {"realm": "x"}, None)]),
        (['BASIC Realm="a, b=\\"c\\""'], [("basic", {"realm": 'a, b="c"'}, None)]),
        (["Negotiate"], [("negotiate", {}, None)]),
        (["Negotiate aGk="], [("negotiate", {}, "aGk=")]),
        (["NTLM, Basic realm=x"], [("ntlm", {}, None), ("basic", {"realm": "x"}, None)]),
        (
            ['Digest realm="r", nonce = "n" ,qop="auth,auth-int", Basic realm="b"'],
            [
                ("digest", {"realm": "r", "nonce": "n", "qop": "auth,auth-int"}, None),
                ("basic", {"realm": "b"}, None),
            ],
        ),
        (
            ["Basic realm=x", "Negotiate YQ==, Digest nonce=n, algorithm=MD5"],
            [
                ("basic", {"realm": "x"}, None),
                ("negotiate", {}, "YQ=="),
                ("digest", {"nonce": "n", "algorithm": "MD5"}, None),
            ],
        ),
        ([" , ,Basic realm=x, ,"], [("basic", {"realm": "x"}, None)]),
        (["Digest nonce=a, nonce=b"], [("digest", {"nonce": "a"}, None)]),
        (['Basic realm="open'], [("basic", {}, None)]),
        (['Basic realm="x" \x00, Digest nonce=n'], [("basic", {}, None)]),
        (['Digest nonce=""'], [("digest", {"nonce": ""}, None)]),
        (["", " ", ",", "="], []),
        ([], []),
    ],
)
def test_challenges_are_split(
    values: list[str], challenges: list[tuple[str, dict[str, str], str | None]]
) -> None:
    assert parse_challenges(values) == [Challenge(*fields) for fields in challenges]


@given(st.text(st.characters(max_codepoint=255)) | st.text('ab="\\, \t'))
def test_no_value_breaks_the_parser(value: str) -> None:
    assert all(challenge.scheme for challenge in parse_challenges([value, f"Digest {value}"]))
    parse_parameters(value)


@pytest.mark.parametrize("piece", ['"\\', "a=", "a ", " ", "a", 'a="', "a=b,", "=", '\\"', "a,"])
def test_a_value_of_200_kb_is_parsed_at_once(piece: str) -> None:
    # Quadratic parsing would take minutes here.
    value = piece * (200_000 // len(piece))
    assert len(parse_challenges(["Digest " + value])) >= 1
    parse_parameters(value)


# --- Digest, by the examples of the RFCs ---

RFC7616 = (
    'realm="http-auth@example.org", qop="auth, auth-int", algorithm={}, '
    'nonce="7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v", '
    'opaque="FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS"'
)
MD5 = "Digest " + RFC7616.format("MD5")
SHA256 = "Digest " + RFC7616.format("SHA-256")
MUFASA = "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ"
DIR = "http://www.example.org/dir/index.html"


def mufasa() -> DigestAuth:
    return DigestAuth("Mufasa", "Circle of Life", cnonce=lambda: MUFASA)


@pytest.mark.parametrize(
    ("challenge", "algorithm", "response"),
    [
        (MD5, "MD5", "8ca523f5e9506fed4657c9700eebdbec"),
        (SHA256, "SHA-256", "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
    ],
)
def test_the_first_example_of_rfc_7616(challenge: str, algorithm: str, response: str) -> None:
    flow, first = begin(mufasa(), asked(DIR))
    assert "Authorization" not in first.headers
    again = challenged(flow, challenge, url=DIR)
    assert sent_parameters(again) == {
        "username": "Mufasa",
        "realm": "http-auth@example.org",
        "uri": "/dir/index.html",
        "algorithm": algorithm,
        "nonce": "7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v",
        "nc": "00000001",
        "cnonce": MUFASA,
        "qop": "auth",
        "response": response,
        "opaque": "FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS",
    }
    assert "Authorization" not in first.headers
    assert again is not None
    # Old servers choke on quotes here (section 3.4: they must not be there).
    assert f"algorithm={algorithm}, " in again.headers["Authorization"]
    assert "qop=auth, nc=00000001" in again.headers["Authorization"]
    assert finish(flow, 200, url=DIR) is None


NEEDS_SHA512_256 = pytest.mark.skipif(
    "sha512_256" not in hashlib.algorithms_available, reason="OpenSSL has no SHA-512/256"
)


def second_example(algorithm: str) -> dict[str, str]:
    """Return the response to the challenge of RFC 7616, section 3.9.2."""
    auth = DigestAuth(
        "J\xe4s\xf8n Doe",
        "Secret, or not?",
        cnonce=lambda: "NTg6RKcb9boFIAS3KrFK9BGeh+iDa/sm6jUMp2wds69v",
    )
    url = "http://api.example.org/doe.json"
    flow, _ = begin(auth, asked(url))
    again = challenged(
        flow,
        f'Digest realm="api@example.org", qop="auth", algorithm={algorithm}, '
        'nonce="5TsQWLVdgBdmrQ0XsxbDODV+57QdFR34I9HAbC/RVvkK", '
        'opaque="HRPCssKJSGjCrkzDg8OhwpzCiGPChXYjwrI2QmXDnsOS", charset=UTF-8, userhash=true',
        url=url,
    )
    response = sent_parameters(again)
    assert response["userhash"] == "true"
    assert response["algorithm"] == algorithm
    return response


@NEEDS_SHA512_256
def test_the_second_example_of_rfc_7616_as_corrected_by_its_errata() -> None:
    response = second_example("SHA-512-256")
    assert (
        response["username"] == "793263caabb707a56211940d90411ea4a575adeccb7e360aeb624ed06ece9b0b"
    )
    assert (
        response["response"] == "3798d4131c277846293534c3edc11bd8a5e4cdcbff78b05db9d95eeb1cec68a5"
    )


def test_the_second_example_of_rfc_7616_with_sha_512() -> None:
    """The RFC as printed has the first half of SHA-512 where it says SHA-512-256."""
    response = second_example("SHA-512")
    printed = "488869477bf257147b804c45308cd62ac4e25eb717b12b298c79e62dcea254ec"
    assert response["username"].startswith(printed)

    def sha512(*parts: str) -> str:
        return hashlib.sha512(":".join(parts).encode()).hexdigest()

    secret = sha512("J\xe4s\xf8n Doe", "api@example.org", "Secret, or not?")
    use = [response[name] for name in ("nonce", "nc", "cnonce", "qop")]
    assert response["response"] == sha512(secret, *use, sha512("GET", "/doe.json"))


@pytest.mark.parametrize(
    ("password", "qop", "response"),
    [
        ("Circle Of Life", 'qop="auth,auth-int", ', "6629fae49393a05397450978507c4ef1"),  # 2617
        ("CircleOfLife", "", "1949323746fe6a43ef61f9606e7febea"),  # RFC 2069 and its errata
        ("CircleOfLife", 'qop="", ', "1949323746fe6a43ef61f9606e7febea"),
    ],
)
def test_the_examples_of_the_older_rfcs(password: str, qop: str, response: str) -> None:
    flow, _ = begin(DigestAuth("Mufasa", password, cnonce=lambda: "0a4f113b"), asked(DIR))
    again = challenged(
        flow,
        f'Digest realm="testrealm@host.com", {qop}nonce="dcd98b7102dd2f0e8b11d0f600bfb0c093"',
        url=DIR,
    )
    found = sent_parameters(again)
    assert found["response"] == response
    assert "algorithm" not in found
    assert ("cnonce" in found, "nc" in found) == ("auth" in qop,) * 2


def test_a_sess_algorithm_mixes_both_nonces_into_the_secret_once() -> None:
    auth = DigestAuth("u", "p", cnonce=lambda: "c")
    flow, _ = begin(auth, asked())
    first = sent_parameters(
        challenged(flow, 'Digest realm=r, nonce=n, qop="auth", algorithm=MD5-sess')
    )
    finish(flow, 200, ("Authentication-Info", 'nextnonce="m"'))
    _, request = begin(auth, asked())
    second = sent_parameters(request)

    def md5(text: str) -> str:
        return hashlib.md5(text.encode()).hexdigest()

    secret = md5(md5("u:r:p") + ":n:c")
    assert first["response"] == md5(f"{secret}:n:00000001:c:auth:{md5('GET:/')}")
    assert second["response"] == md5(f"{secret}:m:00000001:c:auth:{md5('GET:/')}")
    assert first["algorithm"] == "MD5-sess"


@pytest.mark.parametrize(
    ("values", "algorithm"),
    [
        ([MD5, SHA256], "SHA-256"),
        ([f"{SHA256}, {MD5}"], "SHA-256"),
        ([MD5, SHA256, SHA256.replace("256", "512")], "SHA-512"),
        pytest.param(
            [SHA256, SHA256.replace("256", "512-256")], "SHA-512-256", marks=NEEDS_SHA512_256
        ),
        ([f"Basic realm=x, {MD5}"], "MD5"),
        (["Digest nonce=n, realm=r, algorithm=sha-256-SESS", MD5], "sha-256-SESS"),
        ([SHA256.replace("SHA-256", "SHA-1"), MD5], "MD5"),
        ([SHA256.replace('"auth, auth-int"', '"auth-int"'), MD5], "MD5"),
    ],
)
def test_the_strongest_supported_challenge_is_chosen(values: list[str], algorithm: str) -> None:
    flow, _ = begin(mufasa(), asked())
    assert sent_parameters(challenged(flow, *values))["algorithm"] == algorithm


@pytest.mark.parametrize(
    "values",
    [
        [],
        ["Basic realm=x"],
        ["Digest realm=x"],
        ['Digest realm="a\x01b", nonce=n'],
        ['Digest realm=r, nonce="a\\\x00"'],
        ["Digest nonce=n, algorithm=SHA-1"],
        ["Digest nonce=n, algorithm=token"],
        ['Digest nonce=n, qop="auth-int"'],
        ["Negotiate"],
    ],
)
def test_a_challenge_that_cannot_be_met_ends_the_flow(values: list[str]) -> None:
    flow, _ = begin(mufasa(), asked())
    assert challenged(flow, *values) is None


def test_a_challenge_of_another_origin_is_returned() -> None:
    flow, _ = begin(mufasa(), asked("http://h.test/"))
    assert challenged(flow, MD5, url="http://h.test:81/") is None


def test_other_statuses_are_returned() -> None:
    for status in (200, 403, 407):
        flow, _ = begin(mufasa(), asked())
        assert finish(flow, status, ("WWW-Authenticate", MD5)) is None


def test_a_second_401_is_returned_and_its_nonce_forgotten() -> None:
    auth = mufasa()
    flow, _ = begin(auth, asked())
    assert challenged(flow, MD5) is not None
    assert challenged(flow, MD5) is None
    assert "Authorization" not in begin(auth, asked())[1].headers


def test_a_stale_nonce_is_replaced_once() -> None:
    flow, _ = begin(mufasa(), asked())
    challenged(flow, MD5)
    again = challenged(flow, MD5.replace("7ypf", "new") + ", stale=TRUE")
    assert sent_parameters(again)["nonce"].startswith("new")
    assert sent_parameters(again)["nc"] == "00000001"
    assert challenged(flow, MD5 + ", stale=true") is None


def test_later_requests_to_the_origin_use_the_nonce_preemptively() -> None:
    auth = mufasa()
    flow, _ = begin(auth, asked("http://h.test/a"))
    challenged(flow, MD5)
    finish(flow, 200)
    flow, request = begin(auth, asked("http://h.test/b?c=d", "POST"))
    response = sent_parameters(request)
    assert (response["nc"], response["uri"]) == ("00000002", "/b?c=d")
    # The server requires another nonce, stale or not: one more request is due.
    again = sent_parameters(challenged(flow, MD5.replace("7ypf", "new")))
    assert (again["nc"], again["nonce"][:3]) == ("00000001", "new")


@pytest.mark.parametrize("url", ["http://other.test/", "https://h.test/", "http://h.test:81/"])
def test_another_origin_gets_no_preemptive_credentials(url: str) -> None:
    auth = mufasa()
    flow, _ = begin(auth, asked("http://h.test/"))
    challenged(flow, MD5)
    finish(flow, 200)
    assert "Authorization" not in begin(auth, asked(url))[1].headers


def test_the_next_nonce_of_authentication_info_is_taken_over() -> None:
    auth = mufasa()
    flow, _ = begin(auth, asked())
    challenged(flow, MD5)
    finish(flow, 200, ("Authentication-Info", 'qop=auth, rspauth="x", nextnonce="other"'))
    response = sent_parameters(begin(auth, asked())[1])
    assert (response["nonce"], response["nc"]) == ("other", "00000001")


def test_the_body_is_rewound_before_it_is_sent_again() -> None:
    body = open_body(b"payload")
    flow, request = begin(mufasa(), asked(method="POST", body=body))
    body.read(100)
    again = challenged(flow, MD5)
    assert again is not None
    assert again is not request
    assert body.read(100) == b"payload"


def test_a_consumed_body_cannot_be_sent_again() -> None:
    body = open_body(iter([b"once"]))
    flow, _ = begin(mufasa(), asked(method="POST", body=body))
    body.read(100)
    with pytest.raises(UnrewindableBodyError):
        challenged(flow, MD5)


@pytest.mark.parametrize(
    ("username", "extra", "field"),
    [
        ('a"b\\c', "", 'username="a\\"b\\\\c"'),
        ("J\xe4", "", 'username="J\xc3\xa4"'),
        ("J\xe4", ", charset=ISO-8859-1", 'username="J\xe4"'),
        ("\u20ac", ", charset=ISO-8859-1", 'username="\xe2\x82\xac"'),
        (b"J\xe4", "", 'username="J\xe4"'),
        ("J\xe4", ", charset=UTF-8", "username*=UTF-8''J%C3%A4"),
        ("Ja\u0308", ", charset=UTF-8", "username*=UTF-8''J%C3%A4"),
        ("J\xe4", ", charset=x", 'username="J\xc3\xa4"'),
        ("\u20ac", "", 'username="\xe2\x82\xac"'),
        ("plain", ", charset=UTF-8", 'username="plain"'),
    ],
)
def test_user_names_are_quoted_or_encoded(username: str | bytes, extra: str, field: str) -> None:
    flow, _ = begin(DigestAuth(username, "p"), asked())
    again = challenged(flow, MD5 + extra)
    assert again is not None
    assert again.headers["Authorization"].startswith(f"Digest {field}, realm=")


@pytest.mark.parametrize(
    ("extra", "username", "password", "charset"),
    [
        ("", "\u20ac", "p\xe9", "utf-8"),
        ("", "J\xe4", "\u20ac", "utf-8"),
        (", charset=UTF-8", "J\xe4", "p\xe9", "utf-8"),
        (", charset=iso-8859-1", "J\xe4", "p\xe9", "latin-1"),
        (", charset=iso-8859-1", "\u20ac", "p\xe9", "utf-8"),
        (", charset=iso-8859-1", "J\xe4", "\u20ac", "utf-8"),
    ],
)
def test_user_and_password_of_digest_have_one_charset(
    extra: str, username: str, password: str, charset: str
) -> None:
    flow, _ = begin(DigestAuth(username, password), asked())
    again = sent_parameters(challenged(flow, f"Digest realm=r, nonce=n{extra}"))

    def md5(data: bytes) -> bytes:
        return hashlib.md5(data).hexdigest().encode()

    secret = md5(f"{username}:r:{password}".encode(charset))
    assert again["response"].encode() == md5(secret + b":n:" + md5(b"GET:/"))


@pytest.mark.parametrize("kind", [BasicAuth, DigestAuth])
def test_a_credential_without_utf8_is_refused_without_showing_it(kind: type[Auth]) -> None:
    password = "hunter2\ud800"
    with pytest.raises(ValueError, match="lone surrogate") as caught:
        kind("u", password)  # type: ignore[call-arg]
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    assert "hunter2" not in str(caught.value)


def test_requests_that_get_the_same_nonce_at_once_count_it() -> None:
    auth = mufasa()
    flows = [begin(auth, asked())[0] for _ in range(5)]
    sent = [sent_parameters(challenged(flow, MD5)) for flow in flows]
    assert [each["nc"] for each in sent] == [f"{count:08x}" for count in range(1, 6)]


def test_no_count_of_a_nonce_is_used_again() -> None:
    """Not after another nonce, nor a refusal, nor at another origin that has the same one."""
    auth, counts = mufasa(), []

    def answer(url: str = "http://h.test/") -> AuthFlow:
        flow, request = begin(auth, asked(url))
        signed = request if "Authorization" in request.headers else challenged(flow, MD5, url=url)
        parameters = sent_parameters(signed)
        if parameters["nonce"].startswith("7ypf"):
            counts.append(parameters["nc"])
        return flow

    finish(answer(), 200, ("Authentication-Info", 'nextnonce="other"'))
    finish(answer(), 401, ("WWW-Authenticate", MD5))  # of "other"; so the first one again
    auth._sessions.clear()
    challenged(answer(), MD5)  # refused, without another try
    finish(answer(), 200)
    finish(answer("http://h2.test/"), 200, url="http://h2.test/")
    assert counts == [f"{count:08x}" for count in (1, 3, 4, 5)]


def test_the_number_of_counted_nonces_is_bounded() -> None:
    auth = mufasa()
    sent = [
        challenged(begin(auth, asked())[0], f"Digest realm=r, qop=auth, nonce=n{number}")
        for number in (0, 0, *range(1, 5000), 0)
    ]
    counts = [sent_parameters(each)["nc"] for each in sent]
    assert counts[:2] == ["00000001", "00000003"]
    assert counts[-1] == "00000001"  # the nonce was forgotten


def test_a_count_that_was_overtaken_is_replaced_once_the_credentials_were_accepted() -> None:
    auth = mufasa()
    first, second, third = (begin(auth, asked())[0] for _ in range(3))
    counts = [sent_parameters(challenged(each, MD5))["nc"] for each in (first, second, third)]
    assert counts == ["00000001", "00000002", "00000003"]
    assert challenged(first, MD5) is None  # the password may be wrong
    finish(third, 200)
    assert sent_parameters(challenged(second, MD5))["nc"] == "00000004"
    assert challenged(second, MD5) is None  # no other request has a higher count


def test_each_further_attempt_has_its_own_count() -> None:
    auth = mufasa()
    flow, _ = begin(auth, asked())
    first = cast(ClientRequest, challenged(flow, MD5))
    attempt = first
    for count in (2, 3):  # a hedge of a retry, too
        attempt = attempt.for_next_attempt()
        assert sent_parameters(attempt)["nc"] == f"{count:08x}"
    assert sent_parameters(first.for_next_attempt())["nc"] == "00000004"
    assert sent_parameters(first)["nc"] == "00000001"
    first.headers["Authorization"] = "Bearer of-a-middleware"
    assert first.for_next_attempt().headers["Authorization"] == "Bearer of-a-middleware"


def test_quotes_in_what_the_server_sent_stay_inside_their_quotes() -> None:
    flow, _ = begin(DigestAuth("u", "p", cnonce=lambda: "c"), asked())
    again = challenged(flow, 'Digest realm="a\\"b", nonce="n\\\\", opaque="\\", x=\\""')
    response = sent_parameters(again)
    assert (response["realm"], response["nonce"], response["opaque"]) == ('a"b', "n\\", '", x="')
    assert "x" not in response


def test_client_nonces_differ_and_are_long() -> None:
    auth, seen = DigestAuth("u", "p"), set()
    for _ in range(20):
        flow, _ = begin(auth, asked())
        seen.add(sent_parameters(challenged(flow, MD5))["cnonce"])
        challenged(flow, MD5)
    assert len(seen) == 20
    assert min(map(len, seen)) >= 32


def test_threads_never_use_a_count_twice() -> None:
    auth = mufasa()
    flow, _ = begin(auth, asked())
    challenged(flow, MD5)
    finish(flow, 200)
    counts: list[str] = []

    def work() -> None:
        counts.extend(sent_parameters(begin(auth, asked())[1])["nc"] for _ in range(100))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(counts) == [f"{count:08x}" for count in range(2, 402)]


def test_the_number_of_remembered_origins_is_bounded() -> None:
    auth = mufasa()
    for number in range(300):
        url = f"http://h{number}.test/"
        flow, _ = begin(auth, asked(url))
        challenged(flow, MD5, url=url)
        finish(flow, 200, url=url)
    assert "Authorization" not in begin(auth, asked("http://h0.test/"))[1].headers
    assert "Authorization" in begin(auth, asked("http://h299.test/"))[1].headers
