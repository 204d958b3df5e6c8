"""`push` and `pull` in processes of their own."""

from __future__ import annotations

from standin_hub import standin_hub

import longtail as package


def test_a_model_goes_to_a_hub_and_comes_back(longtail, run, tmp_path):
    with standin_hub() as hub:
        options = ["--endpoint", hub.endpoint]
        status, output, errors = longtail("push", run, "someone/tags", "--public", *options)
        assert (status, errors) == (0, "")
        assert output == f"The model is at {hub.endpoint}/someone/tags.\nNext: longtail pull someone/tags --out RUN\n"
        assert hub.private == {"someone/tags": False}
        status, output, errors = longtail("pull", "someone/tags", "--out", tmp_path / "pulled", *options)
        assert status == 0, errors
        assert output.endswith(f"Next: longtail predict {tmp_path / 'pulled'}\n")
    assert package.load(tmp_path / "pulled", device="cpu").predict(["zebra"]) == package.load(
        run, device="cpu"
    ).predict(["zebra"])
