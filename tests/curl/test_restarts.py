"""A transfer that starts over on another connection does so a bounded number of times."""

from __future__ import annotations

import anyio
import pytest

from curlhttp._curl.connection_state import OpenConnections
from curlhttp._curl.handle import Handle
from curlhttp.exceptions import ConnectionError
from tests.servers import H2Server
from tests.support.colours import AnyClient

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("streams", [False, True])
async def test_no_reason_to_start_over_lasts_for_ever(
    any_client: AnyClient, h2_app: H2Server, streams: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = h2_app.url + "/"
    await any_client.get(url)
    seen = len(h2_app.requests)
    with monkeypatch.context() as patch:
        # As if each connection that is open were found wanting, and no other one were opened.
        patch.setattr(OpenConnections, "find_clean", lambda *_: None)
        patch.setattr(Handle, "avoid_reuse", lambda *_: None)
        with pytest.raises(ConnectionError, match="could be sent") as caught, anyio.fail_after(30):
            await any_client.get(url, stream=streams, timeout=30)
    assert not caught.value.request_sent
    assert len(h2_app.requests) == seen
    assert (await any_client.get(url)).status_code == 200
