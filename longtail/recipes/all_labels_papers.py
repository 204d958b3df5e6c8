"""What the papers set that train on all labels at once, as `longtail.recipes.papers` for the others."""

from __future__ import annotations

from longtail.stages.preset import ALL_TRAIN, Preset, settings

DISTILBERT = "sentence-transformers/msmarco-distilbert-base-v4"  # of NGAME's code, and of what starts from it
_RENEE = "Renee, the settings of its sets with label texts; its code, train_commands.md"
_OF_SETS = ("batch", "learning_rate", "classifier_learning_rate", "weight_decay", "dropout", "warmup")
RENEE = Preset(
    {
        **settings(_RENEE, encoder=DISTILBERT, epochs=100, loss="binary_cross_entropy", momentum=0.9),
        **settings("Renee's code; linear in the paper", schedule="cosine"),
        **settings("Renee's code, main.py: its default", encoder_decay=0.01),
        **settings("Renee: the texts of labels are added as rows with one label each", augment="one_hot"),
        **settings("Renee, Table 12: it starts from NGAME's encoder (`--start`)", start_epochs=0),
        **settings("Renee: the encoder has one rate, that of its settings", slowdown=1.0),
    },
    by_data={
        name: settings(_RENEE, **dict(zip(_OF_SETS, numbers, strict=True)))
        for name, *numbers in (
            ("LF-AmazonTitles-131K", 512, 1e-5, 0.05, 1e-4, 0.85, 5_000),
            ("LF-WikiSeeAlso-320K", 2048, 2e-4, 0.2, 1e-4, 0.75, 5_000),
            ("LF-Wikipedia-500K", 2048, 1e-4, 0.002, 1e-3, 0.7, 5_000),
            ("LF-AmazonTitles-1.3M", 1024, 1e-6, 0.01, 1e-4, 0.7, 15_000),
        )
    }
    | {
        "LF-Amazon-131K": {
            **settings(f"{_RENEE}: from NGAME's encoder", batch=512, learning_rate=1e-5, classifier_learning_rate=0.05),
            **settings("Renee's settings for LF-AmazonTitles-131K", weight_decay=1e-4, dropout=0.85, warmup=5_000),
        }
    },
    departs=(
        "it starts from NGAME's encoder there, and here from the run that `--start` names, or from none",
        "without that start the rate on LF-Amazon-131K is 1e-4 there (`--learning-rate 1e-4`)",
        "without that start P@1 on LF-AmazonTitles-131K is 41.77 there in place of 46.05 (Table 12)",
        f"LF-WikiSeeAlsoTitles-320K, LF-WikiTitles-500K and LF-ORCAS-800K have no {', '.join(_OF_SETS)} there",
        "documents have no unit length and classifiers no bias there",
    ),
)
_DEXML = "DEXML's code (nilesh2797/DEXML)"
DEXML = Preset(
    {
        **settings(_DEXML, encoder="distilbert-base-uncased", epochs=100, batch=3000, learning_rate=3e-4),
        **settings(_DEXML, loss="decoupled_softmax", temperature=0.05, warmup=0.1, encoder_decay=0.01),
        **ALL_TRAIN,
    },
    by_data={"LF-Wikipedia-500K": settings(_DEXML, batch=768, learning_rate=7e-5, max_length=128)},
    departs=(
        "the rate is multiplied by the number of GPUs there",
        "vectors of no unit length and a temperature of 1 on the two largest sets there",
    ),
)
