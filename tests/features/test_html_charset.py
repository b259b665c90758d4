"""`default_encoding="html"`: the charset of a document, as browsers find it."""

from __future__ import annotations

import codecs
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

import curlhttp
from curlhttp._features.html_charset import HTMLCharset
from curlhttp._http.decoding import TextDecoder, decode_text
from curlhttp.types import AuthFlow
from tests.servers import AppServer
from tests.support.colours import WITHOUT_UVLOOP, AnyClient

pytestmark = [pytest.mark.anyio, WITHOUT_UVLOOP]

HTML = "text/html"
PRICE = "Größe: 5 €"


@pytest.mark.parametrize(
    ("kind", "begin", "expected"),
    [
        (HTML, '<meta charset="windows-1251">', "cp1251"),
        (HTML, "<META CHARSET=koi8-r />", "koi8_r"),
        (HTML, "<meta charset = 'shift_jis'>", "cp932"),
        (HTML, '<meta http-equiv="Content-Type" content="text/html; charset=gb2312">', "gb18030"),
        (HTML, "<meta content='a; charset=\"euc-kr\"' http-equiv=content-type>", "cp949"),
        (HTML, '<meta content="text/html; charset=gb2312">', "utf_8"),
        (HTML, '<meta name="charset" content="latin1">', "utf_8"),
        (HTML, "<meta charset=iso-8859-1>", "cp1252"),
        (HTML, "<meta charset=us-ascii>", "cp1252"),
        (HTML, "<meta charset=utf-16>", "utf_8"),
        (HTML, "<meta charset=x-user-defined>", "cp1252"),
        (HTML, "<meta charset=nonsense><meta charset=cp1250>", "cp1250"),
        (HTML, "<!-- <meta charset=cp1250> --><meta charset=cp1251>", "cp1251"),
        (HTML, "<!--><meta charset=cp1251>", "cp1251"),
        (HTML, '<a title="<meta charset=cp1250>"><meta charset=cp1251>', "cp1251"),
        (HTML, "<!doctype html><html lang=de><head><meta charset=cp1251>", "cp1251"),
        (HTML, "<metadata charset=cp1251>", "utf_8"),
        (HTML, "<meta charset=cp1250 charset=cp1251>", "cp1250"),
        (HTML, " " * 1000 + "<meta charset=cp1251>", "cp1251"),
        (HTML, " " * 1010 + "<meta charset=cp1251>", "utf_8"),
        (HTML, "<meta charset=cp125", "utf_8"),
        (HTML, "<?xml version='1.0' encoding='cp1251'?>", "cp1251"),
        (HTML, "plain", "utf_8"),
        ("application/xhtml+xml", '<?xml version="1.0" encoding="iso-8859-9"?>', "cp1254"),
        ("application/xml", '<?xml version="1.0" encoding="koi8-u"?>', "koi8_u"),
        ("application/atom+xml; x=y", '<?xml encoding="koi8-u"?>', "koi8_u"),
        ("text/xml", "<meta charset=cp1251>", "utf_8"),
        ("text/plain", "<meta charset=cp1251>", "utf_8"),
        ("", "<meta charset=cp1251>", "cp1251"),
    ],
)
def test_the_charset_is_the_one_that_a_document_declares(
    kind: str, begin: str, expected: str
) -> None:
    assert HTMLCharset(kind, None).find(begin.encode()) == expected


@pytest.mark.parametrize(
    ("begin", "named", "expected"),
    [
        (codecs.BOM_UTF8, "cp1251", "utf_8_sig"),
        (codecs.BOM_UTF16_LE, "utf-8", "utf_16"),
        (codecs.BOM_UTF16_BE, None, "utf_16"),
        (b"<meta charset=cp1250>", "iso-8859-1", "cp1252"),
        (b"<meta charset=cp1250>", "nonsense", "cp1250"),
        ("<?xml ".encode("utf-16-le"), None, "utf_16_le"),
        ("<?xml ".encode("utf-16-be"), None, "utf_16_be"),
    ],
)
def test_a_mark_comes_before_the_header_and_that_before_the_document(
    begin: bytes, named: str | None, expected: str
) -> None:
    assert HTMLCharset(HTML, named).find(begin) == expected


@given(
    st.lists(
        st.sampled_from(
            [
                "<meta ",
                "charset=",
                "cp1251",
                "latin1",
                ">",
                "<!--",
                "-->",
                "/",
                '"',
                "'",
                " ",
                "<a",
                "<?xml ",
                "encoding=",
                "http-equiv=content-type ",
                "content=",
                "é",
                "x" * 300,
                "\ufeff",
            ]
        ),
        max_size=12,
    ).map(lambda parts: "".join(parts).encode()),
    st.integers(1, 40),
    st.sampled_from([HTML, "text/xml", "text/plain", ""]),
)
def test_pieces_make_the_same_text_as_the_whole(body: bytes, size: int, kind: str) -> None:
    charset = HTMLCharset(kind, None)
    decoder = TextDecoder(charset)
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    text = "".join(map(decoder.decode, pieces)) + decoder.decode(b"", True)
    assert text == decode_text(body, charset.find(body[:1024]))


def test_text_that_declares_nothing_more_is_not_held() -> None:
    """A live stream must not wait for 1,024 bytes if they cannot matter."""
    for kind, named, piece in (
        ("text/plain", None, b"live"),
        (HTML, "utf-8", b"live"),
        (HTML, None, b"<meta charset=cp1251>live"),
    ):
        assert TextDecoder(HTMLCharset(kind, named)).decode(piece).endswith("live")


MakeClient = Callable[..., AnyClient]


@pytest.mark.parametrize("kind", ["meta", "declaration", "mark", "header"])
async def test_text_and_streams_are_in_the_charset_of_the_document(
    make_client: MakeClient, app: AppServer, kind: str
) -> None:
    content, content_type = {
        "meta": (f"<meta charset=iso-8859-15>\n{PRICE}".encode("iso-8859-15"), HTML),
        "declaration": (f"<?xml encoding='cp1252'?>\n{PRICE}".encode("cp1252"), "text/xml"),
        "mark": (f"\ufeffx\n{PRICE}".encode("utf-16-le"), f"{HTML}; charset=utf-8"),
        "header": (f"x\n{PRICE}".encode("cp1252"), f"{HTML}; charset=iso-8859-1"),
    }[kind]
    headers = [("Content-Type", content_type)]
    app.route("/page", lambda _, conn: conn.reply(200, content, headers=headers))
    client = make_client(default_encoding="html")
    response = await client.get(app.url + "/page")
    assert response.text.split("\n")[1] == PRICE
    async with await client.stream("GET", app.url + "/page") as stream:
        assert [line async for line in stream.iterate("lines")][1] == PRICE
    async with await client.stream("GET", app.url + "/page") as stream:
        assert "".join([text async for text in stream.iterate("text")]) == response.text
    plain = await make_client().get(app.url + "/page")
    assert plain.text.split("\n")[-1] != PRICE  # off by default


async def test_a_charset_that_you_set_wins(make_client: MakeClient, app: AppServer) -> None:
    page = b"<meta charset=cp1251>\xe9"
    app.route("/page", lambda _, conn: conn.reply(200, page, headers=[("Content-Type", HTML)]))
    response = await make_client(default_encoding="html").get(app.url + "/page")
    assert response.text.endswith("й")
    response.encoding = "latin-1"
    assert response.text.endswith("é")


async def test_the_flow_of_an_auth_reads_documents_in_the_same_way(
    make_client: MakeClient, app: AppServer
) -> None:
    page = f"<meta charset=cp1252>\n{PRICE}".encode("cp1252")
    app.route("/page", lambda _, conn: conn.reply(200, page, headers=[("Content-Type", HTML)]))
    seen = []

    class ReadsDocument(curlhttp.Auth):
        def auth_flow(self, request: curlhttp.ClientRequest) -> AuthFlow:
            document = yield curlhttp.ClientRequest("GET", app.url + "/page")
            seen.append(document.text)
            yield request

    client = make_client(default_encoding="html", auth=ReadsDocument())
    await client.get(app.url)
    assert seen == [f"<meta charset=cp1252>\n{PRICE}"]
