"""What is written on the command line, as methods."""

from __future__ import annotations

import pytest

from longtail.compare.methods import RUN, Method, distinct
from longtail.errors import BadInput
from longtail.report.commands import flags_of
from longtail.report.names import short_names


@pytest.mark.parametrize(
    ("text", "label", "recipe", "arguments"),
    [
        ("dpr", "dpr", "dpr", {}),
        ("dpr:epochs=3", "dpr:epochs=3", "dpr", {"epochs": 3}),
        ("short=dpr:epochs=3,loss=sup_con", "short", "dpr", {"epochs": 3, "loss": "sup_con"}),
        ("short=ngame", "short", "ngame", {}),
        ("dpr:learning-rate=1e-2", "dpr:learning-rate=1e-2", "dpr", {"learning_rate": 0.01}),
        ("a=dpr:fields=title,content,width=8", "a", "dpr", {"fields": ["title", "content"], "width": 8}),
        ("a=dpr:static-vectors=a=b.npy", "a", "dpr", {"static_vectors": "a=b.npy"}),
        ("dpr:static-vectors=a/b.npy", "dpr:static-vectors=a/b.npy", "dpr", {"static_vectors": "a/b.npy"}),
        ("runs/mine", "runs/mine", RUN, {"folder": "runs/mine"}),
        ("mine=./dpr", "mine", RUN, {"folder": "./dpr"}),
        ("a=runs/dpr:epochs=3,b=c/seed-{seed}", "a", RUN, {"folder": "runs/dpr:epochs=3,b=c/seed-{seed}"}),
        ("runs/width=3", "runs/width=3", RUN, {"folder": "runs/width=3"}),
    ],
)
def test_a_method_is_read(text, label, recipe, arguments):
    assert Method.parse(text) == Method(label, recipe, arguments)


@pytest.mark.parametrize(("text", "random"), [("runs/a", False), ("runs/a-{seed}", True), ("dpr", True)])
def test_what_does_not_depend_on_a_seed_runs_once(text, random):
    assert Method.parse(text).random is random


@pytest.mark.parametrize("text", ["runs/a", "mine=runs/a", "short=dpr:epochs=3", "dpr"])
def test_a_method_is_written_as_it_is_read(text):
    assert Method.parse(text).text == text


def test_arguments_become_options_of_train():
    method = Method.parse("a=dpr:fields=title,content,learning_rate=0.01")
    assert flags_of(method.arguments) == ["--fields", "title,content", "--learning-rate", "0.01"]


def test_options_of_an_augmentation_stay_together():
    method = Method.parse("a=astec:augment=gandalf:labels=100:choose=tail,epochs=3")
    assert method.arguments == {"augment": "gandalf:labels=100:choose=tail", "epochs": 3}


def test_a_label_is_a_folder():
    assert Method.parse("dpr:encoder=models/one two,epochs=3").folder == "dpr_encoder=models_one_two,epochs=3"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dpt", "expected one of .*dpr, .*pecos, .*found dpt; .* folder of a finished run with a / in it, as ./mine"),
        ("dpr:epoch=3", r"^dpr:epoch=3: has no option epoch; did you mean epochs"),
        ("dpr:seed=3", "has no option seed; its options are epochs, batch"),
        ("dpr:out=x", "has no option out; its options are epochs, batch"),
        ("dpr:epochs", "expected argument=value, found epochs"),
        ("dpr:epochs=many", "^epochs: expected an integer, found many"),
        ("dpr:learning_rate=x", "^learning_rate: expected a number, found x"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_trained(text, message):
    with pytest.raises(BadInput, match=message):
        Method.parse(text)


def test_two_methods_must_not_share_a_folder():
    with pytest.raises(BadInput, match=r"^dpr: would share its folder with dpr; give one of them a label"):
        distinct([Method.parse("dpr"), Method.parse("dpr")])
    with pytest.raises(BadInput, match="expected at least one recipe"):
        distinct([])
    distinct([Method.parse("dpr"), Method.parse("dpr:epochs=6")])


def test_long_labels_have_short_names_that_differ():
    long = ["dpr:epochs=3,loss=sup_con,batch=64", "dpr:epochs=4,loss=sup_con,batch=64", "mine=" + "x" * 30]
    assert list(short_names(["dpr", *long]).values()) == ["dpr", "dpr 2", "dpr 3", "mine=" + "x" * 16]
