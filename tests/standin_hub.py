"""Stands in for a hub of Hugging Face: the few addresses that pushing and pulling a model ask for, in memory."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

SHA = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Hub:
    """What the hub holds.

    Attributes:
        endpoint: its address.
        files: content by name, of each repository.
        private: whether a repository is.
        cut: the name of a file of which half is sent.
        asked: each request, in order.
    """

    endpoint: str = ""
    files: dict[str, dict[str, bytes]] = field(default_factory=dict)
    private: dict[str, bool] = field(default_factory=dict)
    cut: str = ""
    asked: list[str] = field(default_factory=list)

    def create(self, body: bytes) -> Any:
        said = json.loads(body)
        repo = f"{said.get('organization') or 'someone'}/{said['name']}"
        self.files.setdefault(repo, {})
        self.private.setdefault(repo, said.get("private", said.get("visibility") == "private"))  # by the version
        return {"url": f"{self.endpoint}/{repo}"}

    def upload_modes(self, body: bytes) -> Any:
        paths = [file["path"] for file in json.loads(body)["files"]]
        return {"files": [{"path": path, "uploadMode": "regular", "shouldIgnore": False} for path in paths]}

    def commit(self, repo: str, body: bytes) -> Any:
        for said in map(json.loads, body.splitlines()):
            value = said["value"]
            if said["key"] == "file":
                self.files[repo][value["path"]] = base64.b64decode(value["content"])
            elif said["key"] == "deletedFile":
                del self.files[repo][value["path"]]
        return {"commitUrl": f"{self.endpoint}/{repo}/commit/{SHA}", "commitOid": SHA}

    def about(self, repo: str) -> Any:
        return {"id": repo, "sha": SHA, "siblings": [{"rfilename": name} for name in self.files[repo]]}

    def content(self, repo: str, name: str) -> bytes:
        content = self.files[repo][name]
        return content[: len(content) // 2] if name == self.cut else content


class Handler(BaseHTTPRequestHandler):
    """Answers for a hub."""

    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, *args: Any) -> None:
        """Nothing is said of a request."""

    def do_POST(self) -> None:
        path, body = urlsplit(self.path).path, self._body()
        self.hub.asked.append(f"POST {path}")
        match path.strip("/").split("/"):
            case ["api", "repos", "create"]:
                self._answer(self.hub.create(body))
            case ["api", "validate-yaml"]:
                self._answer({"errors": [], "warnings": []})
            case ["api", "models", _, _, "preupload", _]:
                self._answer(self.hub.upload_modes(body))
            case ["api", "models", owner, name, "commit", _]:
                self._answer(self.hub.commit(f"{owner}/{name}", body))

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.asked.append(f"{self.command} {path}")
        try:
            match path.strip("/").split("/"):
                case ["api", "models", owner, name, *_]:
                    self._answer(self.hub.about(f"{owner}/{name}"))
                case [owner, name, "resolve", _, *rest]:
                    content = self.hub.content(f"{owner}/{name}", "/".join(rest))
                    self._send(content, {"ETag": f'"{hashlib.sha1(content).hexdigest()}"', "X-Repo-Commit": SHA})
        except KeyError:
            self._send(b"", {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"}, 404)

    def do_HEAD(self) -> None:
        self.do_GET()

    def _answer(self, value: Any) -> None:
        self._send(json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _send(self, content: bytes, headers: dict[str, str], status: int = 200) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline().strip() or b"0", 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)


@contextmanager
def standin_hub() -> Iterator[Hub]:
    """A hub on a port of this machine, for as long as the block."""
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("OfHub", (Handler,), {"hub": hub}))
    hub.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
