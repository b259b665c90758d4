"""Which addresses are public, and what a guard accepts."""

from __future__ import annotations

import ipaddress
import pickle
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curlhttp import PublicOnly
from curlhttp._features.guard.policy import (
    _IPV4,
    _IPV6,
    expand_address,
    get_special_purpose,
    to_address_guard,
)
from curlhttp._http.address_guard import AddressGuard

PUBLIC = (
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "169.253.255.255",
    "169.255.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "191.255.255.255",
    "192.0.1.0",
    "192.0.3.0",
    "192.167.255.255",
    "192.169.0.0",
    "198.17.255.255",
    "198.20.0.0",
    "223.255.255.255",
    "168.63.129.15",
    "2000::1",
    "2001:200::1",
    "2606:4700:4700::1111",
    "2a00:1450:4001::1",
    "2003::1",
    "::ffff:8.8.8.8",
    "64:ff9b::8.8.8.8",
)

REFUSED = {
    "unspecified": "0.0.0.0 0.255.255.255 :: ::ffff:0.0.0.0",
    "private": (
        "10.0.0.0 10.255.255.255 172.16.0.0 172.31.255.255 192.168.0.0 192.168.255.255 "
        "fc00:: fd00:ec2::254 fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff fec0::1 feff::1 "
        "::ffff:10.0.0.1 64:ff9b::10.0.0.1"
    ),
    "shared": "100.64.0.0 100.100.100.200 100.127.255.255 ::ffff:100.64.0.1",
    "loopback": "127.0.0.0 127.0.0.1 127.255.255.255 ::1 ::ffff:127.0.0.1 64:ff9b::127.0.0.1",
    "link-local": (
        "169.254.0.0 169.254.169.254 169.254.170.2 169.254.255.255 fe80::1 fe80::1%eth0 febf::1 "
        "::ffff:169.254.169.254 ::ffff:a9fe:a9fe 64:ff9b::a9fe:a9fe"
    ),
    "metadata": "168.63.129.16",
    "reserved": (
        "192.0.0.0 192.0.0.192 192.0.0.255 192.88.99.1 240.0.0.0 255.255.255.255 "
        "100:: 200::1 1::1 2001::1 2001:0:53aa:64c:0:0:7f00:1 2001:2::1 2001:10::1 2001:1ff::1 "
        "4000::1 5f00::1 ::ffff:0:7f00:1 e000::1"
    ),
    "documentation": "192.0.2.1 198.51.100.1 203.0.113.255 2001:db8::1 3fff::1 3fff:fff::1",
    "benchmark": "198.18.0.0 198.19.255.255",
    "multicast": "224.0.0.1 239.255.255.255 ff02::1 ff00::",
    "6to4": "2002:7f00:1:: 2002:808:808::1",
    "IPv4-compatible": "::127.0.0.1 ::8.8.8.8 ::2",
    "NAT64 of a local network": "64:ff9b:1::7f00:1 64:ff9b:1:ffff::1",
}
ALL_REFUSED = [(what, address) for what, text in REFUSED.items() for address in text.split()]


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_allowed(address: str) -> None:
    assert PublicOnly().objection("host", address, 80) is None


@pytest.mark.parametrize(("what", "address"), ALL_REFUSED)
def test_an_address_that_is_not_public_is_named_in_the_refusal(what: str, address: str) -> None:
    assert PublicOnly().objection("host", address, 80) == f"not public: {what}"


@given(st.ip_addresses())
def test_no_address_that_python_calls_private_is_public(address: Any) -> None:
    if get_special_purpose(expand_address(str(address))[-1]) is None:
        assert address.is_global or (
            address.version == 6 and len(expand_address(str(address))) == 2
        )


@pytest.mark.parametrize("network", [str(network) for network, _ in (*_IPV4, *_IPV6)])
def test_both_ends_of_each_network_are_refused(network: str) -> None:
    inside = ipaddress.ip_network(network)
    for address in (inside.network_address, inside.broadcast_address):
        assert PublicOnly().objection("host", str(address), 80) is not None


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_is_the_same_in_all_its_forms(address: ipaddress.IPv4Address) -> None:
    guard = PublicOnly()
    found = guard.objection("host", str(address), 80)
    value = int(address)
    for prefix in ("::ffff:0:0", "64:ff9b::"):
        form = ipaddress.IPv6Address(int(ipaddress.IPv6Address(prefix)) + value)
        assert guard.objection("host", str(form), 80) == found
    for text in (f"2002:{value >> 16:x}:{value & 0xFFFF:x}::1", f"::{address}"):
        assert guard.objection("host", text, 80) is not None


@given(st.ip_addresses(), st.ip_addresses())
def test_deny_beats_allow_and_allow_beats_the_list(one: Any, other: Any) -> None:
    guard = PublicOnly(allow=[one, other], deny=[other])
    assert guard("host", str(other), 80) is False
    is_other = not set(expand_address(str(one))).isdisjoint(expand_address(str(other)))
    assert guard("host", str(one), 80) is not is_other


@pytest.mark.parametrize("denied", ["::ffff:9.9.0.0/112", "64:ff9b::9.9.0.0/112", "9.9.0.0/16"])
def test_a_network_is_denied_in_all_its_forms(denied: str) -> None:
    guard = PublicOnly(deny=[denied])
    assert guard("host", "9.9.255.1", 80) is False
    assert guard("host", "::ffff:9.9.255.1", 80) is False
    assert guard("host", "9.10.0.1", 80) is True


@given(st.text(max_size=40))
def test_any_text_as_an_entry_is_taken_or_a_value_error(text: str) -> None:
    try:
        guard = PublicOnly(allow=[text])
    except ValueError:
        return
    # Whatever it was, it has not opened the rest.
    address = ipaddress.ip_address("10.9.8.7")
    with suppress(ValueError):
        if text == "::/0" or address in ipaddress.ip_network(text):
            return
    assert guard("elsewhere", str(address), 80) is False


def test_hosts_networks_and_paths_may_be_allowed() -> None:
    guard = PublicOnly(
        allow=["10.1.0.0/16", "fd00::/8", "192.168.1.7", "Intern.Example.ORG.", "/run/a.sock"]
    )
    for host, address, is_allowed in (
        ("x", "10.1.2.3", True),
        ("x", "::ffff:10.1.2.3", True),
        ("x", "64:ff9b::10.1.2.3", True),
        ("x", "10.2.2.3", False),
        ("x", "fd12::1", True),
        ("x", "192.168.1.7", True),
        ("x", "192.168.1.8", False),
        ("intern.example.org", "127.0.0.1", True),
        ("intern.example.org.", "127.0.0.1", True),
        ("a.intern.example.org", "127.0.0.1", False),
        ("x", "/run/a.sock", True),
        ("x", "/run/b.sock", False),
        ("x", "", False),
        ("x", "\0abstract", False),
    ):
        assert guard(host, address, 80) is is_allowed, (host, address)


def test_hosts_and_networks_may_be_denied() -> None:
    guard = PublicOnly(allow=["bad.example"], deny=["bad.example", "8.8.8.0/24"])
    assert guard.objection("bad.example", "1.1.1.1", 80) == "denied by bad.example"
    assert guard.objection("BAD.example.", "1.1.1.1", 80) == "denied by bad.example"
    assert guard.objection("x", "8.8.8.8", 80) == "denied by 8.8.8.0/24"
    assert guard.objection("x", "64:ff9b::8.8.8.8", 80) == "denied by 8.8.8.0/24"
    assert guard.objection("x", "8.8.9.8", 80) is None


@pytest.mark.parametrize(
    "entry",
    [
        *("", " ", "10.0.0.1/8", "10.0.0.0/33", "127.1", "0177.0.0.1", "0x7f.1", "2130706433"),
        *("1.2.3", "256.1.1.1", "host:80", "[::1]", "http://host", "a b", "a..b", "*.host", "*"),
        *(5, None, b"10.0.0.1", 10.0, ("10.0.0.1",)),
    ],
)
def test_a_bad_entry_is_an_error_at_once(entry: Any) -> None:
    with pytest.raises(ValueError, match=r"^allow has an entry"):
        PublicOnly(allow=[entry])
    with pytest.raises(ValueError, match=r"^deny has an entry"):
        PublicOnly(deny=["10.0.0.0/8", entry])


def test_an_entry_with_credentials_is_not_shown() -> None:
    with pytest.raises(ValueError) as caught:
        PublicOnly(allow=["https://me:s3cret@host"])
    assert "s3cret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_single_text_is_no_list_of_entries() -> None:
    with pytest.raises(ValueError, match="must be a list"):
        PublicOnly(allow="10.0.0.0/8")
    with pytest.raises(ValueError, match="proxies must be"):
        PublicOnly(proxies="maybe")  # type: ignore[arg-type]


def test_a_guard_is_a_public_only_or_a_synchronous_function() -> None:
    async def later(host: str, address: str, port: int) -> bool:
        return True

    class Later:
        async def __call__(self, host: str, address: str, port: int) -> bool:
            return True

    public = PublicOnly()
    assert to_address_guard(public) is public
    for wrong in (PublicOnly, "10.0.0.0/8", True, later, Later()):
        with pytest.raises(TypeError):
            to_address_guard(wrong)  # type: ignore[arg-type]


def test_a_function_allows_only_by_true() -> None:
    def judged_by(response: Any) -> AddressGuard:
        return to_address_guard(lambda host, address, port: response)

    assert judged_by(True).objection("h", "127.0.0.1", 80) is None
    for response in (False, None, 0, ""):
        assert judged_by(response).objection("h", "8.8.8.8", 80) == "refused by the guard"

    async def later() -> bool:
        return True

    with pytest.raises(TypeError, match="at once"):
        judged_by(later()).objection("h", "8.8.8.8", 80)


def test_a_guard_can_be_pickled() -> None:
    guard = pickle.loads(pickle.dumps(PublicOnly(allow=["10.0.0.0/8"], https_only=True)))
    assert guard("x", "10.1.1.1", 80)
    assert not guard("x", "127.0.0.1", 80)
    assert guard.https_only
