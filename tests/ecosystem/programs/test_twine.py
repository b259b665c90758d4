"""twine uploads to an index: it streams multipart bodies of requests-toolbelt, with a `Retry`."""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.ecosystem.programs.compare import Both, needs
from tests.servers import AppConnection, AppServer, Certs, HTTPProxy, Record, payload, refused_port

pytestmark = [pytest.mark.slow, needs("twine", "requests")]

METADATA = b"""Metadata-Version: 2.1
Name: parcel
Version: 1.0
Summary: A parcel
Description-Content-Type: text/x-rst

=====
Title
=====

Some text.
"""
WHEEL, SDIST = "dist/parcel-1.0-py3-none-any.whl", "dist/parcel-1.0.tar.gz"
CREDENTIALS = ("-u", "ada", "-p", "right")
ADA = "Basic YWRhOnJpZ2h0"  # ada:right


class Index:
    """The upload of PyPI, for one user.

    Attributes:
        taken: names of files that were uploaded before.
        failures: how many uploads fail first.
    """

    def __init__(self, server: AppServer) -> None:
        self.url = server.url + "/legacy/"
        self.taken: set[str] = set()
        self.failures = 0
        self._failures_left = 0
        server.route("/legacy", self._upload)

    def forget(self) -> None:
        """Be as at the start."""
        self._failures_left = self.failures

    def _upload(self, record: Record, conn: AppConnection) -> None:
        if record.header("authorization") != ADA:
            conn.reply(403, b"no such user", reason="Invalid or non-existent authentication")
        elif self._failures_left:
            self._failures_left -= 1
            conn.reply(503, b"later")
        elif _file(record.body)[0] in self.taken:
            conn.reply(400, b"taken", reason="File already exists")
        else:
            conn.reply(200, b"thanks")


def _file(body: bytes) -> tuple[str, bytes]:
    """Return the name and the content of the file in an upload."""
    found = re.search(
        rb'name="content"; filename="([^"]+)"\r\nContent-Type: [^\r]+\r\n\r\n(.*)\r\n--',
        body,
        re.DOTALL,
    )
    assert found
    return found[1].decode(), found[2]


@pytest.fixture
def index(app: AppServer) -> Index:
    return Index(app)


@pytest.fixture
def twine(tmp_path: Path, app: AppServer, tls_app: AppServer, index: Index) -> Both:
    """Return twine, with a wheel and an sdist in dist/."""
    made = Both(
        "twine",
        tmp_path,
        [app, tls_app],
        variables={"PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring"},
    )
    made.before = index.forget
    made.write(WHEEL, _wheel())
    made.write(SDIST, _sdist())
    return made


def upload(url: str, *options: str, password: str = "right") -> tuple[str, ...]:
    common = ("upload", "--non-interactive", "--disable-progress-bar", "-u", "ada", "-p", password)
    return (*common, "--repository-url", url, *options, WHEEL, SDIST)


def _wheel() -> bytes:
    with zipfile.ZipFile(made := io.BytesIO(), "w") as file:
        file.writestr("parcel/data.bin", payload(300_000))
        file.writestr("parcel-1.0.dist-info/METADATA", METADATA)
        file.writestr(
            "parcel-1.0.dist-info/WHEEL",
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        file.writestr("parcel-1.0.dist-info/RECORD", "")
    return made.getvalue()


def _sdist() -> bytes:
    with tarfile.open(fileobj=(made := io.BytesIO()), mode="w:gz") as file:
        for name, content in (("PKG-INFO", METADATA), ("data.bin", payload(300_000))):
            info = tarfile.TarInfo(f"parcel-1.0/{name}")
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))
    return made.getvalue()


def test_uploads_a_wheel_and_an_sdist(twine: Both, index: Index) -> None:
    done = twine(*upload(index.url))
    assert done.status == 0, done.output
    assert done.output.count("Uploading parcel") == 2
    for sent, path in zip(done.sent, (WHEEL, SDIST), strict=True):
        content = twine.read(path)
        assert (sent.method, sent.target) == ("POST", "/legacy/")
        assert sent.header("authorization") == ADA
        assert sent.header("content-length")
        assert _file(sent.body) == (Path(path).name, content)
        assert hashlib.sha256(content).hexdigest().encode() in sent.body


def test_prints_the_response_of_the_index(twine: Both, index: Index) -> None:
    done = twine(*upload(index.url, "--verbose"))
    assert done.status == 0
    assert "200 OK" in done.output
    assert "thanks" in done.output


def test_a_progress_bar_reaches_the_end(twine: Both, index: Index) -> None:
    arguments = [part for part in upload(index.url) if part != "--disable-progress-bar"]
    for done in twine.each(*arguments, variables={"FORCE_COLOR": "1", "TERM": "xterm"}):
        assert done.status == 0
        assert done.output.count("100%") == 2


def test_a_wrong_password_is_refused(twine: Both, index: Index) -> None:
    done = twine(*upload(index.url, password="wrong"))
    assert done.status == 1
    assert done.says("Invalid or non-existent authentication")
    assert len(done.sent) == 1


def test_a_file_that_exists_ends_the_upload(twine: Both, index: Index) -> None:
    index.taken.add(Path(WHEEL).name)
    stopped = twine(*upload(index.url))
    assert stopped.status == 1
    assert stopped.says("File already exists")
    assert len(stopped.sent) == 1


def test_a_file_that_pypi_has_is_skipped(twine: Both, certs: Certs) -> None:
    """twine skips at PyPI alone, which is a server of ours here, behind a proxy."""
    with (
        AppServer(certs.server_context("upload.pypi.org", "pypi.python.org")) as server,
        HTTPProxy(
            hosts=dict.fromkeys(("upload.pypi.org", "pypi.python.org"), ("127.0.0.1", server.port))
        ) as proxy,
    ):
        index = Index(server)
        index.taken.add(Path(WHEEL).name)
        known = {"releases": {"1.0": [{"filename": Path(SDIST).name}]}}
        body = json.dumps(known).encode()
        server.route("/pypi/parcel/json", lambda record, conn: conn.reply(200, body))
        done = twine(
            *upload("https://upload.pypi.org/legacy/", "--skip-existing"),
            variables={"HTTPS_PROXY": proxy.url, "TWINE_CERT": str(certs.ca_path)},
        )
        assert done.status == 0, done.output
        assert done.output.count("because it appears to already exist") == 2
        asked = [("GET", "/pypi/parcel/json"), ("POST", "/legacy/")]
        assert [(sent.method, sent.target) for sent in server.requests] == asked * 2


def test_an_index_that_fails_is_retried(twine: Both, index: Index) -> None:
    index.failures = 2
    done = twine(*upload(index.url))
    assert done.status == 0
    assert len(done.sent) == 4
    assert done.sent[0] == done.sent[1] == done.sent[2]
    assert "503: Service Unavailable" in done.output


def test_a_redirect_is_reported_and_not_followed(twine: Both, index: Index, app: AppServer) -> None:
    done = twine(*upload(f"{app.url}/redirect-to?url={index.url}&body=50"))
    assert done.status == 1
    assert done.says("attempted to redirect to")
    assert len(done.sent) == 1


@pytest.mark.parametrize("by", ["option", "environment", "requests"])
def test_uploads_over_tls_with_a_private_authority(
    twine: Both, tls_app: AppServer, certs: Certs, by: str
) -> None:
    authority = str(certs.ca_path)
    options = ("--cert", authority) if by == "option" else ()
    names = {"environment": "TWINE_CERT", "requests": "REQUESTS_CA_BUNDLE"}
    variables = {names[by]: authority} if by in names else {}
    done = twine(*upload(Index(tls_app).url, *options), variables=variables)
    assert done.status == 0, done.output
    assert len(done.sent) == 2


def test_an_untrusted_authority(twine: Both, tls_app: AppServer) -> None:
    for done in twine.each(*upload(Index(tls_app).url)):
        assert done.status == 1
        assert done.says("CERTIFICATE_VERIFY_FAILED")
        assert done.sent == []


def test_uploads_with_a_client_certificate(twine: Both, certs: Certs) -> None:
    with AppServer(certs.client_auth_context()) as server:
        files = ("--cert", str(certs.ca_path), "--client-cert", str(certs.client_cert_path()))
        for done in twine.each(*upload(Index(server).url, *files)):
            assert done.status == 0, done.output
        assert {handshake.peer for handshake in server.handshakes} == {"client A"}
        assert len(server.requests) == 4


def test_uploads_through_a_proxy(twine: Both, tls_app: AppServer, certs: Certs) -> None:
    with HTTPProxy(("pia", "secret")) as proxy:
        url = f"http://pia:secret@127.0.0.1:{proxy.port}"
        done = twine(
            *upload(Index(tls_app).url, "--cert", str(certs.ca_path)),
            variables={"HTTPS_PROXY": url},
        )
        assert done.status == 0, done.output
        assert len(done.sent) == 2
        assert {request.method for request in proxy.log} == {"CONNECT"}


def test_an_index_that_is_not_there(twine: Both) -> None:
    with refused_port() as port:
        for done in twine.each(*upload(f"http://127.0.0.1:{port}/legacy/")):
            assert done.status == 1
            assert done.says("Max retries exceeded with url: /legacy/")


def test_reads_the_index_and_the_password_from_a_file(twine: Both, index: Index) -> None:
    config = f"[distutils]\nindex-servers = own\n[own]\nrepository = {index.url}\nusername = ada\n"
    twine.write(".pypirc", (config + "password = right\n").encode())
    done = twine("upload", "--non-interactive", "--disable-progress-bar", "-r", "own", WHEEL)
    assert done.status == 0, done.output
    assert done.sent[0].header("authorization") == ADA


def test_checks_files_without_a_request(twine: Both) -> None:
    done = twine("check", "--strict", WHEEL, SDIST)
    assert done.status == 0, done.output
    assert done.output.count("PASSED") == 2
