"""gevent: programs whose threads are greenlets continue while a request waits.

Each check is a program, which patches the standard library before anything else happens.
"""

from __future__ import annotations

import subprocess
import sys
import threading

from tests.ecosystem.fakes import ON_CURLHTTP
from tests.servers import AppConnection, AppServer, Record

_ALIAS = "import curlhttp; curlhttp.alias_requests()"
_PATCH = "from gevent import monkey; monkey.patch_all()"


def _run(app: AppServer, program: str, *beginning: str) -> None:
    begin = beginning or (_ALIAS, _PATCH)
    lines = [line for line in begin if ON_CURLHTTP or line != _ALIAS]
    script = "\n".join([*lines, "import sys, gevent, requests; url = sys.argv[1]", program])
    command = [sys.executable, "-c", script, app.url]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stdout + result.stderr


def _serve_together(app: AppServer, count: int) -> None:
    """Respond to no request before so many have arrived."""
    barrier = threading.Barrier(count)

    def respond(record: Record, conn: AppConnection) -> None:
        barrier.wait(30)
        conn.reply(200, b"together")

    app.route("/together", respond)


def waits_in_many_greenlets_at_once(app: AppServer) -> None:
    program = """
def visit():
    assert session.get(url + "/together", timeout=30).text == "together"

with requests.Session() as session:
    gevent.joinall([gevent.spawn(visit) for _ in range(12)], raise_error=True)
"""
    _serve_together(app, 12)
    for beginning in ((_ALIAS, _PATCH), (_PATCH, _ALIAS)):
        _run(app, program, *beginning)


def waits_for_bodies_at_once(app: AppServer) -> None:
    program = """
def read():
    with session.get(url + "/stream", stream=True, timeout=30) as response:
        assert b"".join(response.iter_content(10)) == b"beginning, end"

with requests.Session() as session:
    gevent.joinall([gevent.spawn(read) for _ in range(5)], raise_error=True)
"""
    barrier = threading.Barrier(5)

    def respond(record: Record, conn: AppConnection) -> None:
        conn.begin(200, [("Content-Length", "14")])
        conn.send(b"beginning, ")
        barrier.wait(30)
        conn.send(b"end")

    app.route("/stream", respond)
    _run(app, program)


def waits_for_a_connection_of_a_full_pool(app: AppServer) -> None:
    program = """
session = requests.Session()
session.mount("http://", requests.adapters.HTTPAdapter(pool_maxsize=2, pool_block=True))
jobs = [gevent.spawn(session.get, url + "/delay/0.01", timeout=30) for _ in range(10)]
gevent.joinall(jobs, raise_error=True)
session.close()
"""
    _run(app, program)
    assert app.connections == 2


def ends_a_request_with_its_greenlet(app: AppServer) -> None:
    program = """
with requests.Session() as session:
    try:
        with gevent.Timeout(0.05):
            session.get(url + "/stall", timeout=30)
    except gevent.Timeout:
        pass
    else:
        raise AssertionError("no timeout")
    stalled = gevent.spawn(session.get, url + "/stall", timeout=30)
    gevent.sleep(0.05)
    stalled.kill()
    assert stalled.dead
    try:
        session.get(url + "/stall", timeout=0.05)
    except requests.exceptions.ReadTimeout:
        pass
    assert session.get(url, timeout=30).text == "hello"
"""
    _run(app, program)


def keeps_connections_and_notices_their_end(app: AppServer) -> None:
    program = """
with requests.Session() as session:
    for _ in range(3):
        assert session.post(url + "/echo", data=b"x", timeout=30).ok
    session.get(url + "/bye", timeout=30)
    assert session.post(url + "/echo", data=b"x", timeout=30).ok
"""

    def bye(record: Record, conn: AppConnection) -> None:
        conn.reply(200, b"bye")  # without a word of the end
        conn.closing = True

    app.route("/bye", bye)
    _run(app, program)
    assert app.connections == 2
