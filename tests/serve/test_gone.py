"""Clients that leave while they are owed answers."""

from __future__ import annotations

import json
import socket
import struct
import time


def test_a_client_that_leaves_a_pipeline_is_no_error(run, start_server):
    server = start_server(run)
    body = json.dumps({"texts": ["text"] * 8, "k": 100}).encode()
    request = b"POST /v1/predict HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    for i in range(20):
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            if i % 2:  # reset, not closed
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.sendall(request * 20)
            time.sleep(0.001 * (i % 10))
    assert server.ask("GET", "/healthz")[0] == 200
    assert server.stop()
    assert server.lines
    loud = [line for line in server.lines if line["level"] in ("warning", "error") or "traceback" in line]
    assert loud == []
