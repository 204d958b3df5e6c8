"""A run in a folder that cannot be written is opened, predicts and is served as it is; only a change is refused."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import longtail
from longtail.model.label_set import LabelSet, NewLabel

TEXT = "one two"
SCRIPT = """
import sys
from pathlib import Path
import longtail
from longtail.errors import BadInput
from longtail.model.label_set import LabelSet, NewLabel, changes_made
run = Path(sys.argv[1])
try:
    (run / "file").touch()
except OSError:
    pass
else:
    sys.exit(77)
print([label.uid for label in longtail.load(run, device="cpu").predict(["one two"], k=200)[0]])
labels = LabelSet(run, device="cpu")
print([change.uid for change in labels.changes()], changes_made(run))
try:
    labels.add([NewLabel("other", "text")])
except BadInput as error:
    print(str(error).count(chr(10)))
if len(sys.argv) > 2:
    from starlette.testclient import TestClient
    from longtail.serve.app import application
    from longtail.serve.service import Settings
    with TestClient(application(Settings(run, device="cpu")), raise_server_exceptions=False) as client:
        found = client.post("/v1/predict", json={"texts": ["one two"], "k": 200}).json()
        print([label["uid"] for label in found["results"][0]["labels"]])
        answer = client.post("/v1/labels", json={"uid": "a", "text": "b"}, headers={"Authorization": "Bearer x"})
        print(answer.status_code, "cannot" in answer.text or "only read" in answer.text, answer.text)
"""


def read_only(run, *arguments):
    """The output of the script, for a run that it cannot write; also where mode bits do not bind."""
    command = [sys.executable, "-c", SCRIPT, str(run), *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "LONGTAIL_TOKEN": "x"}
    if os.geteuid() == 0:
        mount = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
        command = ["unshare", "-m", "sh", "-c", mount, str(run), *command]
    else:
        for path in (run, *run.rglob("*")):
            path.chmod(0o500 if path.is_dir() else 0o400)
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)
    finally:
        for path in (run, *run.rglob("*")):
            path.chmod(0o700 if path.is_dir() else 0o600)
    if done.returncode == 77 or "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip("this system makes no folder read-only for this user")
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout.splitlines()


@pytest.mark.skipif(sys.platform != "linux", reason="mounts a folder")
@pytest.mark.parametrize("state", ["no changes", "closed", "open"])
def test_a_run_that_cannot_be_written_is_opened_as_it_is(run, state):
    expected, labels = [], LabelSet(run, device="cpu")
    if state != "no changes":
        labels.add([NewLabel("new", TEXT)])
        labels.remove(["new"] if state == "closed" else ["nothing"])
        expected = [change.uid for change in labels.changes()]
        assert expected
    if state != "open":
        labels.close()
    found = [label.uid for label in longtail.load(run, device="cpu").predict([TEXT], k=200)[0]]
    predicted, changed, refused, served, added = read_only(run, "serve")
    assert predicted == served == str(found)
    assert changed == f"{expected} {2 * bool(expected)}"
    assert refused == "0"
    assert added.startswith("422 True")
    labels.close()
