"""Whatever bytes a client sends, over sockets to a real server: an answer below 500 or a closed connection, in time.

Requests of every route are valid, or have one to three faults, in their JSON, their bytes, their head or their
framing. ``LONGTAIL_FUZZ`` is how many are sent in place of 400.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from waiting import until

import longtail

CASES = int(os.environ.get("LONGTAIL_FUZZ", "400"))
AT_ONCE = 16  # connections
IDLE = 0.25  # seconds without an answer after which the client says that it sends no more
SECONDS = 20  # that a connection may take
ASKED = {"texts": ["one two", {"title": "three", "content": "four"}, ""], "k": 20}
STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")
VALID = [
    *(("POST", "/v1/predict", body) for body in (ASKED, {**ASKED, "kind": "encoder"}, {"texts": ["x"]})),
    ("POST", "/v1/predict", {"texts": ["one"], "k": 2, "explain": True}),
    ("POST", "/v1/predict", {"texts": ["one"], "allowed": ["fuzz-1", "x"]}),
    ("POST", "/v1/predict", {"texts": ["one"], "excluded": ["fuzz-1", "x"]}),
    ("POST", "/v1/labels", {"uid": "fuzz-1", "text": "one two", "examples": ["three", {"title": "four"}]}),
    ("POST", "/v1/labels", [{"uid": "fuzz-2", "text": "one"}, {"uid": "fuzz-3/4", "text": "two"}]),
    *(("DELETE", path, None) for path in ("/v1/labels/fuzz-1", "/v1/labels/fuzz-3%2F4", "/v1/labels/fuzz-none")),
    *(("GET", path, None) for path in ("/v1/labels?query=e&limit=3", "/v1/labels/fuzz-2", "/v1/labels", "/v1/model")),
    *(("GET", path, None) for path in ("/healthz", "/readyz", "/metrics", "/", "/page.js", "/openapi.json", "/none")),
]
VALUES = [
    *(None, True, False, 0, -1, 1.5, 1e308, 2**31, 2**63, 10**30, 10**4000, "", " ", "x", "\0", "\ud800"),
    "\udfff\ud800",
    *("é\u2028\U0001f600", "a" * 20_000, "a" * 20_001, [], {}, [[]], [None], [""] * 300, {"title": None}, {"": ""}),
    *({"title": "\ud800"}, {"title": "x", "other": 1}, ["x"] * 1001, float("nan"), float("inf"), -float("inf")),
]
ODD = [
    *(b"\0", b"\xff", b"\xed\xa0\x80", b"\\ud800", b"\xef\xbb\xbf", b"\r\n", b"\n", b"\r", b"\r\n\r\n", b" ", b"\t"),
    b"\x7f",
    *(b"NaN", b"-Infinity", b"1e400", b"9" * 5000, b"[" * 60_000, b'{"a":' * 20_000, b'"', b"\\", b",", b":", b"}"),
    b"]",
    *(b'"k":1,"k":2', b'"texts":["x"],', b"//", b"/*", b"%", b"%00", b"%ff", b"%c0%af", b"../", b"?", b"#"),
    b"a" * 70_000,
]
METHODS = [
    *("PUT", "PATCH", "HEAD", "OPTIONS", "TRACE", "CONNECT", "get"),
    *("GE T", "", "PRI", "M-SEARCH", "X" * 300, "G\0T", "é"),
]
PATHS = [
    *("*", "", "http://127.0.0.1/healthz", "http://[::1", "//healthz", "/../../etc/passwd", "/%2e%2e/", "/page.html"),
    *("/v1/labels/", "/v1/labels/%00", "/v1/labels/%ed%a0%80", "/v1/labels/" + "x" * 300, "/" + "x" * 70_000, "/é"),
    "/\0",
    *("/v1/labels?limit=0", "/v1/labels?limit=9" + "9" * 5000, "/v1/labels?limit=nan", "/v1/labels?query=%ff%00", "/?"),
    *("/v1/labels?query=%00", "/v1/labels?query=" + "x" * 3000, "/v1/labels?limit=1&limit=2"),
    "/v1/labels?" + "a=1&" * 5000,
]
HEADS = [
    *("Content-Length: 5", "Content-Length: -1", "Content-Length: x", f"Content-Length: {10**25}"),
    *("Content-Length: 4194305", "Transfer-Encoding: chunked", "Transfer-Encoding: gzip, chunked"),
    *("Transfer-Encoding: x", "Content-Type: text/plain", "Content-Type: application/json; charset=utf-16"),
    *("Content-Type: \0", "Content-Encoding: gzip", "Content-Type: multipart/form-data; boundary=x"),
    *("Authorization: Bearer", "Authorization: Bearer é", "Authorization: Basic x", "Expect: 100-continue"),
    *("Connection: close", "Connection: Upgrade\r\nUpgrade: websocket", "Connection: Upgrade\r\nUpgrade: h2c"),
    *("Host: x\r\nHost: y", "X: " + "x" * 100_000, "\r\n".join(f"X-{i}: y" for i in range(2000)), ": x", "X"),
    *("X : y", " folded", "X: \x01", "Cookie: é=\xff"),
]
VERSIONS = ["HTTP/1.0", "HTTP/0.9", "HTTP/2.0", "HTTP/9.9", "HTTP/1.1 x", "", "http/1.1", "HTTP/11"]


def replaced(value, draw):
    """JSON with another value, key or length somewhere in it."""
    if isinstance(value, (dict, list)) and value and draw.random() < 0.8:
        value = value.copy()
        place = draw.choice(list(value) if isinstance(value, dict) else range(len(value)))
        match draw.randrange(6):
            case 0:
                del value[place]
            case 1 if isinstance(value, dict):
                value[str(draw.choice(VALUES))[:30]] = value[place]
            case 1:
                value *= draw.choice([2, 300])
            case _:
                value[place] = replaced(value[place], draw)
        return value
    return draw.choice(VALUES)


def broken(raw, draw):
    """Bytes with a fault in them."""
    at = draw.randrange(len(raw) + 1)
    end = min(len(raw), at + draw.choice([1, 1, 2, 8, 40]))
    return draw.choice(
        [
            raw[:at] + bytes(byte ^ 1 << draw.randrange(8) for byte in raw[at:end]) + raw[end:],
            raw[:at] + bytes(draw.randrange(256) for _ in range(end - at)) + raw[end:],
            raw[:at],
            raw[:at] + raw[end:],
            raw[:at] + raw[at:end] * draw.choice([2, 100]) + raw[end:],
            raw[:at] + draw.choice(ODD) + raw[at:],
            raw[:at] + draw.choice(ODD) + raw[end:],
        ]
    )


def chunked(body, draw):
    """A body in chunks, most of them as they must be."""
    size = max(1, len(body) // draw.choice([1, 2, 50]))
    chunks = [b"%x\r\n%b\r\n" % (len(part), part) for i in range(0, len(body), size) if (part := body[i : i + size])]
    end = [b"0\r\n\r\n", b"0\r\n\r\n", b"0\r\nX: y\r\n\r\n", b"-1\r\n", b"ffffffffffffffff\r\n", b"g\r\n", b"0", b""]
    return b"".join([*chunks, draw.choice(end)])


def request(draw, faults):
    """The bytes of a request of some route."""
    method, path, content = draw.choice(VALID)
    heads, version = ["Host: x", "Authorization: Bearer let me", "Content-Type: application/json"], "HTTP/1.1"
    where = [draw.choice(["json", "json", "body", "method", "path", "head", "framing", "raw"]) for _ in range(faults)]
    for _ in range(where.count("json")):
        content = replaced(content, draw)
    body = b"" if content is None else json.dumps(content).encode()
    if "body" in where:
        text = body.decode()
        other = [text.encode(code) for code in ("utf-16", "utf-32", "utf-8-sig")]
        body = draw.choice([*(broken(body, draw) for _ in range(6)), *other])
    if "method" in where:
        method = draw.choice(METHODS)
        version = draw.choice([version, *VERSIONS])
    if "path" in where:
        path = draw.choice(PATHS)
    length = len(body)
    if "framing" in where:
        length = max(0, length + draw.choice([-10, -1, 1, 10, 10**6]))
    if "framing" in where and draw.random() < 0.5:
        heads.append("Transfer-Encoding: chunked")
        body = chunked(body, draw)
    else:
        heads.append(f"Content-Length: {length}")
    for _ in range(where.count("head")):
        heads.insert(draw.randrange(len(heads) + 1), draw.choice(HEADS))
    line = draw.choice(["\r\n"] * 20 + ["\n"]) if faults else "\r\n"
    raw = f"{method} {path} {version}{line}{line.join(heads)}{line}{line}".encode(errors="surrogatepass") + body
    return broken(raw, draw) if "raw" in where else raw


def case(number):
    """What a client sends on one connection, whether it is as it must be, and whether it waits for the answers."""
    draw = random.Random(number)
    if draw.random() < 0.1:
        return request(draw, 0), True, True
    many = draw.choice([1, 1, 1, 1, 2, 5])
    return b"".join(request(draw, draw.choice([0, 1, 1, 2, 3])) for _ in range(many)), False, draw.random() < 0.95


async def send(port, number):
    """What came back; a problem if it is not what may."""
    raw, is_valid, waits = case(number)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    found = b""
    try:
        writer.write(raw)
        if not waits:
            writer.transport.abort()
            return Counter({"gone": 1})
        while True:
            part = await asyncio.wait_for(reader.read(2**20), IDLE if found or not is_valid else SECONDS)
            if not part:
                break
            found += part
    except asyncio.TimeoutError:
        writer.write_eof()  # all that was said is said
        try:
            found += await asyncio.wait_for(reader.read(-1), SECONDS)
        except asyncio.TimeoutError:
            raise AssertionError(f"no end of case {number}: {raw[:300]}") from None
    except OSError:  # what was still being sent was refused with what had come
        pass
    finally:
        writer.transport.abort()
    statuses = [int(status) for status in STATUS.findall(found)]
    bad = [status for status in statuses if status >= 500 and not (status == 503 and b'"detail"' in found)]
    assert not bad, (number, raw[:200], found[-300:])
    assert not is_valid or (len(statuses) == 1 and statuses[0] in (200, 201, 204, 404)), (
        number,
        raw[:200],
        found[:300],
    )
    return Counter(map(str, statuses or ["closed"]))


async def send_all(port, numbers):
    """The statuses of many, some at a time."""
    left, seen = iter(numbers), Counter()

    async def client():
        for number in left:
            seen.update(await send(port, number))

    await asyncio.gather(*(client() for _ in range(AT_ONCE)))
    return seen


def held(process):
    """Private MiB and sockets of a process, where the system says."""
    folder = Path(f"/proc/{process}")
    if not (folder / "smaps_rollup").is_file():
        return 0.0, 0
    sizes = re.findall(r"Private_\w+: +(\d+) kB", (folder / "smaps_rollup").read_text())
    sockets = 0
    for link in (folder / "fd").iterdir():
        with suppress(OSError):  # it was closed meanwhile
            sockets += link.readlink().name.startswith("socket:")
    return sum(map(int, sizes[:2])) / 1024, sockets


def least_held(process):
    """The least of some samples of private MiB."""

    def sample():
        time.sleep(0.1)
        return held(process)[0]

    return min(sample() for _ in range(5))


@pytest.mark.timeout(3600)
def test_whatever_is_sent_is_answered_below_500_or_closed(run, start_server):
    server = start_server(run, "--deadline", 60)  # what is valid is answered, however busy the machine is
    uids = [label.uid for label in longtail.load(run).predict(["one"], k=120)[0]]
    asked = {**ASKED, "allowed": uids}
    before, (_, sockets) = server.ask("POST", "/v1/predict", asked), held(server.process.pid)
    begin = time.monotonic()
    seen = asyncio.run(send_all(server.port, range(CASES // 4)))
    early = least_held(server.process.pid)
    seen += asyncio.run(send_all(server.port, range(CASES // 4, CASES)))
    seconds = time.monotonic() - begin
    assert server.ask("POST", "/v1/predict", asked) == before
    answer = json.loads(server.ask("POST", "/v1/predict", ASKED)[1])["results"]
    found = longtail.load(run).predict(ASKED["texts"], k=ASKED["k"])
    assert [[label["uid"] for label in one["labels"]] for one in answer] == [
        [label.uid for label in one] for one in found
    ]
    until(lambda: held(server.process.pid)[1] <= sockets, 30)  # no connections that nobody has any more
    late = least_held(server.process.pid)
    assert late - early < 24, f"{late - early:.1f} MiB more"
    assert server.stop()
    told = [line for line in server.lines if line["level"] in ("error", "critical") or "traceback" in line]
    assert not told, told[:3]
    print(f"{CASES:,} cases in {seconds:.0f} s, {late - early:+.1f} MiB: {dict(seen.most_common())}")
