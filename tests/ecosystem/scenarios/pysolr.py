"""pysolr: plain sessions, bodies in bytes, long queries by POST, an upload with a file object."""

from __future__ import annotations

import io
import logging
from typing import Any

import pysolr

from tests.ecosystem.fakes import json_response, parts
from tests.servers import AppServer, refused_port

logging.disable(logging.CRITICAL)
CORE = "/solr/core"


def searches(app: AppServer) -> None:
    found = {"response": {"numFound": 2, "docs": [{"id": "1", "t": "é"}, {"id": "2"}]}}
    app.route(CORE + "/select/", json_response(found))
    solr: Any = pysolr.Solr(app.url + CORE, timeout=5, auth=("u", "p"))
    result = solr.search("title:é OR x", rows=2, fq=["a:1", "b:2"])
    assert result.hits == 2
    assert [doc["id"] for doc in result] == ["1", "2"]
    assert app.requests[0].query("q") == "title:é OR x"
    assert [value for name, value in app.requests[0].pairs if name == "fq"] == ["a:1", "b:2"]
    assert app.requests[0].header("authorization") == "Basic dTpw"
    solr.search("x" * 2000)
    assert app.requests[1].method == "POST"
    kind = app.requests[1].header("content-type")
    assert kind == "application/x-www-form-urlencoded; charset=utf-8"
    assert app.connections == 1


def indexes_and_extracts(app: AppServer) -> None:
    app.route(CORE + "/update/", json_response({"responseHeader": {"status": 0}}))
    extracted = {
        "name.pdf": "<p>text</p>",
        "name.pdf_metadata": ["title", ["é"]],
        "responseHeader": {},
    }
    app.route(CORE + "/update/extract", json_response(extracted))
    solr: Any = pysolr.Solr(app.url + CORE, always_commit=True)
    solr.add([{"id": "1", "title": "é & <b>"}])
    assert app.requests[0].query("commit") == "true"
    assert b"\xc3\xa9 &amp; &lt;b&gt;" in app.requests[0].body or b"title" in app.requests[0].body
    file = io.BytesIO(b"%PDF")
    file.name = "name.pdf"
    assert solr.extract(file)["contents"] == "<p>text</p>"
    assert parts(app.requests[1])["file"].content == b"%PDF"
    assert parts(app.requests[1])["extractOnly"].content == b"true"


def tells_errors(app: AppServer) -> None:
    app.route(CORE + "/select/", json_response({"error": {"msg": "bad query"}}, 400))
    errors = []
    with refused_port() as port:
        for url in (app.url, f"http://127.0.0.1:{port}"):
            try:
                pysolr.Solr(url + CORE, timeout=5).search("x")
            except pysolr.SolrError as error:
                errors.append(str(error))
    try:
        pysolr.Solr(app.url + "/stall", timeout=0.05).search("x")
    except pysolr.SolrError as error:
        errors.append(str(error))
    assert "bad query" in errors[0]
    assert "Failed to connect" in errors[1]
    assert "timed out" in errors[2]
