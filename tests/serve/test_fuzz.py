"""The server against its own OpenAPI: whatever schemathesis thinks of, there is no 5xx."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from longtail.serve.app import application
from longtail.serve.service import Settings

pytest.importorskip("schemathesis", reason="schemathesis is not installed")
EXAMPLES = int(os.environ.get("LONGTAIL_FUZZ", "25"))  # for each operation and kind of data; docs/guides/serving.md
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


def test_openapi_names_every_route(run):
    app = application(Settings(run, device="cpu"))._app
    paths = app.openapi()["paths"]
    assert set(paths) == {
        *("/v1/predict", "/v1/labels", "/v1/labels/{uid}", "/v1/model", "/healthz", "/readyz", "/metrics"),
        *("/v1/corrections", "/v1/corrections/{number}"),
    }


@pytest.mark.parametrize("mode", ["positive", "negative"])
def test_no_request_is_a_server_error(run, mode, start_server):
    server = start_server(run)
    command = [sys.executable, "-W", "ignore", "-m", "schemathesis.cli", "run"]
    options = [
        *("--header", "Authorization: Bearer let me", "--max-examples", EXAMPLES, "--mode", mode, "--seed", 1),
        *(
            "--checks",
            CHECKS,
            "--phases",
            "examples,coverage,fuzzing",
            "--no-color",
            "--suppress-health-check",
            "all",
            "--warnings",
            "off",
        ),
        *("--generation-database", "none", "--request-timeout", 30),
    ]
    url = f"http://127.0.0.1:{server.port}/openapi.json"
    whole = [*command, *map(str, options), url]
    done = subprocess.run(whole, capture_output=True, text=True, timeout=1500, check=False)
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert server.ask("GET", "/readyz")[0] == 200
