"""Settings: as workers get them, and as the manifest describes them."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from curlhttp import BasicAuth, CircuitBreaker, RetryPolicy, Timeout
from curlhttp.distributed.worker import describe_settings, pickle_settings
from tests.distributed.test_fetch import fetched
from tests.servers import AppServer


def test_policies_are_pickled_as_the_arguments_they_were_created_with() -> None:
    breaker = CircuitBreaker(7, failure_statuses={500}, max_origins=9)
    retry = RetryPolicy(5, statuses={500})
    made = pickle.loads(
        pickle_settings({"breaker": breaker, "retry": retry, "timeout": Timeout(total=3)})
    )
    assert made["breaker"].failure_statuses == {500}
    assert repr(made["breaker"]) == repr(breaker)
    for number in range(20):
        made["breaker"]._admit(f"http://h{number}.test", 0.0)
    assert len(made["breaker"]._states()) <= 9
    assert (made["retry"].max_retries, made["retry"].statuses) == (5, {500})
    assert made["retry"].budget.reserve == 10.0


def test_the_manifest_describes_settings_without_credentials() -> None:
    shown = describe_settings(
        {
            "auth": BasicAuth("user", "s3cret"),
            "cookies": {"session": "s3cret"},
            "headers": {"Authorization": "Bearer s3cret", "X-Api-Key": "s3cret", "Accept": "a/b"},
            "proxies": {"https": "http://user:s3cret@proxy"},
            "params": [("token", "s3cret"), ("page", "3")],
            "timeout": Timeout(total=3),
            "retry": RetryPolicy(3),
            "guard": len,
        }
    )
    assert "s3cret" not in str(shown)
    assert "a/b" in shown["headers"]
    assert "'3'" in shown["params"]
    assert "max_retries=3" in shown["retry"]
    again = describe_settings({"retry": RetryPolicy(3), "timeout": Timeout(total=3)})
    assert again["retry"] == shown["retry"]
    assert again["timeout"] == shown["timeout"]
    assert describe_settings({"retry": RetryPolicy(4)})["retry"] != shown["retry"]


def test_settings_that_cannot_be_sent_to_workers_are_refused(
    app: AppServer, tmp_path: Path
) -> None:
    with pytest.raises(TypeError, match="hooks cannot be sent to workers"):
        fetched([app.url], tmp_path / "out", hooks={"request": [lambda request: None]})
    assert not (tmp_path / "out").exists()
