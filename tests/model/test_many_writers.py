"""Four processes add labels while a fifth compacts: each of them is there, once, under an id of its own."""

from __future__ import annotations

import subprocess
import sys

DRIVER = """
import os, pathlib, sys
from longtail.errors import LongtailError
from longtail.model import LabelSet
from longtail.model.label_set import NewLabel

run, children = pathlib.Path(sys.argv[1]), []
for writer in range(5):
    children.append(os.fork())
    if children[-1] == 0:
        if writer == 4:
            for _ in range(4):
                label_set = LabelSet(run, device="cpu")
                label_set.compact()
                label_set.close()
        else:
            label_set = LabelSet(run, device="cpu")
            for i in range(15):
                label_set.add([NewLabel(f"{writer}-{i}", f"text {i}"), NewLabel(f"{writer}-{i}-twin", f"text {i}")])
                label_set.refresh()
            label_set.close()
        os._exit(0)
assert [os.waitpid(child, 0)[1] for child in children] == [0] * 5
label_set = LabelSet(run, device="cpu")
label_set.compact()
label_set.close()
label_set = LabelSet(run, device="cpu")
labels = label_set.model.predict(["text"], 1000)[0]
label_set.close()
added = [label.uid for label in labels if not label.uid.startswith("label-")]
assert sorted(added) == sorted(f"{w}-{i}{twin}" for w in range(4) for i in range(15) for twin in ("", "-twin"))
assert len({label.id for label in labels}) == len(labels) == 120 + len(added)
"""


def test_each_of_their_labels_is_there_once(run):
    done = subprocess.run([sys.executable, "-c", DRIVER, run], check=False, capture_output=True, text=True, timeout=120)
    assert not done.returncode, done.stderr
