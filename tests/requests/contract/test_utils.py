"""utils: tables of what each function makes of its arguments."""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "FTP_PROXY", "REQUEST_METHOD")


@pytest.fixture
def utils(requests: Any) -> Any:
    return requests.utils


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that sets the variables of proxies and netrc, and no others of these."""

    def replace(**variables: str) -> None:
        for name in (*VARIABLES, "NETRC"):
            monkeypatch.delenv(name, raising=False)
            monkeypatch.delenv(name.lower(), raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    replace()
    return replace


# -- headers


def test_default_headers_come_in_order(utils: Any) -> None:
    assert list(utils.default_headers().items()) == [
        ("User-Agent", utils.default_user_agent()),
        ("Accept-Encoding", utils.DEFAULT_ACCEPT_ENCODING),
        ("Accept", "*/*"),
        ("Connection", "keep-alive"),
    ]
    assert type(utils.default_headers()) is utils.CaseInsensitiveDict
    assert utils.DEFAULT_ACCEPT_ENCODING.startswith("gzip, deflate")


def test_the_user_agent_names_requests_or_what_is_asked_for(requests: Any, utils: Any) -> None:
    assert utils.default_user_agent() == f"python-requests/{requests.__version__}"
    assert utils.default_user_agent("mine") == f"mine/{requests.__version__}"


@pytest.mark.parametrize(
    ("value", "items"),
    [
        ('a, "b, c", d', ["a", "b, c", "d"]),
        ('"x"', ["x"]),
        ("", []),
        ('"a\\"b", c', ['a"b', "c"]),
        (" , ,", ["", ""]),
        ('"\\\\\\\\s", ""x""', ["\\\\s", "x"]),
    ],
)
def test_parse_list_header(utils: Any, value: str, items: Any) -> None:
    assert utils.parse_list_header(value) == items


@pytest.mark.parametrize(
    ("value", "items"),
    [
        ('foo="is a fish", bar="as well"', {"foo": "is a fish", "bar": "as well"}),
        ("foo", {"foo": None}),
        ('realm="x, y", nonce=abc==', {"realm": "x, y", "nonce": "abc=="}),
        ("", {}),
        ('a=, b="', {"a": "", "b": ""}),
        ("a = b", {"a ": " b"}),
        ('"q"=1', {'"q"': "1"}),
        ("a=1, A=2, a=3", {"a": "3", "A": "2"}),
        ('a="x\\\\y", b="q\\"r"', {"a": "x\\y", "b": 'q"r'}),
    ],
)
def test_parse_dict_header(utils: Any, value: str, items: Any) -> None:
    assert utils.parse_dict_header(value) == items


@pytest.mark.parametrize(
    ("value", "is_filename", "unquoted"),
    [
        ('"a"', False, "a"),
        ("a", False, "a"),
        ('""', False, ""),
        ('"', False, ""),
        ('"a', False, '"a'),
        ("", False, ""),
        (None, False, None),
        ('"a\\\\b\\"c"', False, 'a\\b"c'),
        ('"\\\\server\\x"', True, "\\\\server\\x"),
        ('"\\\\server\\x"', False, "\\server\\x"),
        ('"a\\\\b"', True, "a\\b"),
    ],
)
def test_unquote_header_value(utils: Any, value: Any, is_filename: bool, unquoted: Any) -> None:
    assert utils.unquote_header_value(value, is_filename) == unquoted


@pytest.mark.parametrize(
    ("value", "links"),
    [
        (
            '<http:/a>; rel=front; type="image/jpeg",<http://b>;type="image/jpeg"',
            [
                {"url": "http:/a", "rel": "front", "type": "image/jpeg"},
                {"url": "http://b", "type": "image/jpeg"},
            ],
        ),
        ("", []),
        ("<http://a>", [{"url": "http://a"}]),
        ("<a>;", [{"url": "a"}]),
        ("<a>; rel=\"x y\"; title='q'", [{"url": "a", "rel": "x y", "title": "q"}]),
        ("a; b=c", [{"url": "a", "b": "c"}]),
        ("<a>; b", [{"url": "a"}]),
        ("<a>; b=c=d; e=f", [{"url": "a"}]),
        ("<a,b>; rel=x", [{"url": "a,b", "rel": "x"}]),
        (' <a> ; rel = "n" ', [{"url": "a", "rel": "n"}]),
        ("<a>;rel=x, <b>;rel=y,", [{"url": "a", "rel": "x"}, {"url": "b", "rel": "y,"}]),
        ('<a>; rel="n;m"; b="c"', [{"url": "a", "rel": "n"}]),
    ],
)
def test_parse_header_links(utils: Any, value: str, links: Any) -> None:
    assert utils.parse_header_links(value) == links


@pytest.mark.parametrize(
    ("value", "kind", "parameters"),
    [
        ("text/html", "text/html", {}),
        ("a/b; charset=\"x\"; q='y'; z= 1 ", "a/b", {"charset": "x", "q": "y", "z": "1"}),
        ("a;b=c=d; flag", "a", {"b": "c=d"}),
        ('a ; Charset = utf-8 ; boundary="--x"', "a", {"charset": "utf-8", "boundary": "--x"}),
        ("", "", {}),
    ],
)
def test_parse_content_type_header(utils: Any, value: str, kind: str, parameters: Any) -> None:
    assert utils._parse_content_type_header(value) == (kind, parameters)


@pytest.mark.parametrize(
    ("content_type", "encoding"),
    [
        ("text/html", "ISO-8859-1"),
        ("text/html; charset=utf-8", "utf-8"),
        ("text/plain; charset='x'", "x"),
        ("a; charset=\"'x'\"", "x"),
        ("application/json", "utf-8"),
        ("application/json; charset=latin1", "latin1"),
        ("application/xtext", "ISO-8859-1"),
        ("application/json+x", "utf-8"),
        ("TEXT/html", None),
        ("APPLICATION/JSON", None),
        ("image/png", None),
        ("x; charset", None),
        ("a; charset=", ""),
        ("", None),
        (None, None),
    ],
)
def test_get_encoding_from_headers(utils: Any, content_type: Any, encoding: Any) -> None:
    given = {} if content_type is None else {"Content-Type": content_type}
    headers = utils.CaseInsensitiveDict(given)
    assert utils.get_encoding_from_headers(headers) == encoding


GOOD_HEADERS: list[Any] = [
    ("a", "b"),
    (b"a", b"b"),
    ("a", b"b"),
    (b"a", "b"),
    ("a b", "c"),
    ("a", ""),
    ("a", "b "),
    ("a", "\xe9"),
    ("a", "b\x0b"),
]
BAD_HEADERS: list[Any] = [
    ("a", "b\n"),
    ("a", "b\n c"),
    ("a", "x\ry"),
    ("a", " b"),
    ("a", "\tb"),
    (b"a", b" b"),
    ("a", 1),
    ("a", None),
    ("a", ["x"]),
    ("a", True),
    (1, "b"),
    ("", "b"),
    ("a:", "b"),
    (" a", "b"),
    ("a\n", "b"),
    (b"a\r", b"b"),
]


@pytest.mark.parametrize("header", GOOD_HEADERS, ids=repr)
def test_good_headers_are_valid(utils: Any, header: Any) -> None:
    utils.check_header_validity(header)


@pytest.mark.parametrize("header", BAD_HEADERS, ids=repr)
def test_bad_headers_are_not_valid(requests: Any, utils: Any, header: Any) -> None:
    with pytest.raises(requests.exceptions.InvalidHeader):
        utils.check_header_validity(header)


def test_header_validators_are_patterns_for_name_and_value(utils: Any) -> None:
    name, value = utils.HEADER_VALIDATORS[str]
    assert name.match("a")
    assert not name.match("a:")
    assert value.match("")
    assert not value.match("a\n")
    name, value = utils.HEADER_VALIDATORS[bytes]
    assert name.match(b"a")
    assert not value.match(b" a")


# -- mappings and pairs


@pytest.mark.parametrize(
    ("value", "pairs"),
    [
        (None, None),
        ([("a", "b"), ("a", "c")], [("a", "b"), ("a", "c")]),
        ({"a": 1}, [("a", 1)]),
        ((), []),
    ],
)
def test_to_key_val_list(utils: Any, value: Any, pairs: Any) -> None:
    assert utils.to_key_val_list(value) == pairs


def test_to_key_val_list_takes_any_mapping(utils: Any) -> None:
    assert utils.to_key_val_list(utils.CaseInsensitiveDict(A=1)) == [("A", 1)]


@pytest.mark.parametrize(
    ("value", "found"),
    [(None, None), ([("a", "b"), ("a", "c")], {"a": "c"}), ({"a": 1}, {"a": 1}), ([], {})],
)
def test_from_key_val_list(utils: Any, value: Any, found: Any) -> None:
    assert utils.from_key_val_list(value) == found


@pytest.mark.parametrize("scalar", ["text", b"bytes", True, 5])
@pytest.mark.parametrize("name", ["to_key_val_list", "from_key_val_list"])
def test_scalars_are_no_pairs(utils: Any, name: str, scalar: Any) -> None:
    with pytest.raises(ValueError, match="cannot encode objects that are not 2-tuples"):
        getattr(utils, name)(scalar)


def test_dict_to_sequence(utils: Any) -> None:
    assert list(utils.dict_to_sequence({"a": 1})) == [("a", 1)]
    pairs = [("a", 1)]
    assert utils.dict_to_sequence(pairs) is pairs


def test_jars_and_dictionaries_are_made_of_each_other(requests: Any, utils: Any) -> None:
    jar = utils.cookiejar_from_dict({"a": "1"})
    jar.set("b", "2", domain="x.test")
    jar.set("b", "3", domain="y.test")
    assert utils.dict_from_cookiejar(jar) == {"a": "1", "b": "3"}
    assert utils.add_dict_to_cookiejar(jar, {"a": "4"}) is jar
    assert jar["a"] == "4"


# -- bodies and files


class Ends:
    """Has an end, 7, and stands at 1."""

    def __init__(self, fail: bool = False) -> None:
        self.position = 1
        self.fail = fail

    def tell(self) -> int:
        return self.position

    def seek(self, offset: int, whence: int = 0) -> None:
        if self.fail:
            raise OSError
        self.position = 7 if whence == 2 else offset


class Sized:
    def __init__(self, position: int | None = None) -> None:
        self.position = position

    def __len__(self) -> int:
        return 5

    def tell(self) -> int:
        if self.position is None:
            raise OSError
        return self.position


class Unsized:
    def fileno(self) -> int:
        raise io.UnsupportedOperation


@pytest.mark.parametrize(
    ("body", "length"),
    [
        ("abc", 3),
        ("a\u20ac", 4),
        (b"\xc3", 1),
        (bytearray(b"ab"), 2),
        ([1, 2], 2),
        ({}, 0),
        (None, 0),
        (5, 0),
        (io.BytesIO(b"abc"), 3),
        (io.StringIO("abc"), 3),
        (SimpleNamespace(len=7), 7),
        (SimpleNamespace(len=None), 0),
        (Sized(0), 5),
        (Sized(2), 3),
        (Sized(99), 0),
        (Sized(None), 0),
        (Ends(), 6),
        (Ends(fail=True), 0),
        (Unsized(), 0),
        (SimpleNamespace(tell=lambda: 0), 0),
    ],
    ids=lambda value: type(value).__name__,
)
def test_super_len(utils: Any, body: Any, length: int) -> None:
    assert utils.super_len(body) == length


def test_super_len_counts_from_where_a_file_stands_and_leaves_it_there(
    utils: Any, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abcdef")
    with path.open("rb") as file:
        assert utils.super_len(file) == 6
        file.read(2)
        assert utils.super_len(file) == 4
        assert file.tell() == 2
        file.read()
        assert utils.super_len(file) == 0
    memory = io.BytesIO(b"abcdef")
    memory.read(2)
    assert utils.super_len(memory) == 4
    assert memory.tell() == 2


def test_super_len_warns_of_text_mode(requests: Any, utils: Any, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("h\xe9llo", encoding="utf-8")
    with path.open(encoding="utf-8") as file, pytest.warns(requests.FileModeWarning):
        assert utils.super_len(file) == 6


def test_super_len_of_a_pipe_is_zero(utils: Any) -> None:
    reader, writer = os.pipe()
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        assert utils.super_len(pipe) == 0


def test_super_len_knows_the_size_of_a_member_of_a_tar_archive(utils: Any) -> None:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        member = tarfile.TarInfo("member")
        member.size = 4
        tar.addfile(member, io.BytesIO(b"abcd"))
    archive.seek(0)
    with tarfile.open(fileobj=archive) as tar:
        assert utils.super_len(tar.extractfile("member")) == 4


def test_super_len_does_not_take_the_compressed_size_for_the_length(
    utils: Any, tmp_path: Path
) -> None:
    with gzip.open(tmp_path / "file.gz", "wb") as out:
        out.write(b"x" * 1000)
    with gzip.open(tmp_path / "file.gz") as file:
        if isinstance(file.mode, str):  # Python 3.13 began to call it "rb"
            pytest.skip("it cannot be told from an ordinary file")
        with pytest.raises(TypeError):
            utils.super_len(file)


@pytest.mark.parametrize(
    ("name", "guess"),
    [
        ("/a/b.txt", "b.txt"),
        (b"/a/b", b"b"),
        ("<stdin>", None),
        ("<fdopen", None),
        ("x>", None),
        (7, None),
        ("", None),
    ],
)
def test_guess_filename(utils: Any, name: Any, guess: Any) -> None:
    assert utils.guess_filename(SimpleNamespace(name=name)) == guess


def test_what_has_no_name_has_no_filename(utils: Any) -> None:
    assert utils.guess_filename(io.BytesIO()) is None


def prepared(body: Any, position: Any) -> Any:
    return SimpleNamespace(body=body, _body_position=position)


def test_rewind_body_goes_back_to_where_it_was(utils: Any) -> None:
    body = io.BytesIO(b"abc")
    body.read()
    utils.rewind_body(prepared(body, 1))
    assert body.tell() == 1


@pytest.mark.parametrize("position", [None, object()])
def test_rewind_body_needs_to_know_where_it_was(requests: Any, utils: Any, position: Any) -> None:
    with pytest.raises(requests.exceptions.UnrewindableBodyError):
        utils.rewind_body(prepared(io.BytesIO(), position))


def test_rewind_body_needs_a_body_that_can_seek(requests: Any, utils: Any) -> None:
    for body in (Ends(fail=True), "text", None):
        with pytest.raises(requests.exceptions.UnrewindableBodyError):
            utils.rewind_body(prepared(body, 0))


def test_extract_zipped_paths_gives_a_copy_of_a_member(utils: Any, tmp_path: Path) -> None:
    archive = tmp_path / "app.zip"
    with zipfile.ZipFile(archive, "w") as opened:
        opened.writestr("certs/ca.pem", "PEM")
    path = Path(utils.extract_zipped_paths(f"{archive}/certs/ca.pem"))
    try:
        assert path.read_text() == "PEM"
        assert path.suffix == ".pem"
        assert path.parent == Path(tempfile.gettempdir())
    finally:
        path.unlink()


def test_extract_zipped_paths_returns_any_other_path(utils: Any, tmp_path: Path) -> None:
    archive, file = tmp_path / "app.zip", tmp_path / "file"
    with zipfile.ZipFile(archive, "w") as opened:
        opened.writestr("certs/ca.pem", "PEM")
    file.write_text("no archive")
    for path in (str(archive), str(file), f"{archive}/none", f"{file}/none", "/no/such", "no", ""):
        assert utils.extract_zipped_paths(path) == path


def test_atomic_open_puts_a_file_in_place_once_it_is_whole(utils: Any, tmp_path: Path) -> None:
    path = tmp_path / "file"
    with utils.atomic_open(str(path)) as file:
        file.write(b"1")
        assert not path.exists()
    assert path.read_bytes() == b"1"
    with pytest.raises(KeyError), utils.atomic_open(str(path)) as file:
        file.write(b"2")
        raise KeyError
    assert path.read_bytes() == b"1"
    assert list(tmp_path.iterdir()) == [path]


# -- text


@pytest.mark.parametrize(
    ("content", "encodings"),
    [
        ('<meta charset="utf-8">', ["utf-8"]),
        ("<META charset=latin1>", ["latin1"]),
        ('<meta http-equiv="x" content="text/html; charset=iso-8859-2">', ["iso-8859-2"]),
        ('<?xml version="1.0" encoding="gb2312"?>', ["gb2312"]),
        ('<?xml encoding="x"?><meta charset=a><meta charset="b">', ["a", "b", "x"]),
        (' <?xml version="1.0" encoding="u"?>', []),
        ("nothing", []),
    ],
)
def test_get_encodings_from_content(utils: Any, content: str, encodings: Any) -> None:
    name = "get_encodings_from_content"
    with pytest.warns(DeprecationWarning, match=name):
        assert utils.get_encodings_from_content(content) == encodings


def response(content: Any = b"", encoding: Any = None, content_type: str = "") -> Any:
    headers = {"content-type": content_type} if content_type else {}
    return SimpleNamespace(content=content, encoding=encoding, headers=headers)


@pytest.mark.parametrize(
    ("content", "content_type", "text"),
    [
        (b"\xe2\x82\xac", "", "\u20ac"),
        (b"\xc3\xa9", "a; charset=utf-8", "\xe9"),
        (b"\xff", "a; charset=utf-8", "\ufffd"),
        (b"\xff", "text/html", "\xff"),
        (None, "", None),
        ("text", "", "text"),
    ],
)
def test_get_unicode_from_response(utils: Any, content: Any, content_type: str, text: Any) -> None:
    name = "get_unicode_from_response"
    with pytest.warns(DeprecationWarning, match=name):
        found = utils.get_unicode_from_response(response(content, content_type=content_type))
    assert found == text


@pytest.mark.parametrize(
    ("encoding", "pieces", "decoded"),
    [
        ("utf-8", [b"\xe2", b"\x82\xac"], ["\u20ac"]),
        ("utf-8", [b"a", b"\xff", b"b\xe2"], ["a", "\ufffd", "b", "\ufffd"]),
        ("utf-16", [b"\xff", b"\xfe", b"a", b"\0"], ["a"]),
        ("utf-8", [b"", b"x"], ["x"]),
        ("ascii", [], []),
        (None, [b"a", b""], [b"a", b""]),
    ],
)
def test_stream_decode_response_unicode(
    utils: Any, encoding: Any, pieces: Any, decoded: Any
) -> None:
    found = utils.stream_decode_response_unicode(iter(pieces), response(encoding=encoding))
    assert list(found) == decoded


def test_a_stream_in_an_unknown_encoding_fails_when_it_is_read(utils: Any) -> None:
    stream = utils.stream_decode_response_unicode(iter([b"a"]), response(encoding="nope"))
    with pytest.raises(LookupError):
        list(stream)


@pytest.mark.parametrize(
    ("string", "length", "slices"),
    [
        ("abcde", 2, ["ab", "cd", "e"]),
        (b"abcd", 3, [b"abc", b"d"]),
        ("abc", 10, ["abc"]),
        ("abc", 0, ["abc"]),
        ("abc", -1, ["abc"]),
        ("abc", None, ["abc"]),
        ("", 2, []),
        ("", None, []),
    ],
)
def test_iter_slices(utils: Any, string: Any, length: Any, slices: Any) -> None:
    assert list(utils.iter_slices(string, length)) == slices


@pytest.mark.parametrize(
    "encoding",
    [
        "utf-8",
        "utf-8-sig",
        "utf-16",
        "utf-16-le",
        "utf-16-be",
        "utf-32",
        "utf-32-le",
        "utf-32-be",
    ],
)
def test_guess_json_utf_knows_every_utf(utils: Any, encoding: str) -> None:
    assert utils.guess_json_utf(json.dumps({"a": 1}).encode(encoding)) == encoding


@pytest.mark.parametrize(
    ("data", "guess"),
    [
        (b"", "utf-8"),
        (b"1", "utf-8"),
        (b"\xff\xfe", "utf-16"),
        (b"\xfe\xffa", "utf-16"),
        (b"a\0b\0", "utf-16-le"),
        (b"a\0", None),
        (b"\0a\0\0", None),
        (b"ab\0\0", None),
        (b"\0\0\0\0", None),
    ],
)
def test_guess_json_utf_of_other_bytes(utils: Any, data: bytes, guess: Any) -> None:
    assert utils.guess_json_utf(data) == guess


@pytest.mark.parametrize(
    ("string", "encoding", "native"),
    [
        ("a", "ascii", "a"),
        (b"b", "ascii", "b"),
        ("\xe9", "ascii", "\xe9"),
        (b"\xc3\xa9", "utf-8", "\xe9"),
    ],
)
def test_to_native_string(utils: Any, string: Any, encoding: str, native: str) -> None:
    assert utils.to_native_string(string, encoding) == native


# -- URLs


@pytest.mark.parametrize(
    ("uri", "unquoted"),
    [
        ("http://a/%7Eb%20c", "http://a/~b%20c"),
        ("a%41b%2Fc", "aAb%2Fc"),
        ("%c3%a9", "%c3%a9"),
        ("%7e%7E", "~~"),
        ("%", "%"),
        ("%4", "%4"),
        ("%41%", "A%"),
        ("%4%31", "%41"),
    ],
)
def test_unquote_unreserved(utils: Any, uri: str, unquoted: str) -> None:
    assert utils.unquote_unreserved(uri) == unquoted


@pytest.mark.parametrize("uri", ["%zz", "a%4Gb", "%\xe99"])
def test_unquote_unreserved_refuses_escapes_that_are_none(
    requests: Any, utils: Any, uri: str
) -> None:
    with pytest.raises(requests.exceptions.InvalidURL):
        utils.unquote_unreserved(uri)


@pytest.mark.parametrize(
    ("uri", "quoted"),
    [
        ("http://a/b c", "http://a/b%20c"),
        ("http://a/%7Eb%20c", "http://a/~b%20c"),
        ("http://a/%zz x", "http://a/%25zz%20x"),
        ("%20c%zz", "%2520c%25zz"),
        ("http://a/%", "http://a/%"),
        ("http://a/%25 ", "http://a/%25%20"),
        ("\xfc?x=[1]&y={2}#f|g", "%C3%BC?x=[1]&y=%7B2%7D#f%7Cg"),
        ("~!*'();:@&=+$,/?#[]%20\\^`", "~!*'();:@&=+$,/?#[]%20%5C%5E%60"),
        ("\x00\x7f", "%00%7F"),
        ("", ""),
    ],
)
def test_requote_uri(utils: Any, uri: str, quoted: str) -> None:
    assert utils.requote_uri(uri) == quoted


@pytest.mark.parametrize(
    ("url", "whole"),
    [
        ("http://a.b/c?d#e", "http://a.b/c?d#e"),
        ("a.b/c", "https://a.b/c"),
        ("a.b:8080", "https://a.b:8080"),
        ("proxy_1:80", "https://proxy_1:80"),
        ("10.0.0.1:80/", "https://10.0.0.1:80/"),
        ("//a.b", "https://a.b"),
        ("localhost", "https://localhost"),
        ("h?x=1", "https://h?x=1"),
        ("u@h:80", "https://u@h:80"),
        ("http://u:p@h/x?y", "http://u:p@h/x?y"),
        ("HTTP://A.B", "http://a.b"),
        ("socks5://U:P@H.Example:1080", "socks5://U:P@H.Example:1080"),
        ("[::1]:80", "https://[::1]:80"),
        ("http://h/a b", "http://h/a%20b"),
        ("http://h:/p", "http://h/p"),
        ("http://\xfc.de/\xe4", "http://xn--tda.de/%C3%A4"),
        ("/path", "https:///path"),
        ("", "https://"),
    ],
)
def test_prepend_scheme_if_needed(utils: Any, url: str, whole: str) -> None:
    assert utils.prepend_scheme_if_needed(url, "https") == whole


@pytest.mark.parametrize("url", ["a b", "http://[::1", "http://h:abc", "http://u:p@h:99999"])
def test_prepend_scheme_if_needed_refuses_what_is_no_host(utils: Any, url: str) -> None:
    with pytest.raises(ValueError):
        utils.prepend_scheme_if_needed(url, "http")


@pytest.mark.parametrize(
    ("url", "auth"),
    [
        ("http://u:p@h", ("u", "p")),
        ("http://u%20:p%40@h/x", ("u ", "p@")),
        ("http://:p@h", ("", "p")),
        ("http://u:@h", ("u", "")),
        ("http://u@h", ("", "")),
        ("http://h", ("", "")),
        ("u:p@h", ("", "")),
        ("", ("", "")),
        (None, ("", "")),
    ],
)
def test_get_auth_from_url(utils: Any, url: Any, auth: Any) -> None:
    assert utils.get_auth_from_url(url) == auth


@pytest.mark.parametrize(
    ("url", "bare"),
    [
        ("http://u:p@h:80/p?q#f", "http://h:80/p?q"),
        ("http://u@p@h/", "http://h/"),
        ("http://h/a@b#x", "http://h/a@b"),
        ("http://a/p;x?y#z", "http://a/p;x?y"),
        ("//u@h/x", "//h/x"),
        ("h/p", "//h/p"),
        ("", ""),
    ],
)
def test_urldefragauth(utils: Any, url: str, bare: str) -> None:
    assert utils.urldefragauth(url) == bare


# -- addresses


@pytest.mark.parametrize(
    ("address", "known"),
    [
        ("8.8.8.8", True),
        ("1.2", True),
        ("0x7f.1", True),
        ("8.8.8.8.8", False),
        ("256.1.1.1", False),
        ("localhost.localdomain", False),
        ("::1", False),
        ("", False),
    ],
)
def test_is_ipv4_address(utils: Any, address: str, known: bool) -> None:
    assert utils.is_ipv4_address(address) is known


@pytest.mark.parametrize(
    ("network", "valid"),
    [
        ("192.168.1.0/24", True),
        ("1.2.3.4/32", True),
        ("1.2.3.4/1", True),
        ("8.8.8.8", False),
        ("192.168.1.0/a", False),
        ("192.168.1.0/33", False),
        ("192.168.1.0/0", False),
        ("192.168.1.0/-1", False),
        ("192.168.1.999/24", False),
        ("192.168.1.0/24/1", False),
        ("/8", False),
        ("", False),
    ],
)
def test_is_valid_cidr(utils: Any, network: str, valid: bool) -> None:
    assert utils.is_valid_cidr(network) is valid


@pytest.mark.parametrize(
    ("address", "network", "within"),
    [
        ("192.168.1.1", "192.168.1.0/24", True),
        ("172.16.0.1", "192.168.1.0/24", False),
        ("1.2.3.4", "1.2.3.4/32", True),
        ("1.2.3.5", "1.2.3.4/32", False),
        ("1.1", "1.0.0.0/8", True),
    ],
)
def test_address_in_network(utils: Any, address: str, network: str, within: bool) -> None:
    assert utils.address_in_network(address, network) is within


@pytest.mark.parametrize(
    ("bits", "mask"),
    [
        (0, "0.0.0.0"),
        (1, "128.0.0.0"),
        (8, "255.0.0.0"),
        (24, "255.255.255.0"),
        (25, "255.255.255.128"),
        (32, "255.255.255.255"),
    ],
)
def test_dotted_netmask(utils: Any, bits: int, mask: str) -> None:
    assert utils.dotted_netmask(bits) == mask


def test_a_netmask_has_32_bits_at_most(utils: Any) -> None:
    with pytest.raises(ValueError):
        utils.dotted_netmask(33)


# -- proxies


def test_set_environ_lasts_for_a_while(utils: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CONTRACT", raising=False)
    with utils.set_environ("CONTRACT", "1"):
        assert os.environ["CONTRACT"] == "1"
    assert "CONTRACT" not in os.environ
    monkeypatch.setenv("CONTRACT", "0")
    with pytest.raises(KeyError), utils.set_environ("CONTRACT", "2"):
        assert os.environ["CONTRACT"] == "2"
        raise KeyError
    assert os.environ["CONTRACT"] == "0"
    with utils.set_environ("CONTRACT", None):
        assert os.environ["CONTRACT"] == "0"
    monkeypatch.setenv("CONTRACT", "")
    with utils.set_environ("CONTRACT", "3"):
        assert os.environ["CONTRACT"] == "3"
    assert os.environ["CONTRACT"] == ""


A, SUB, PORT = "http://a.test/", "http://sub.a.test/x", "http://a.test:5000/"
IP, OTHER, V6 = "http://192.168.1.5:5000/", "http://xa.test", "http://[::1]:80/"
ALL = {A, SUB, PORT, IP, OTHER, V6}

BYPASSED: list[tuple[str, set[str]]] = [
    ("", set()),
    (" , ", set()),
    ("*", ALL),
    ("xa.test,*", {OTHER}),
    ("a.test", {A, SUB, PORT}),
    (".a.test", {A, SUB, PORT}),
    ("A.TEST", {A, SUB, PORT}),
    ("a.test.", set()),
    ("test", ALL - {IP, V6}),
    ("*.test", set()),
    ("http://a.test", set()),
    ("b.test, sub.a.test", {SUB}),
    (" a.test ,localhost", {A, SUB, PORT}),
    ("b.test a.test", set()),
    ("a.test:5000", {PORT}),
    (".test:5000", {PORT}),
    ("a.test:80", set()),
    ("192.168.1.0/24", {IP}),
    ("192.168.0.0/24", set()),
    ("192.168.1.5", {IP}),
    ("192.168.1.5:5000", set()),
    ("::1", {V6}),
    ("[::1]", set()),
]


@pytest.mark.parametrize(("no_proxy", "bypassed"), BYPASSED, ids=[repr(n) for n, _ in BYPASSED])
@pytest.mark.parametrize("how", ["argument", "no_proxy", "NO_PROXY"])
def test_no_proxy(
    utils: Any, environment: Any, how: str, no_proxy: str, bypassed: set[str]
) -> None:
    if how != "argument":
        environment(**{how: no_proxy})
    argument = no_proxy if how == "argument" else None
    assert {url for url in ALL if utils.should_bypass_proxies(url, argument)} == bypassed


def test_the_lower_case_no_proxy_comes_first_unless_it_is_empty(
    utils: Any, environment: Any
) -> None:
    environment(no_proxy="xa.test", NO_PROXY="a.test")
    assert {url for url in ALL if utils.should_bypass_proxies(url, None)} == {OTHER}
    environment(no_proxy="", NO_PROXY="a.test")
    assert utils.should_bypass_proxies(A, None)


def test_the_argument_beats_the_variable_and_leaves_it(utils: Any, environment: Any) -> None:
    environment(no_proxy="xa.test")
    assert not utils.should_bypass_proxies(OTHER, no_proxy="a.test")
    assert utils.should_bypass_proxies(A, no_proxy="a.test")
    assert os.environ["no_proxy"] == "xa.test"


@pytest.mark.parametrize("url", ["file:///x", "a.test", "http://", ""])
def test_a_url_without_a_host_needs_no_proxy(utils: Any, environment: Any, url: str) -> None:
    assert utils.should_bypass_proxies(url, None)


ENVIRONMENTS: list[tuple[dict[str, str], dict[str, str]]] = [
    ({}, {}),
    ({"http_proxy": "p:1"}, {"http": "p:1"}),
    ({"HTTP_PROXY": "P:1"}, {"http": "P:1"}),
    ({"http_proxy": "p:1", "HTTP_PROXY": "P:1"}, {"http": "p:1"}),
    ({"http_proxy": "", "HTTP_PROXY": "P:1"}, {}),
    ({"HTTP_PROXY": "P:1", "REQUEST_METHOD": "GET"}, {}),
    ({"http_proxy": "p:1", "REQUEST_METHOD": "GET"}, {"http": "p:1"}),
    ({"HTTPS_PROXY": "P:1", "REQUEST_METHOD": "GET"}, {"https": "P:1"}),
    ({"ALL_PROXY": "a", "https_proxy": "b"}, {"all": "a", "https": "b"}),
    ({"ftp_proxy": "f"}, {"ftp": "f"}),
    ({"http_proxy": "p", "no_proxy": "a.test"}, {}),
    ({"http_proxy": "p", "no_proxy": "b.test"}, {"http": "p", "no": "b.test"}),
]


@pytest.mark.parametrize(("variables", "proxies"), ENVIRONMENTS)
def test_get_environ_proxies(
    utils: Any, environment: Any, variables: dict[str, str], proxies: dict[str, str]
) -> None:
    environment(**variables)
    assert utils.get_environ_proxies(A) == proxies


def test_get_environ_proxies_takes_other_exceptions(utils: Any, environment: Any) -> None:
    environment(http_proxy="p", no_proxy="a.test")
    assert utils.get_environ_proxies(A, no_proxy="b.test")["http"] == "p"
    assert utils.get_environ_proxies("http://b.test", no_proxy="b.test") == {}


PROXIES = {
    "http": "http://h",
    "https": "http://s",
    "all": "http://al",
    "http://x.test": "http://xx",
    "all://y.test": "http://yy",
}


@pytest.mark.parametrize(
    ("url", "proxies", "selected"),
    [
        ("http://a/", PROXIES, "http://h"),
        ("https://a/", PROXIES, "http://s"),
        ("ftp://a/", PROXIES, "http://al"),
        ("http://x.test/", PROXIES, "http://xx"),
        ("HTTP://X.TEST/", PROXIES, "http://xx"),
        ("http://u@x.test:9/", PROXIES, "http://xx"),
        ("https://x.test", PROXIES, "http://s"),
        ("http://y.test", PROXIES, "http://h"),
        ("ftp://y.test", PROXIES, "http://yy"),
        ("file:///p", PROXIES, "http://al"),
        ("a", PROXIES, "http://al"),
        ("http://a/", {"http": None, "all": "z"}, None),
        ("http://a/", {"http": "", "all": "z"}, ""),
        ("https://a/", {"http": "h"}, None),
        ("http://a/", {}, None),
        ("http://a/", None, None),
    ],
)
def test_select_proxy(utils: Any, url: str, proxies: Any, selected: Any) -> None:
    assert utils.select_proxy(url, proxies) == selected


@pytest.mark.parametrize(
    ("variables", "given", "resolved"),
    [
        ({}, None, {}),
        ({"http_proxy": "e"}, None, {"http": "e"}),
        ({"http_proxy": "e"}, {"https": "m"}, {"https": "m", "http": "e"}),
        ({"http_proxy": "e"}, {"http": "m"}, {"http": "m"}),
        ({"http_proxy": "e"}, {"http": None}, {"http": None}),
        ({"http_proxy": "e"}, {"all": "m"}, {"all": "m", "http": "e"}),
        ({"https_proxy": "e"}, None, {}),
        ({"all_proxy": "e"}, None, {"http": "e"}),
        ({"http_proxy": "e", "all_proxy": "x"}, None, {"http": "e"}),
        ({"http_proxy": ""}, None, {}),
        ({"http_proxy": "e", "no_proxy": "a.test"}, None, {}),
        ({"http_proxy": "e", "no_proxy": "a.test"}, {"http": "m"}, {"http": "m"}),
        ({"http_proxy": "e"}, {"no_proxy": "a.test"}, {"no_proxy": "a.test"}),
        ({"http_proxy": "e"}, {"no_proxy": "b.test"}, {"no_proxy": "b.test", "http": "e"}),
    ],
)
def test_resolve_proxies(
    utils: Any, environment: Any, variables: dict[str, str], given: Any, resolved: Any
) -> None:
    environment(**variables)
    request = SimpleNamespace(url=A)
    before = None if given is None else dict(given)
    assert utils.resolve_proxies(request, given) == resolved
    assert utils.resolve_proxies(request, given, trust_env=False) == (given or {})
    assert given == before


# -- netrc


@pytest.fixture
def netrc(environment: Any, tmp_path: Path) -> Path:
    path = tmp_path / "netrc"
    path.write_text(
        "machine a.test login u password p\n"
        "machine c.test account ac password p3\n"
        "machine 127.0.0.1 login l password q\n"
    )
    environment(NETRC=str(path))
    return path


@pytest.mark.parametrize(
    ("url", "auth"),
    [
        ("http://a.test/", ("u", "p")),
        ("http://a.test:80/x", ("u", "p")),
        ("https://x:y@A.TEST/", ("u", "p")),
        (b"http://a.test/", ("u", "p")),
        ("http://127.0.0.1:5000/", ("l", "q")),
        ("http://b.test/", None),
        ("http://sub.a.test/", None),
        ("http://a.test:80@evil.test/", None),
        ("a.test", None),
        ("http://", None),
        ("", None),
    ],
)
def test_get_netrc_auth(utils: Any, netrc: Path, url: Any, auth: Any) -> None:
    assert utils.get_netrc_auth(url) == auth
    assert utils.get_netrc_auth(url, raise_errors=True) == auth


def test_netrc_is_read_on_every_call(utils: Any, netrc: Path) -> None:
    assert utils.get_netrc_auth("http://a.test/") == ("u", "p")
    netrc.write_text("machine a.test login other password p\ndefault login d password e\n")
    assert utils.get_netrc_auth("http://a.test/") == ("other", "p")
    assert utils.get_netrc_auth("http://b.test/") == ("d", "e")


def test_a_netrc_file_that_is_no_good_is_passed_over_unless_asked(
    utils: Any, environment: Any, tmp_path: Path
) -> None:
    from netrc import NetrcParseError

    path = tmp_path / "netrc"
    path.write_text("machine a.test login u password p bogus\n")
    environment(NETRC=str(path))
    assert utils.get_netrc_auth("http://a.test/") is None
    with pytest.raises(NetrcParseError):
        utils.get_netrc_auth("http://a.test/", raise_errors=True)
    environment(NETRC=str(tmp_path))
    assert utils.get_netrc_auth("http://a.test/") is None
    with pytest.raises(OSError):
        utils.get_netrc_auth("http://a.test/", raise_errors=True)


@pytest.mark.parametrize("path", ["/no/such/netrc", ""])
def test_a_netrc_file_that_is_not_there_is_no_error(
    utils: Any, environment: Any, path: str
) -> None:
    environment(NETRC=path)
    assert utils.get_netrc_auth("http://a.test/", raise_errors=True) is None


def test_netrc_is_found_at_home(
    utils: Any, environment: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    found = []
    for name in utils.NETRC_FILES[::-1]:
        found.append(utils.get_netrc_auth("http://a.test/"))
        (tmp_path / name).write_text(f"machine a.test login {name} password p\n")
        (tmp_path / name).chmod(0o600)
    found.append(utils.get_netrc_auth("http://a.test/"))
    assert found == [None, ("_netrc", "p"), (".netrc", "p")]
    environment(NETRC="~/_netrc")
    assert utils.get_netrc_auth("http://a.test/") == ("_netrc", "p")


# -- constants


def test_constants(requests: Any, utils: Any) -> None:
    assert utils.DEFAULT_PORTS == {"http": 80, "https": 443}
    assert utils.NETRC_FILES == (".netrc", "_netrc")
    assert requests.certs.where() == utils.DEFAULT_CA_BUNDLE_PATH
    assert {"a", "Z", "0", "-", ".", "_", "~"} < utils.UNRESERVED_SET
    assert len(utils.UNRESERVED_SET) == 66


def test_names_that_come_from_elsewhere(requests: Any, utils: Any) -> None:
    assert utils.cookiejar_from_dict is requests.cookies.cookiejar_from_dict
    assert utils.CaseInsensitiveDict is requests.structures.CaseInsensitiveDict
    assert utils.to_native_string is requests._internal_utils.to_native_string
    for name in ("quote", "unquote", "urlparse", "urlunparse", "getproxies", "proxy_bypass"):
        assert getattr(utils, name) is getattr(requests.compat, name)
    for name in ("InvalidHeader", "InvalidURL", "FileModeWarning", "UnrewindableBodyError"):
        assert getattr(utils, name) is getattr(requests.exceptions, name)
    with pytest.raises(AttributeError):
        _ = utils.nonsense
