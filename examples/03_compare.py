# %% [markdown]
# # Comparing methods
#
# Two recipes and a baseline without learning, on the same test documents, with paired intervals.
# Run it with `python examples/03_compare.py FOLDER`, or open it as a notebook with Jupytext. For more methods, several
# seeds and a report there is `longtail compare`.

# %%
import sys
import time

import numpy as np

from longtail import Dataset, evaluate, recipes
from longtail.metrics.intervals import difference
from longtail.metrics.places import place
from longtail.metrics.ranking import score

folder = sys.argv[1] if len(sys.argv) > 1 else "examples/debian-packages"
dataset = Dataset.read(folder)
assert dataset.test is not None, "cut a test split first: longtail data split"
test = dataset.test

# %% [markdown]
# ## Train
# No epochs at all is the baseline: a bag of words ranks labels by the words that they share with the document.

# %%
methods = {
    "words": lambda: recipes.dpr(dataset, epochs=0, validation=0),
    "dpr": lambda: recipes.dpr(dataset, epochs=3),
    "unidec": lambda: recipes.unidec(dataset, epochs=3),
}
models, seconds = {}, {}
for name, train in methods.items():
    start = time.perf_counter()
    models[name] = train()
    seconds[name] = time.perf_counter() - start

# %% [markdown]
# ## Measure

# %%
shown = ["P@1", "P@5", "PSP@5", "R@5", "C@5"]
print(f"{'':>8}" + "".join(f"{metric:>8}" for metric in shown) + "  seconds")
for name, model in models.items():
    found = evaluate(model, dataset)
    values = found.kinds[found.headline]
    print(
        f"{name:>8}" + "".join(f"{values.get(metric, float('nan')):8.1f}" for metric in shown) + f"{seconds[name]:9.1f}"
    )

# %% [markdown]
# ## Is the difference more than luck?
# The interval is over test documents, and both models are judged on the same draws. If it holds 0, these documents
# cannot tell. Train with other seeds, too: an interval over documents knows nothing of them.

# %%
scores = {
    name: score(place(model.rank(test.documents, 5, exclude=test.filtered), test.targets))
    for name, model in models.items()
}
for name in ("words", "dpr"):
    for metric in ("P@1", "R@5"):
        found = difference(scores[name], scores["unidec"], np.random.default_rng(0))[metric]
        print(f"unidec - {name}, {metric}: {found.value:+.1f} ({found.low:+.1f} to {found.high:+.1f})")
