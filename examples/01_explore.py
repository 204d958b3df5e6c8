# %% [markdown]
# # A data set and its tail
#
# Where labels are very many, most of them are rare. This notebook shows how rare, and what that means for a model.
# Open it with Jupytext (`jupytext --to notebook examples/01_explore.py`), in an editor that knows `# %%` cells, or
# run it: `python examples/01_explore.py FOLDER`.

# %%
import sys

import numpy as np

from longtail import Dataset
from longtail.data.describe import describe
from longtail.data.filters import identity_pairs
from longtail.metrics.bins import label_bins
from longtail.report.description import sections

folder = sys.argv[1] if len(sys.argv) > 1 else "examples/debian-packages"
dataset = Dataset.read(folder)
train, labels = dataset.train, dataset.labels
print(dataset.name, f"{len(train):,} documents, {len(labels):,} labels, {train.targets.nnz:,} pairs")

# %% [markdown]
# ## What is in it
# The same as `longtail data describe` prints.

# %%
for section in sections(describe(dataset)):
    print("\n" + " | ".join(section.header))
    for row in section.rows:
        print(" | ".join(row))

# %% [markdown]
# ## A few documents and their labels

# %%
titles, names = train.documents.fields["title"], labels.fields["title"]
for row in np.random.default_rng(0).choice(len(train), 5, replace=False):
    print(titles[row], "->", "; ".join(names[label] for label in train.targets[[row]].indices) or "no label")

# %% [markdown]
# ## How often a label occurs
# The number of documents of each label, most frequent first. On logarithmic axes it is near to a straight line in most
# sets of this kind, a few labels with very many documents and very many with few: the long tail.

# %%
frequency = np.bincount(train.targets.indices, minlength=len(labels))
falling = np.sort(frequency)[::-1]
for share in (0.001, 0.01, 0.1, 0.5):
    first = max(1, round(share * len(labels)))
    print(f"the {share:.1%} most frequent labels have {falling[:first].sum() / falling.sum():.0%} of the pairs")
for count in (0, 1, 2):
    print(f"{(frequency == count).mean():.0%} of the labels have {count} training documents")

# %% [markdown]
# ## Bins
# Reports split labels into five bins with the same number of training pairs each, from head to tail, and those that
# were never seen.

# %%
bins = label_bins(train.targets)
for number, name in enumerate(bins.names):
    inside = frequency[bins.of_label == number]
    between = f" with {inside.min()} to {inside.max()} documents" if inside.size else ""
    print(f"{name}: {len(inside):,} labels{between}")

# %% [markdown]
# ## Documents that are labels
# Such a pair ranks first and helps nobody; a filter hides it.

# %%
same = identity_pairs(train.documents, labels)
there_is = "a" if train.filtered is not None else "no"
print(f"{same.nnz:,} training documents are labels, too; there is {there_is} filter")
