"""Loopback servers for the tests: context managers on a free port that count requests."""

from tests.servers.app import AppConnection, AppServer
from tests.servers.certs import HTTP1, HTTP2, Certs
from tests.servers.connection import Connection
from tests.servers.doh import DoHServer
from tests.servers.http2 import H2Server
from tests.servers.http2_session import Goaway, Reset
from tests.servers.http2_stream import Stream
from tests.servers.listener import Handshake, Listener
from tests.servers.nginx import Nginx, has_nginx
from tests.servers.proxy import HTTPProxy, ProxyRequest, SOCKSProxy
from tests.servers.raw import (
    RawConnection,
    RawServer,
    close_at_once,
    reset_at_once,
    respond,
    respond_and_close,
    respond_and_reset,
    respond_and_stall,
    response,
    stall_at_once,
)
from tests.servers.record import Record, payload
from tests.servers.relay import DatagramRelay, Relay
from tests.servers.unix import UnixDoor
from tests.servers.unreachable import BlackHole, refused_port

__all__ = [
    "HTTP1",
    "HTTP2",
    "AppConnection",
    "AppServer",
    "BlackHole",
    "Certs",
    "Connection",
    "DatagramRelay",
    "DoHServer",
    "Goaway",
    "H2Server",
    "HTTPProxy",
    "Handshake",
    "Listener",
    "Nginx",
    "ProxyRequest",
    "RawConnection",
    "RawServer",
    "Record",
    "Relay",
    "Reset",
    "SOCKSProxy",
    "Stream",
    "UnixDoor",
    "close_at_once",
    "has_nginx",
    "payload",
    "refused_port",
    "reset_at_once",
    "respond",
    "respond_and_close",
    "respond_and_reset",
    "respond_and_stall",
    "response",
    "stall_at_once",
]
