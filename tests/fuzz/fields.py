"""Values of header fields that are parsed: unusual, broken and hostile ones.

A response leads nowhere but to this machine: hosts of a Location are 127.0.0.1 or below localhost.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.fuzz.draft import Draft, Site, junk

CHARSETS = (
    b"utf-8 utf8 UTF-8-SIG utf-16 utf-16-le utf-16be utf-32 utf-7 latin-1 iso-8859-1 iso-8859-16 "
    b"ascii us-ascii 646 windows-1252 cp1252 cp037 cp437 cp65001 koi8-r shift_jis euc-jp "
    b"iso2022_jp iso-2022-kr hz gb2312 gbk gb18030 big5 big5hkscs johab mac-turkish utf8mb4 "
    b"punycode idna unicode_escape raw_unicode_escape unicode-internal undefined charmap mbcs oem "
    b"base64 hex rot13 rot_13 quopri uu zip zlib bz2 string-escape none x-user-defined x encodings "
    b"__init__ aliases ../x utf-8/../utf-16 os . \xe4 \xff utf-8\x00 %s {0} 0 null binary identity"
).split(b" ")

MONTHS = b"Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec Fed jan JANUARY 13 00 Mai \xe4".split()
NUMBERS = [
    b"", b" ", b"1 ", b"9" * 40, b"9" * 5000, b"1 2", b"1\t",
    *b"0 1 -1 +1 00 01 007 1.5 1e3 0x10 1_000 \xd9\xa8 9 31 32 59 60 99 300 65536 2147483647 "
    b"2147483648 4294967296 9223372036854775807 9223372036854775808 18446744073709551616 nan inf "
    b"-0 --1 1- 1,1 1,2 ;1 '1' \"1\"".split(),
]  # fmt: skip


def number(random: Random) -> bytes:
    """Return what may stand where a number should."""
    return random.choice(NUMBERS)


def date(random: Random) -> bytes:
    """Return what may stand where a date should."""
    pick = random.choice
    if random.random() < 0.2:
        return pick([b"", b"0", b"-1", b"now", b"Thu, 01 Jan 1970 00:00:00 GMT", junk(random)])
    day = pick([b"Wed", b"Thu", b"Thursday", b"", b"Xyz"])
    number_of_day = pick([b"1", b"21", b"29", b"30", b"31", b"32", b"00", b"99", b"-1", b"001"])
    year = pick([b"2027", b"1970", b"1600", b"1601", b"0", b"0000", b"99", b"69", b"70", b"9999"])
    year = pick([year, year, b"10000", b"99999999999", b"-1", b"2027.5"])
    clock = b":".join(pick([b"00", b"12", b"23", b"24", b"60", b"99", b"1", b"-1"]) for _ in "hms")
    zone = pick([b"GMT", b"GMT", b"UTC", b"+0100", b"-9999", b"+99999999", b"EST", b"", b"Z"])
    gap = pick([b" ", b" ", b"-", b"  ", b""])
    return day + b", " + gap.join([number_of_day, pick(MONTHS), year]) + b" " + clock + b" " + zone


def cookie(random: Random, site: Site) -> bytes:
    """Return a Set-Cookie line."""
    pick = random.choice
    name = pick([b"a", b"b", b"", b"__Host-x", b"__Secure-x", b"$Version", b"a b", b'"', b"\xe4"])
    value = pick([b"1", b"", b'"q"', b'"', b"a=b", b"\xff\xfe", b"a,b", b"v" * 4100, b"%00", b"\t"])
    parts = [pick([name + b"=" + value] * 6 + [name, value, b"=", b""])]
    for _ in range(random.randint(0, 4)):
        parts.append(_attribute(random))
    gap = pick([b"; ", b"; ", b";", b" ; ", b", ", b";;", b"\t;"])
    return pick([b"Set-Cookie: ", b"set-cookie:", b"SET-COOKIE: "]) + gap.join(parts)


def _attribute(random: Random) -> bytes:
    pick = random.choice
    name = pick([b"Expires", b"expires", b"Max-Age", b"Domain", b"Path", b"Secure", b"HttpOnly"])
    name = pick(
        [name] * 8 + [b"SameSite", b"Partitioned", b"Version", b"Port", b"Comment", b"", b"="]
    )
    values: dict[bytes, Callable[[], bytes]] = {
        b"Expires": lambda: date(random),
        b"expires": lambda: date(random),
        b"Max-Age": lambda: number(random),
        b"Version": lambda: number(random),
        b"Port": lambda: pick([b'"80"', b"80,x", b'""', b"99999999"]),
        b"Domain": lambda: pick(
            [
                b"127.0.0.1",
                b".0.0.1",
                b"localhost",
                b"",
                b".",
                b"..",
                b"[::1]",
                b"x",
                b"\xe4",
                b".1",
            ]
        ),
        b"Path": lambda: pick([b"/", b"", b"/h1", b"x", b"/\xe4", b"/%2f", b"//", b"/" * 2000]),
    }
    if name in values and random.random() < 0.9:
        return name + b"=" + values[name]()
    return name if random.random() < 0.7 else name + b"=" + pick(NUMBERS)


def location(random: Random, site: Site) -> bytes:
    """Return a Location line."""
    return b"Location: " + random.choice(_locations(site))


def _locations(site: Site) -> list[bytes]:
    to, on, port = site.authority, site.onward, b"%d" % site.port
    absolute = b"http://" + to + on
    return [
        *[absolute, on, b"//" + to + on] * 4,
        on + b"?q=1#f", on + b"#", on[1:], b"", b" ", b"?", b"#", b"?a b", b".", b"..",
        b"/../.." + on, b"HTTP://" + to + on, b"hTTp://" + to + on, b"http:/x.localhost/", b"http:",
        b"http://", b"http:///x", b"https://" + to + on, b"ftp://" + to + b"/",
        b"file:///etc/passwd", b"javascript:alert(1)", b"data:text/plain,x", b"mailto:a@localhost",
        b"x:y", b":", b"://", b"//", b"///", b"////" + to, b"\\\\" + to + on, b"http:\\\\" + to,
        b"http://" + to + b"\\" + on, b"/\\x", b"http://localhost:" + port + on,
        b"http://LOCALHOST.:" + port + on, b"http://127.1:" + port + on,
        b"http://0x7f.1:" + port + on, b"http://2130706433:" + port + on,
        b"http://%31%32%37.0.0.1:" + port + on, b"http://127.0.0.1.:" + port + on,
        b"http://127%2e0.0.1:" + port + on, b"http://localhost%2500:" + port + on,
        b"http://b\xc3\xbccher.localhost:" + port + on, b"http://b\xfccher.localhost:" + port + on,
        b"http://xn--bcher-kva.localhost:" + port + on, b"http://xn--.localhost:" + port + on,
        b"http://xn--\xe4.localhost/", b"http://" + b"a" * 64 + b".localhost/",
        b"http://" + b"a." * 200 + b"localhost/", b"http://..localhost/", b"http://.localhost/",
        b"http://-.localhost:" + port + on, b"http://_.localhost:" + port + on,
        b"http://[::1]:" + port + on, b"http://[::1%25lo]:" + port + on, b"http://[", b"http://[::",
        b"http://[]/", b"http://[127.0.0.1]/", b"http://[v1.a]/", b"http://]/",
        b"http://127.0.0.1:0/", b"http://127.0.0.1:65536/", b"http://127.0.0.1:/" + on,
        b"http://127.0.0.1:" + b"9" * 5000, b"http://127.0.0.1:\xd9\xa8\xd9\xa0/",
        b"http://127.0.0.1:x/", b"http://127.0.0.1:-1/", b"http://127.0.0.1:+80/",
        b"http://127.0.0.1: 80/", b"http://u:p@" + to + on, b"http://u@" + to + on,
        b"http://:@" + to + on, b"http://@" + to + on, b"http://u:p@127.0.0.1:1@" + to + on,
        b"http://%00:%ff@" + to + on, b"http://\xe4:\xe4@" + to + on, b"http://" + to + b"/%",
        b"http://" + to + b"/%zz", b"http://" + to + b"/\xe4\xff", b"http://" + to + b"/ a\tb",
        b"http://" + to + on + b"\x01", b"http://" + to + on + b"\x7f\x1f",
        b"http://" + to + b"/" + b"x" * 20000, b"http://" + to + b"/?" + b"%ff" * 3000,
        b" " + absolute + b" ", b"\t" + absolute, b"<" + absolute + b">", b'"' + absolute + b'"',
        absolute + b", " + absolute, absolute + b" " + absolute, b"http://" + to + b"?x",
        b"http://" + to, b"/" + site.kind.encode() + b"/%d/%d" % (site.case, site.hop),
        "http://127.0.0.1\N{FULLWIDTH FULL STOP}:80/".encode(),
        "http://localhost\N{CARE OF}/".encode(), "http://\N{ZERO WIDTH SPACE}.localhost/".encode(),
        "http://\N{RIGHT-TO-LEFT OVERRIDE}/".encode(),
    ]  # fmt: skip


def challenge(random: Random, site: Site) -> bytes:
    """Return a WWW-Authenticate or Proxy-Authenticate line."""
    pick = random.choice
    name = b"Proxy-Authenticate: " if site.kind == "connect" else b"WWW-Authenticate: "
    scheme = pick(
        [b"Digest", b"Digest", b"Digest", b"Basic", b"digest", b"Bearer", b"NTLM", b"", b"\xe4"]
    )
    parts = []
    for _ in range(random.randint(0, 7)):
        key = pick(
            [b"realm", b"nonce", b"qop", b"algorithm", b"opaque", b"domain", b"stale", b"charset"]
        )
        key = pick([key] * 8 + [b"userhash", b"", b"\xff", b"rspauth", b"nc", b"cnonce"])
        value = pick(
            [b"x", b"", b"auth", b"auth-int", b"auth,auth-int", b"AUTH", b"foo", b"MD5",
            b"MD5-sess",
             b"SHA-256", b"SHA-512-256", b"sha", b"SHA-256-sess", b"\xe4\xff", b'\\"', b"\\",
             b"a b", b"true", b"UTF-8", b"n" * 3000, b"\t", b"x,y", b"=", b"md5\x7f"]
        )  # fmt: skip
        quote = pick([b'"', b'"', b"", b"'", b'"""'])
        parts.append(key + pick([b"=", b"=", b" = ", b"", b"=="]) + quote + value + quote)
    return (
        name
        + scheme
        + pick([b" ", b" ", b"", b"  ", b"\t"])
        + pick([b", ", b",", b" ", b",,"]).join(parts)
    )


def charset(random: Random, site: Site) -> bytes:
    """Return a Content-Type line."""
    pick = random.choice
    kind = pick(
        [b"text/plain", b"text/html", b"application/json", b"TEXT/HTML", b"text/", b"", b";", b"x"]
    )
    quote = pick([b"", b"", b'"', b"'", b'"\\', b" "])
    parameter = pick([b"charset", b"charset", b"Charset", b"charset ", b"charset*", b"x"])
    names = [pick(CHARSETS), pick(CHARSETS), junk(random), b"", b"x" * 3000]
    value = quote + pick(names) + quote
    return b"Content-Type: " + kind + pick([b"; ", b";", b" ;", b", "]) + parameter + b"=" + value


def link(random: Random, site: Site) -> bytes:
    """Return a Link line."""
    pick = random.choice
    parts = []
    for _ in range(random.randint(1, 4)):
        target = pick([b"</next>", b"<>", b"<", b">", b"", b"</a,b;c>", b"<\xe4>", b"<<x>>", b"<x"])
        for _ in range(random.randint(0, 3)):
            key = pick([b"rel", b"title", b"rel", b"title*", b"", b"\xff"])
            value = pick([b"next", b'"next"', b'"', b'""', b"'x'", b'"a;b,c"', b"\\", b"", b"\xe4"])
            target += (
                pick([b"; ", b";", b" ", b";;"]) + key + pick([b"=", b"=", b"", b"=="]) + value
            )
        parts.append(target)
    return b"Link: " + pick([b", ", b",", b",,", b" "]).join(parts)


def coding(random: Random, site: Site) -> bytes:
    """Return a Content-Encoding line, whatever the body is."""
    names = [
        b"gzip",
        b"x-gzip",
        b"deflate",
        b"br",
        b"zstd",
        b"identity",
        b"compress",
        b"GZIP",
        b"aes",
    ]
    names += [b"", b"gzip;q=1", b'"gzip"', b"\xe4", b"chunked", b"none", b"utf-8"]
    chosen = [random.choice(names) for _ in range(random.choice([1, 1, 1, 2, 3, 7, 40]))]
    return b"Content-Encoding: " + random.choice([b", ", b",", b" "]).join(chosen)


def length(random: Random, site: Site) -> bytes:
    """Return a Content-Length line."""
    name = random.choice(
        [b"Content-Length: ", b"Content-Length:", b"Content-Length : ", b"content-length: "]
    )
    return name + number(random)


_CODED = (
    b"chunked", b"Chunked", b"chunked, chunked", b"gzip, chunked", b"identity", b"x", b"", b"gzip",
    b" chunked ", b"chunked;x", b"chunked, identity", b"\x0bchunked", b"xchunked", b"chunked,",
)  # fmt: skip


def transfer(random: Random, site: Site) -> bytes:
    """Return a Transfer-Encoding line."""
    value = random.choice(_CODED)
    return (
        random.choice([b"Transfer-Encoding: ", b"Transfer-Encoding:\t", b"Transfer-Encoding : "])
        + value
    )


def retry_after(random: Random, site: Site) -> bytes:
    """Return a Retry-After line."""
    return b"Retry-After: " + random.choice([number, date])(random)


def connection(random: Random, site: Site) -> bytes:
    """Return a line about the connection."""
    values = [
        b"close",
        b"keep-alive",
        b"Close",
        b"upgrade",
        b"x",
        b"",
        b"close, keep-alive",
        b"TE",
        b"\xff",
    ]
    lines = [b"Connection: " + random.choice(values), b"Keep-Alive: timeout=" + number(random)]
    lines += [b"Upgrade: h2c", b"Upgrade: websocket", b"Proxy-Connection: " + random.choice(values)]
    return random.choice(lines)


def ranges(random: Random, site: Site) -> bytes:
    """Return a line about ranges and validators, which downloads read."""
    pick = random.choice
    span = pick([b"bytes ", b"", b"x ", b"bytes"]) + number(random) + b"-" + number(random)
    return pick(
        [
            b"Content-Range: " + span + b"/" + number(random),
            b"Content-Range: bytes */" + number(random),
            b"Accept-Ranges: " + pick([b"bytes", b"none", b"", b"x"]),
            b"ETag: " + pick([b'"x"', b'W/"x"', b"x", b"", b'"', b'"\xe4"', b'"\x01"', b'"' * 500]),
            b"Last-Modified: " + date(random),
            b"Content-Disposition: attachment; filename="
            + pick([b"../../x", b'"', b"\xe4", b"x*=y''%"]),
        ]
    )


def other(random: Random, site: Site) -> bytes:
    """Return a line that is read by nobody, or is no header line at all."""
    pick = random.choice
    return pick(
        [b"X: " + junk(random).replace(b"\n", b"?"), b"no colon", b": no name", b"", b" fold",
        b"\tfold",
         b"X\xe4: y", b"X Y: z", b"X\t: y", b"X:\x00", b"X: a\x00b", b"X: a\rb", b"\x00: x",
         b"X" * 300 + b": y", b"X: " + b"y" * 9000, b"HTTP/1.1 200 OK", b"Status: 404",
         b"Date: " + date(random), b"Alt-Svc: clear",
         b"Strict-Transport-Security: max-age=" + number(random), b"Trailer: X, \xe4", b"Vary: *",
         b"\xff\xfe", b"Server: \x1b[31m", b"X: \x7f\x01\x1f", b"Refresh: 0",
         b"Age: " + number(random), b"X:", b"X: ", b"x"]
    )  # fmt: skip


FIELDS: dict[str, Callable[[Random, Site], bytes]] = {
    "cookie": cookie,
    "challenge": challenge,
    "charset": charset,
    "link": link,
    "coding": coding,
    "length": length,
    "transfer": transfer,
    "retry_after": retry_after,
    "connection": connection,
    "ranges": ranges,
    "other": other,
}


_READ = ("cookie", "cookie", "challenge", "charset", "charset", "link", "retry_after", "ranges")


def add_field(random: Random, draft: Draft) -> None:
    """Add a line of any kind, somewhere."""
    _add(random, draft, random.choice(list(FIELDS)))


def add_value(random: Random, draft: Draft) -> None:
    """Add a line that breaks no framing: what is wrong with it shows when it is read."""
    _add(random, draft, random.choice(_READ))


def _add(random: Random, draft: Draft, name: str) -> None:
    line = FIELDS[name](random, draft.site)
    draft.fields.insert(random.randint(0, len(draft.fields)), line)
    draft.notes.append(name)
