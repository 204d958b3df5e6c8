"""What the papers of linear methods set, as `longtail.recipes.papers` has those of encoders."""

from __future__ import annotations

from longtail.stages.preset import ALL_TRAIN, Preset, settings

_WORDS = ("fields",)  # is all that linear methods have options for
DISMEC = Preset(
    {
        **settings("DiSMEC: C = 1; its code, README: -s 2 -B 1", cost=1.0),
        **settings("DiSMEC: Delta = 0.01", least_weight=0.01),
        **ALL_TRAIN,
    },
    departs=("features are the data set's own there; here they are words, pairs of them and parts of words",),
    reads=_WORDS,
)
_PARABEL_CODE = "Parabel's code, defaults"
PARABEL = Preset(
    {
        **settings("Parabel: T = 3, M = 100, P = 10", trees=3, leaf=100, beam=10),
        **settings(_PARABEL_CODE, cost=1.0, least_weight=0.1),
        **ALL_TRAIN,
    },
    departs=(
        "a separator is solved in at most 20 passes there, and until it is settled here",
        *DISMEC.departs,
    ),
    reads=_WORDS,
)
BONSAI = Preset(
    {
        **settings("Bonsai's code, sample_run.sh", trees=3, branching=100, cost=1.0, least_weight=0.1),
        **ALL_TRAIN,
        **settings("Bonsai's code, README: depth 2 for some 30,000 labels, and 3 for 200,000", leaf=1000),
        **settings("Parabel's code, on which it is based", beam=10, balanced=False),
    },
    departs=("nodes are cut to a depth there, and to a number of labels here", *PARABEL.departs),
    reads=_WORDS,
)
