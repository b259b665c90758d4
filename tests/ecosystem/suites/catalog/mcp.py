"""mcp: its clients for SSE and streamable HTTP, with examples/backends/mcp_on_curlhttp.py."""

from tests.ecosystem.suites.suite import Suite

_HTTPX2 = "It expects an error of httpx2; the port raises that of curlhttp in its place."
_WORDS = "It compares the words of an error, which are the port's own."

SUITE = Suite(
    sdist="mcp==2.3.0",
    requires=(
        "mcp[cli]",
        "blockbuster>=1.5.27",
        "dirty-equals>=0.9.0",
        "inline-snapshot>=0.23.0",
        "logfire>=3.0.0",
        "opentelemetry-sdk>=1.39.1",
        "pillow>=12.0",
        "pytest-examples>=0.0.14",
        "trio>=0.26.2",
    ),
    tests=(
        "tests/client/test_http_unicode.py",
        "tests/client/test_notification_response.py",
        "tests/client/test_session_group.py",
        "tests/client/test_streamable_http.py",
        "tests/client/test_transport_stream_cleanup.py",
        "tests/interaction/transports/test_client_transport_http.py",
        "tests/interaction/transports/test_flows.py",
        "tests/interaction/transports/test_hosting_http.py",
        "tests/interaction/transports/test_hosting_http_modern.py",
        "tests/interaction/transports/test_hosting_resume.py",
        "tests/interaction/transports/test_hosting_session.py",
        "tests/interaction/transports/test_legacy_wire.py",
        "tests/interaction/transports/test_sse.py",
        "tests/interaction/transports/test_streamable_http.py",
        "tests/shared/test_sse.py",
        "tests/shared/test_streamable_http.py",
    ),
    options=("-W", "ignore::pytest.PytestAssertRewriteWarning"),  # for what the port imports first
    replaces="mcp",
    differences={
        "*::test_redirect_to_another_origin_fails_that_call_and_keeps_the_session": _WORDS,
        "*::test_resumption_redirected_elsewhere_resolves_that_request_with_an_error": _WORDS,
        "*::test_unfollowed_redirect_location_is_named_without_its_query_string": _WORDS,
        "*::test_https_endpoint_redirected_to_plain_http_*": _WORDS,
        "*::test_sse_client_closes_all_streams_on_*_error": _HTTPX2,
        "*::test_sse_client_does_not_follow_redirect_to_another_origin_on_connect": _HTTPX2,
        "*::test_sse_client_on_session_created_not_called_when_no_session_id": (
            "It puts a mock in place of a function inside mcp's own sse_client."
        ),
    },
)
