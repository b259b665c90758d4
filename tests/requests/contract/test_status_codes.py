"""codes: the numbers of statuses by name."""

from __future__ import annotations

from typing import Any

import pytest

NAMES = {
    100: r"continue",
    101: r"switching_protocols",
    102: r"processing early-hints",
    103: r"checkpoint",
    122: r"request_uri_too_long",
    200: r"ok okay all_ok all_okay all_good \o/ ✓",
    201: r"created",
    202: r"accepted",
    203: r"non_authoritative_info non_authoritative_information",
    204: r"no_content",
    205: r"reset_content reset",
    206: r"partial_content partial",
    207: r"multi_status multiple_status multi_stati multiple_stati",
    208: r"already_reported",
    226: r"im_used",
    300: r"multiple_choices",
    301: r"moved_permanently moved \o-",
    302: r"found",
    303: r"see_other other",
    304: r"not_modified",
    305: r"use_proxy",
    306: r"switch_proxy",
    307: r"temporary_redirect temporary_moved temporary",
    308: r"permanent_redirect resume_incomplete resume",
    400: r"bad_request bad",
    401: r"unauthorized",
    402: r"payment_required payment",
    403: r"forbidden",
    404: r"not_found -o-",
    405: r"method_not_allowed not_allowed",
    406: r"not_acceptable",
    407: r"proxy_authentication_required proxy_auth proxy_authentication",
    408: r"request_timeout timeout",
    409: r"conflict",
    410: r"gone",
    411: r"length_required",
    412: r"precondition_failed",
    413: r"request_entity_too_large content_too_large",
    414: r"request_uri_too_large uri_too_long",
    415: r"unsupported_media_type unsupported_media media_type",
    416: r"requested_range_not_satisfiable requested_range range_not_satisfiable",
    417: r"expectation_failed",
    418: r"im_a_teapot teapot i_am_a_teapot",
    421: r"misdirected_request",
    422: r"unprocessable_entity unprocessable unprocessable_content",
    423: r"locked",
    424: r"failed_dependency dependency",
    425: r"unordered_collection unordered too_early",
    426: r"upgrade_required upgrade",
    428: r"precondition_required precondition",
    429: r"too_many_requests too_many",
    431: r"header_fields_too_large fields_too_large",
    444: r"no_response none",
    449: r"retry_with retry",
    450: r"blocked_by_windows_parental_controls parental_controls",
    451: r"unavailable_for_legal_reasons legal_reasons",
    499: r"client_closed_request",
    500: r"internal_server_error server_error /o\ ✗",
    501: r"not_implemented",
    502: r"bad_gateway",
    503: r"service_unavailable unavailable",
    504: r"gateway_timeout",
    505: r"http_version_not_supported http_version",
    506: r"variant_also_negotiates",
    507: r"insufficient_storage",
    509: r"bandwidth_limit_exceeded bandwidth",
    510: r"not_extended",
    511: r"network_authentication_required network_auth network_authentication",
}


@pytest.mark.parametrize(("code", "names"), NAMES.items())
def test_a_code_has_its_names_in_lower_and_upper_case(requests: Any, code: int, names: str) -> None:
    codes = requests.codes
    for name in names.split():
        assert codes[name] == getattr(codes, name) == code
        if name[0] not in "\\/":
            assert codes[name.upper()] == code


def test_there_are_no_other_names(requests: Any) -> None:
    known = {name for names in NAMES.values() for name in names.split()}
    assert {name for name in vars(requests.codes) if not name.isupper()} <= {
        "name",
        "-O-",
        *known,
    }


def test_an_unknown_name_has_no_code(requests: Any) -> None:
    assert requests.codes["nonsense"] is None
    assert requests.codes["\\O/"] is requests.codes["/O\\"] is None
    assert requests.codes.get("nonsense", 0) == 0
    with pytest.raises(AttributeError):
        _ = requests.codes.nonsense


def test_the_names_of_each_code_are_listed(requests: Any) -> None:
    listed = requests.status_codes._codes
    assert listed[404] == ("not_found", "-o-")
    assert listed[412] == ("precondition_failed", "precondition")
    assert set(listed) == set(NAMES)
    assert requests.status_codes.codes is requests.codes
    assert repr(requests.codes) == "<lookup 'status_codes'>"
