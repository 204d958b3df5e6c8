# %% [markdown]
# # Looking into a model
#
# Train one, and ask it what it holds to be near, why it ranks a label first, and where it is wrong.
# Run it with `python examples/02_look_inside.py FOLDER`, or open it as a notebook with Jupytext.

# %%
import sys

import numpy as np

import longtail
from longtail import Dataset
from longtail.data.texts import Texts
from longtail.metrics.annotations import doubts
from longtail.metrics.bins import by_bin, label_bins
from longtail.metrics.label_errors import confusions
from longtail.metrics.places import place
from longtail.model.explanation import explain
from longtail.stages.unseen import judged

folder = sys.argv[1] if len(sys.argv) > 1 else "examples/debian-packages"
dataset = Dataset.read(folder)
assert dataset.test is not None, "cut a test split first: longtail data split"
model = longtail.recipes.unidec(dataset, epochs=3)
test, names = dataset.test, dataset.labels.fields["title"]

# %% [markdown]
# ## Which labels are near each other
# The cosine of two label vectors: `encoder` knows their texts, `classifier` the documents that have them.

# %%
frequency = np.bincount(dataset.train.targets.indices, minlength=len(dataset.labels))
for label in frequency.argsort()[::-1][:3]:
    print(names[label])
    for kind in ("encoder", "classifier"):
        vectors = model.table(kind)
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-9)
        nearest = (unit @ unit[label]).argsort()[::-1][1:4]
        print(f"  {kind}: " + "; ".join(names[near] for near in nearest))

# %% [markdown]
# ## What a prediction rests on
# The score of each kind, and how much of it each word of the text is worth: what the score loses without the word.

# %%
title = test.documents.fields["title"][0]
top = model.rank(Texts.of([title]), 3)
print(title)
for label, found in zip(top.ids[0], explain(model, {"title": title}, top.ids[0]), strict=True):
    print(f"  {names[label]}", {kind: round(score, 2) for kind, score in found.scores.items()})
    print("    " + ", ".join(f"{word} {worth:+.2f}" for word, worth in found.words))

# %% [markdown]
# ## Where it finds labels, from head to tail
# Recall of the first five, by how frequent a label is. The encoder is better in the tail, the classifier in the head;
# the fused score takes from both.

# %%
bins = label_bins(dataset.train.targets)
for kind in model.kinds:
    ranked = model.rank(test.documents, 5, kind=kind, exclude=test.filtered)
    recall = by_bin(place(ranked, test.targets), bins)["R@5"]
    print(f"{kind:>12}", " ".join(f"{name} {value:.0f}" for name, value in zip(bins.names, recall, strict=True)))

# %% [markdown]
# ## What it gets wrong with the greatest confidence
# Often the label is right and missing in the data. `longtail errors` lists these, and labels that are likely wrong.

# %%
ranked = model.rank(test.documents, 100, exclude=test.filtered)
part = judged("test", np.arange(len(test)), test, ranked, dataset.train.targets)
assert part is not None, "the test documents are too few to say how probable a label is"
missing = [one for one in doubts([part.unseen]) if one.kind == "missing"]
for one in missing[:5]:
    print(f"{one.chance:.2f}  {test.documents.fields['title'][one.document]}  ->  {names[one.label]}")

# %% [markdown]
# ## Which labels it takes for which
# A true label that is missed, and the wrong one in its place.

# %%
for pair in confusions(place(ranked, test.targets), 5):
    print(f"{pair.documents} documents: {names[pair.missed]}  ->  {names[pair.predicted]}")
