"""Session(guard=): which addresses a session may connect to, on each redirect."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import curlhttp
from curlhttp import BlockedAddress, PublicOnly
from curlhttp.requests import Session, adapters
from tests.servers import AppServer


def test_a_session_refuses_this_machine_and_says_why(app: AppServer) -> None:
    with Session(guard=PublicOnly()) as session:
        for url in (app.url, f"http://2130706433:{app.port}/", f"http://[::1]:{app.port}/"):
            with pytest.raises(curlhttp.requests.ConnectionError, match="loopback") as caught:
                session.get(url)
            assert isinstance(caught.value, BlockedAddress)
    assert app.connections == 0


def test_a_redirect_of_a_session_is_checked(app: AppServer) -> None:
    with Session(guard=PublicOnly(allow=["127.0.0.1"])) as session:
        target = f"http://127.0.0.2:{app.port}/"
        with pytest.raises(BlockedAddress):
            session.get(app.url + "/redirect-to", params={"url": target})
        assert session.get(app.url).status_code == 200


def test_a_guard_may_be_set_later_and_taken_off(app: AppServer) -> None:
    with Session() as session:
        assert session.guard is None
        assert session.get(app.url).ok
        session.guard = PublicOnly()
        with pytest.raises(BlockedAddress):
            session.get(app.url)
        session.mount("http://", adapters.HTTPAdapter())  # of a session that is on guard
        with pytest.raises(BlockedAddress):
            session.get(app.url)
        session.guard = None
        assert session.get(app.url).ok
    with pytest.raises(TypeError, match="guard must be"):
        Session(guard="10.0.0.0/8")  # type: ignore[arg-type]


def test_an_adapter_that_was_not_mounted_is_on_guard(app: AppServer) -> None:
    class Own(Session):
        def get_adapter(self, url: str) -> adapters.BaseAdapter:
            return adapters.HTTPAdapter()

    with Session(guard=PublicOnly()) as session, Own(guard=PublicOnly()) as own:
        session.adapters["http://"] = adapters.HTTPAdapter()
        for each in session, own:
            with pytest.raises(BlockedAddress):
                each.get(app.url)
        session.guard = None
        assert session.get(app.url).ok
    assert app.connections == 1


def test_a_pickled_session_keeps_its_guard(app: AppServer) -> None:
    with Session(guard=PublicOnly()) as session, pickle.loads(pickle.dumps(session)) as twin:
        with pytest.raises(BlockedAddress):
            twin.get(app.url)
    assert app.connections == 0


def test_a_refusal_is_not_tried_again(app: AppServer) -> None:
    asked: list[str] = []

    def judge(host: str, address: str, port: int) -> bool:
        asked.append(address)
        return False

    with Session(guard=judge) as session:
        session.mount("http://", adapters.HTTPAdapter(max_retries=3))
        with pytest.raises(BlockedAddress):
            session.get(app.url)
    assert asked == ["127.0.0.1"]


def test_an_adapter_that_makes_pools_is_on_guard_and_not_with_pools_of_others(
    app: AppServer,
) -> None:
    class Own(adapters.HTTPAdapter):
        foreign: Any = None

        def get_connection_with_tls_context(self, *args: Any, **kw: Any) -> Any:
            return self.foreign or super().get_connection_with_tls_context(*args, **kw)

        def cert_verify(self, conn: Any, url: Any, verify: Any, cert: Any) -> None:
            if self.foreign is None:
                super().cert_verify(conn, url, verify, cert)

    with Session(guard=PublicOnly()) as session:
        session.mount("http://", own := Own())
        with pytest.raises(BlockedAddress):
            session.get(app.url)
        own.foreign = object()
        with pytest.raises(ValueError, match="another library"):
            session.get(app.url)
    assert app.connections == 0
