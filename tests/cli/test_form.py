"""The forms of -F, which are those that curl 7.88 sends for the same arguments."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.servers import AppServer
from tests.support.cli import command, run
from tests.support.colours import needs_posix
from tests.support.internals import ROOT

_TYPE = "\r\nContent-Type: "


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make files for forms, in the current folder."""
    monkeypatch.chdir(tmp_path)
    for name in ("a.txt", "b.png", "data", "x.XML", "q;t.html", 'q"t.gif', "a,b.pdf"):
        if '"' not in name or os.name == "posix":
            (tmp_path / name).write_text("AAA")
    (tmp_path / "headers").write_bytes(b"X-A: 1\r\n# comment\nX-B: 2\n 3\n")
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    return tmp_path


def _send(app: AppServer, *arguments: str, stdin: bytes | None = None) -> str:
    """Send a form, and return the parts with the boundaries as B."""
    ended = run("curl", app.url + "/echo", *arguments, stdin=stdin)
    assert ended.status == 0, ended.err
    record = app.requests[-1]
    body = record.body.decode("latin-1")
    types = [value for name, value in record.headers if name.lower() == "content-type"]
    assert len(types) == 1
    for boundary in re.findall(r"boundary=(\S+)", f"{types[0]}\r\n{body}"):
        body = body.replace(boundary, "B")
    return body


def _part(head: str, body: str = "AAA") -> str:
    return f"--B\r\nContent-Disposition: form-data; {head}\r\n\r\n{body}\r\n--B--\r\n"


@pytest.mark.parametrize(
    ("field", "head", "body"),
    [
        ('f={"a":1};type=application/json', f'name="f"{_TYPE}application/json', '{"a":1}'),
        ("f= a ; type=text/html ", f'name="f"{_TYPE}text/html', "a"),
        ("f=a;type=text/plain;charset=utf-8", f'name="f"{_TYPE}text/plain;charset=utf-8', "a"),
        ("f=a;TYPE=x/y; q=1;filename=z", f'name="f"; filename="z"{_TYPE}x/y; q=1', "a"),
        ("f=a;filename=z.png", f'name="f"; filename="z.png"{_TYPE}image/png', "a"),
        ("f=a;filename=z", 'name="f"; filename="z"', "a"),
        ('f="a;b\\"\\\\\\c";type=x/y', f'name="f"{_TYPE}x/y', 'a;b"\\\\c'),
        ('f="a', 'name="f"', '"a'),
        ("f=a,b;type=x/y,z", f'name="f"{_TYPE}x/y,z', "a,b"),
        ('f=a;headers="X: 1;2";headers=Y: 3', 'name="f"\r\nX: 1;2\r\nY: 3', "a"),
        ("f=a;headers=Content-Type: q/w", f'name="f"{_TYPE}q/w', "a"),
        ("f=a;type=x/y;headers=Content-Type: q/w", f'name="f"{_TYPE}x/y', "a"),
        ("f=@a.txt", f'name="f"; filename="a.txt"{_TYPE}text/plain', "AAA"),
        ("f=@a.txt;type=x/y;filename=b.txt", f'name="f"; filename="b.txt"{_TYPE}x/y', "AAA"),
        ("f=@a.txt;filename=b.txt;type=x/y", f'name="f"; filename="b.txt"{_TYPE}x/y', "AAA"),
        ("f=@a.txt;filename=b.svg", f'name="f"; filename="b.svg"{_TYPE}image/svg+xml', "AAA"),
        ("f=@b.png;filename=", f'name="f"; filename=""{_TYPE}image/png', "AAA"),
        ("f=@data", f'name="f"; filename="data"{_TYPE}application/octet-stream', "AAA"),
        ("f=@x.XML", f'name="f"; filename="x.XML"{_TYPE}application/xml', "AAA"),
        ('f=@ "a.txt" ;type=x/y', f'name="f"; filename="a.txt"{_TYPE}x/y', "AAA"),
        ('f=@"q;t.html"', f'name="f"; filename="q;t.html"{_TYPE}text/html', "AAA"),
        pytest.param(
            'f=@"q\\"t.gif"',
            f'name="f"; filename="q%22t.gif"{_TYPE}image/gif',
            "AAA",
            marks=needs_posix,
        ),
        ('f=@"a,b.pdf"', f'name="f"; filename="a,b.pdf"{_TYPE}application/pdf', "AAA"),
        (
            "f=@data;headers=@headers",
            f'name="f"; filename="data"{_TYPE}application/octet-stream\r\nX-A: 1\r\nX-B: 2 3',
            "AAA",
        ),
        ("f=<a.txt", 'name="f"', "AAA"),
        ("f=<b.png", f'name="f"{_TYPE}image/png', "AAA"),
        ('f=<"q;t.html";type=x/y', f'name="f"{_TYPE}x/y', "AAA"),
        ("f=a;encoder=base64", 'name="f"\r\nContent-Transfer-Encoding: base64', "YQ=="),
        (
            "f=a=\t;encoder=quoted-printable",
            'name="f"\r\nContent-Transfer-Encoding: quoted-printable',
            "a=3D",
        ),
        ("f=@-", 'name="f"; filename="-"', "piped"),
        ("f=@-;filename=a.txt", f'name="f"; filename="a.txt"{_TYPE}text/plain', "piped"),
        ("f=<-;type=x/y", f'name="f"{_TYPE}x/y', "piped"),
    ],
    ids=str,
)
def test_a_field_is_sent_as_curl_sends_it(
    app: AppServer, folder: Path, field: str, head: str, body: str
) -> None:
    assert _send(app, "-F", field, stdin=b"piped") == _part(head, body)


def test_a_field_from_a_pipe_has_a_length_and_can_be_sent_again(app: AppServer) -> None:
    url = app.url + "/redirect-to?url=/echo&status=307"
    form = command("curl", "-s", "-L", "-F", "f=@-", url)
    subprocess.run(form, cwd=ROOT, input=b"piped", check=True, capture_output=True, timeout=60)
    for record in app.requests[-2:]:
        assert record.values("content-length") == [str(len(record.body))]
        assert b"piped" in record.body


def test_several_files_are_a_form_in_the_form(app: AppServer, folder: Path) -> None:
    assert _send(app, "-F", "f=@a.txt;type=x/y,b.png;filename=c") == (
        '--B\r\nContent-Disposition: form-data; name="f"\r\n'
        "Content-Type: multipart/mixed; boundary=B\r\n\r\n"
        '--B\r\nContent-Disposition: attachment; filename="a.txt"\r\n'
        "Content-Type: x/y\r\n\r\nAAA\r\n"
        '--B\r\nContent-Disposition: attachment; filename="c"\r\n'
        "Content-Type: image/png\r\n\r\nAAA\r\n--B--\r\n\r\n--B--\r\n"
    )


def test_forms_can_be_nested(app: AppServer, folder: Path) -> None:
    fields = ("n=(;type=multipart/alternative", "=a;type=text/plain", "=<a.txt", "=)", "z=1")
    assert _send(app, *(word for field in fields for word in ("-F", field))) == (
        '--B\r\nContent-Disposition: form-data; name="n"\r\n'
        "Content-Type: multipart/alternative; boundary=B\r\n\r\n"
        "--B\r\nContent-Type: text/plain\r\n\r\na\r\n--B\r\n\r\nAAA\r\n--B--\r\n\r\n"
        '--B\r\nContent-Disposition: form-data; name="z"\r\n\r\n1\r\n--B--\r\n'
    )


def test_a_form_has_the_type_of_the_command(app: AppServer, folder: Path) -> None:
    _send(app, "-F", "f=@a.txt", "-H", "Content-Type: multipart/related")
    assert b'Content-Disposition: attachment; name="f"; filename="a.txt"' in app.requests[-1].body
    _send(app, "-F", "f=a", "-H", "Content-Type: multipart/form-data; boundary=xyz")
    assert app.requests[-1].body.startswith(b"--xyz\r\n")


def test_quotation_marks_in_names_are_escaped_on_request(app: AppServer, folder: Path) -> None:
    assert _send(app, "-F", 'a"\\=b', "--form-escape") == _part('name="a\\"\\\\"', "b")
    assert _send(app, "-F", 'a"\\=b') == _part('name="a%22\\"', "b")


def test_data_is_encoded_in_lines(app: AppServer, folder: Path) -> None:
    import base64
    import quopri

    sent = _send(app, "-F", "f=<binary;encoder=base64").split("\r\n\r\n")[1]
    lines = sent.removesuffix("\r\n--B--\r\n").split("\r\n")
    assert base64.b64decode("".join(lines)) == bytes(range(256))
    assert {len(line) for line in lines[:-1]} == {76}
    sent = _send(app, "-F", "f=<binary;encoder=quoted-printable").split("\r\n\r\n")[1]
    sent = sent.removesuffix("\r\n--B--\r\n")
    assert quopri.decodestring(sent.encode()) == bytes(range(256))
    assert max(map(len, sent.split("\r\n"))) <= 76


@pytest.mark.parametrize(
    ("field", "status"),
    [
        ("f=sesame;type=x", 2),
        ("f=sesame;type=", 2),
        ("f=sesame;encoder=rot13", 2),
        ("f=@binary;encoder=7bit", 2),
        ("f=sesame;headers=X", 2),
        ("f=sesame;headers=@none", 26),
        ("f=@none", 26),
        ("f=@a.txt,none", 26),
        ("f=@a.txt;type=x,b.png", 2),
        ("=)", 2),
        ("sesame", 2),
    ],
)
def test_a_field_that_cannot_be_sent_is_refused(
    app: AppServer, folder: Path, field: str, status: int
) -> None:
    ended = run("curl", app.url, "-F", field)
    assert (ended.status, app.requests) == (status, [])
    assert "sesame" not in ended.err


def test_text_that_curl_leaves_out_is_reported(app: AppServer, folder: Path) -> None:
    ended = run("curl", app.url + "/echo", "-F", "f=a;b")
    assert ended.status == 0
    assert "the text after a semicolon is left out" in ended.err
    assert b"\r\n\r\na\r\n--" in app.requests[-1].body


def test_all_commands_have_these_forms(app: AppServer, folder: Path) -> None:
    for method in ("post", "request"):
        run(method, app.url + "/echo", "-F", "f=@a.txt;type=x/y;filename=b")
        assert b'filename="b"\r\nContent-Type: x/y\r\n\r\nAAA' in app.requests[-1].body


def test_a_file_of_an_item_has_a_type(app: AppServer, folder: Path) -> None:
    run("post", app.url + "/echo", "f@b.png", "g@data", "h@a.txt;type=x/y")
    body = app.requests[-1].body
    assert b'filename="b.png"\r\nContent-Type: image/png\r\n' in body
    assert b'filename="data"\r\n\r\nAAA' in body
    assert b'filename="a.txt"\r\nContent-Type: x/y\r\n' in body


def test_a_form_of_files_is_sent_again_after_a_redirect(app: AppServer, folder: Path) -> None:
    ended = run("curl", "-L", app.url + "/redirect-to?status=307&url=/echo", "-F", "f=@a.txt,data")
    assert ended.status == 0, ended.err
    first, second = app.requests[-2:]
    assert first.body == second.body
    assert b"AAA" in second.body
