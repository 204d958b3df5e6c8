"""What each paper sets, number by number, with the place that says so: ``--preset paper``."""

from __future__ import annotations

from collections.abc import Mapping

from longtail.recipes.all_labels_papers import DEXML, DISTILBERT, RENEE
from longtail.recipes.graph_papers import GALAXC, GRAPHFORMERS, GRAPHSAGE, PINA
from longtail.recipes.linear_papers import BONSAI, DISMEC, PARABEL
from longtail.recipes.tree_papers import ATTENTIONXML, CASCADEXML, ELIAS, LIGHTXML
from longtail.stages.preset import ALL_TRAIN, Preset, Settings, settings

_NO_RANDOM = settings("batches have the positives of their documents alone", random_negatives=0)

_NGAME_CODE = "NGAME's code, configs/NGAME/LF-AmazonTitles-131K.json"
_SIAMESE: Settings = {
    **settings(_NGAME_CODE, encoder=DISTILBERT, epochs=300, batch=1600, learning_rate=2e-4, warmup=100),
    **_NO_RANDOM,
}
_CLASSIFIERS: Settings = settings(
    f"{_NGAME_CODE}, stage M2",
    classifier_epochs=100,
    classifier_learning_rate=1e-3,
    classifier_loss="triplet:margin=0.2:positives=3:negatives=5",
    dropout=0.5,
)
NGAME = Preset(
    {
        **_SIAMESE,
        **settings(_NGAME_CODE, loss="triplet:margin=0.3:negatives=10:satisfied=included"),
        **settings(_NGAME_CODE, cluster_from=10, cluster_every=5, cluster_size=1),
        **settings(_NGAME_CODE, cluster_doubles=(10, 20, 25, 50, 75, 100, 125, 150, 200)),
        **_CLASSIFIERS,
    },
    departs=(
        "classifiers have batches of 2,048 and a warm-up of 500 steps there, those of the encoder and an epoch here",
        "scores are fused by a tree of depth 7 on training pairs there, and on held-out documents here",
    ),
)

_DEXA_CODE = "DEXA's code, configs/DEXA/LF-AmazonTitles-131K.json"
DEXA = Preset(
    {
        **NGAME.settings,
        **settings(_DEXA_CODE, encoder_decay=0.01, cluster_from=10, cluster_every=5, cluster_size=4),
        **settings(_DEXA_CODE, cluster_doubles=(10, 25, 50, 75, 100, 125, 150, 200)),
        **settings(f"{_DEXA_CODE}: 65,536 vectors of 131,073 labels", label_cluster=2),
        **settings("DEXA's code, models/auxiliary_layer.py: vectors of head labels alone", own_vectors=1000),
    },
    departs=(*NGAME.departs, "auxiliary vectors are drawn by lot there, and 0 at first here"),
)

_TABLE_10 = "RAMEN, Table 10"
_RAMEN: Settings = {
    **settings(_TABLE_10, epochs=300, batch=1024, learning_rate=2e-4, loss="triplet:margin=0.3"),
    **settings("RAMEN, Appendix A: a pre-trained DistilBERT", encoder="distilbert-base-uncased"),
    **settings("recipes of suchith720/mogic, by the same authors", warmup=100),
    **_NO_RANDOM,
}
RAMEN = Preset(
    {
        **_RAMEN,
        **settings("RAMEN, Table 6: RAMEN (NGAME)", base="ngame"),
        **settings("RAMEN, Appendix A: ten epochs of warm-up, then pruning each five", refresh_from=10),
        **settings(f"{_TABLE_10}: clusters were refreshed after 5 epochs", refresh_every=5),
        **settings("recipes of suchith720/mogic, by the same authors: clusters begin at 2", cluster_size=2),
        **settings(f"{_TABLE_10}: doubled after every 25 epochs", cluster_doubles=tuple(range(25, 300, 25))),
        **settings("RAMEN, Appendix A: restart probability 0.8", walk_restart=0.8),
        **settings("code of the same authors (xcai): top 10 of a walk, hubs above 500", walk_keep=10, hub_degree=500),
        **settings("xcai, bandits.py: a mean of 0.1 at first, drawn each 10 steps", graph_weights="bandit:0.1"),
        **settings("xcai, bandits.py", graph_redraw=10),
        **settings("RAMEN, section 3.1: each document and each label of a batch", graph_share=1.0),
        **settings(f"{_TABLE_10}: 2 positives and 12 negatives", classifier_loss="triplet:positives=2:negatives=12"),
        **settings(f"{_NGAME_CODE}, stage M2", classifier_epochs=100, classifier_learning_rate=1e-3, dropout=0.5),
    },
    departs=("edges are pruned within batches there, and all at once here",),
)
ANCE = Preset(
    {
        **_RAMEN,
        **settings("RAMEN, Appendix A: ten epochs of warm-up, refreshed each five", mine_from=10, mine_every=5),
        **ALL_TRAIN,
    },
    departs=("ANCE's own index is renewed by another process while it trains",),
)

_DPR_CODE = "DPR's code, its settings for Natural Questions"
DPR = Preset(
    {
        **settings(_DPR_CODE, encoder="bert-base-uncased", epochs=40, batch=128, learning_rate=2e-5, warmup=1237),
        **settings("Karpukhin et al., 2020: the negative log-likelihood", loss="info_nce:temperature=1.0"),
        **_NO_RANDOM,
        **ALL_TRAIN,
    },
    departs=("one hard negative a document of BM25 there, none here", "inner products there, cosines here"),
)
_SIMCSE_CODE = "SimCSE's code (princeton-nlp/SimCSE), run_unsup_example.sh"
SIMCSE = Preset(
    {
        **settings(_SIMCSE_CODE, encoder="bert-base-uncased", epochs=1, batch=512, learning_rate=5e-5, warmup=0),
        **settings(_SIMCSE_CODE, loss="info_nce:temperature=0.05", random_negatives=0),
        **settings("SimCSE, section 3: the transformer's own dropout and nothing else", left_out=0.0),
    },
    departs=(
        "the first token with a layer on it that is let go after training there, the model's own pooling here",
        "a million sentences of Wikipedia there, the documents of the data set here",
    ),
)

_OAK = "OAK, Appendix B"
_OAK_CODE = "OAK's code (shikharmn/OAK)"
OAK = Preset(
    {
        **settings(_OAK, epochs=300, batch=1024),
        **settings(f"{_OAK}: the top 3 predicted; all true ones in training, 15 at most in its code", links=3),
        **settings(_OAK_CODE, encoder="sentence-transformers/msmarco-distilbert-cos-v5", learning_rate=2e-4),
        **settings(_OAK_CODE, encoder_decay=0.01),
        **settings(_OAK_CODE, warmup=500, most_links=15, attention_dropout=0.1, attention_heads=1, spectral_norm=True),
        **settings(f"{_OAK_CODE}: 1,000 times the rate of the encoder", bank_learning_rate=0.2),
        **settings("OAK, eq. 6 and 7, and its code", enriched_weight=1.0, plain_weight=1.0, calibration_weight=0.1),
        **settings(_OAK_CODE, loss="triplet:margin=0.3:negatives=10:temperature=0.1"),
        **settings(_OAK_CODE, cluster_from=10, cluster_every=5, cluster_size=2),
        **settings(_OAK_CODE, cluster_doubles=(20, 25, 50, 75, 100, 125, 150, 200)),
        **settings(f"{_OAK}: at train time all the ground truth", train_links="true"),
        **settings("OAK's code: files of links are named after Renee", linker="renee"),
        **settings("Renee, whose epochs they are: 100", linker_epochs=100),
        **settings("OAK: predicted links count as true ones", link_chances=False),
        **settings("OAK, section 4: classifiers of enriched documents alone", plain_classifiers=False),
        **_NO_RANDOM,
        **_CLASSIFIERS,
    },
    by_data={
        "LF-WikiTitles-500K": settings(_OAK_CODE, batch=2048),
        "LF-ORCAS-800K": settings(_OAK_CODE, batch=1600, epochs=100, cluster_size=32, cluster_doubles=(20, 30, 40, 50)),
    },
    departs=(
        "the bank has a cosine schedule without a warm-up there, and that of the encoder here",
        "the linker's settings are not given there; beside OAK's encoder and batch, it has its recipe's defaults here",
    ),
)

_DEEPXML = "DeepXML's code, its settings for LF-AmazonTitles-131K"
_TREES: Settings = {
    **settings(_DEEPXML, encoder="bag", width=300, batch=255, loss="binary_cross_entropy", random_negatives=0),
    **settings("DeepXML: a shortlist of each document", own_shortlists=True),
}
_OF_TREES = (
    "features are tf-idf of words with fastText vectors and a residual block there, a bag of hashed features here",
    "shortlists are of HNSW there (Astec), or of three trees (DECAF, ECLARE)",
)
ASTEC = Preset(
    {
        **_TREES,
        **settings(f"{_DEEPXML}: 65,536 clusters of 131,073 labels", cluster_size=2),
        **settings(_DEEPXML, epochs=20, learning_rate=0.03),
        **settings(f"{_DEEPXML}: shortlists of 500 labels", beam=64, shortlist_cluster_size=8),
        **settings(_DEEPXML, classifier_epochs=15, classifier_learning_rate=1e-3, dropout=0.5),
    },
    departs=_OF_TREES,
)
_TREE_OF = "code of {}, LF-AmazonTitles-131K"
DECAF = Preset(
    {
        **_TREES,
        **settings(f"{_TREE_OF.format('DECAF')}: 32,768 clusters of 131,073 labels", cluster_size=4),
        **settings(_TREE_OF.format("DECAF"), epochs=20, learning_rate=0.01),
        **settings(_TREE_OF.format("DECAF"), classifier_epochs=20, classifier_learning_rate=0.008, dropout=0.5),
        **settings(_TREE_OF.format("DECAF"), beam=200, shortlist_cluster_size=4),
    },
    departs=_OF_TREES,
)
ECLARE = Preset(
    {
        **_TREES,
        **settings(f"{_TREE_OF.format('ECLARE')}: 32,768 clusters of 131,073 labels", cluster_size=4),
        **settings(_TREE_OF.format("ECLARE"), epochs=20, learning_rate=0.005),
        **settings(_TREE_OF.format("ECLARE"), classifier_epochs=20, classifier_learning_rate=0.004, dropout=0.2),
        **settings(_TREE_OF.format("ECLARE"), beam=50, shortlist_cluster_size=4, neighbours=10),
    },
    departs=_OF_TREES,
)
_SIAMESE_CODE = "SiameseXML's code, LF-AmazonTitles-131K"
SIAMESEXML = Preset(
    {
        **settings(_SIAMESE_CODE, encoder="bag", width=300, epochs=50, batch=4095, learning_rate=0.01),
        **settings(_SIAMESE_CODE, loss="probabilistic_contrastive", classifier_loss="probabilistic_contrastive"),
        **settings(_SIAMESE_CODE, classifier_epochs=20, classifier_learning_rate=2e-4),
        **_NO_RANDOM,
    },
    departs=("batches of the second stage are of 253 documents there, and of 4,095 here", *_OF_TREES[:1]),
)

_INCEPTION_CODE = "InceptionXML's code, LF-AmazonTitles-131K"
_INCEPTION: Settings = {
    **settings(_INCEPTION_CODE, encoder="convolution", width=300, max_length=32, batch=128, learning_rate=5e-3),
    **settings(_INCEPTION_CODE, detached_epochs=10, epochs=35, dropout=0.25, loss="binary_cross_entropy"),
    **settings(f"{_INCEPTION_CODE}: 16,384 clusters of 131,073 labels", cluster_size=8),
    **settings(f"{_INCEPTION_CODE}: the shortlist is all labels of the clusters", beam=800, own_shortlists=True),
    **settings(_INCEPTION_CODE, random_negatives=0),
}
INCEPTIONXML = Preset(
    _INCEPTION, departs=("words start from GloVe there (`--static-vectors`)", "one cycle of learning rates there")
)
INCEPTIONXML_LF = Preset(
    {**_INCEPTION, **settings(_INCEPTION_CODE, neighbours=10)},
    departs=("a row meets all its true labels there, and one drawn or pooled by others here", *INCEPTIONXML.departs),
)

_THESIS = "the thesis, section 2.4"
_TABLE_2_3 = "the thesis, Table 2.3"
_UNIFIED: Settings = {
    **settings(_THESIS, encoder=DISTILBERT, learning_rate=1e-4, refresh_every=5),
    **settings("UniDEC's code, README", epochs=150, batch=1024, positives=3, hard_negatives=6, refresh_from=5),
    **settings("UniDEC's code: 3 epochs of 150", warmup=3 / 150),
    **settings("UniDEC's code", encoder_decay=0.05),
    **settings("UniDEC's code: the pool has no labels at random", random_negatives=0),
    **settings(f"{_THESIS}: cosine annealing; section 2.3: both directions", schedule="cosine", symmetric=True),
    **settings(f"{_TABLE_2_3}: 3,000 to 4,000", label_pool=3000),
    **settings("UniDEC's code: clusters of a batch", cluster_size=1024),
    **settings("the thesis, Tables 2.4 and 2.6: the best of the two", loss="decoupled_softmax"),
}
_OF_UNIFIED = ("a document without a positive in the pool leaves the step there, and is a negative here",)
DEPSL = Preset(
    {**_UNIFIED, **ALL_TRAIN},
    by_data={
        "LF-Wikipedia-500K": settings(_TABLE_2_3, batch=221, cluster_size=221, label_pool=3000),
        "LF-AmazonTitles-1.3M": settings(_TABLE_2_3, batch=2200, cluster_size=2200, label_pool=4000),
    },
    departs=(
        "a layer with a tanh is on top of the encoder there, and none here",
        "the temperature is learned, from 1/18, there, and 0.05 here",
        *_OF_UNIFIED,
    ),
)
UNIDEC = Preset(
    {
        **_UNIFIED,
        **settings(_THESIS, classifiers="free", classifier_learning_rate=1e-3, mix=0.5),
        **settings(f"{_THESIS}: the heads alone drop numbers, a tenth", dropout=0.0),
        **settings("UniDEC's code: documents get unit length in the search alone", unit_views=False),
        **settings("UniDEC's code: learned, from 18", learned_temperature=True, classifier_temperature=1 / 18),
        **settings(f"{_THESIS}: g1 and g2 have d = 256 or 384", projection=384),
    },
    by_data={
        "LF-Amazon-131K": settings(_TABLE_2_3, batch=576, cluster_size=576, label_pool=3000),
        "LF-WikiSeeAlso-320K": settings(_TABLE_2_3, batch=677, cluster_size=677, label_pool=3500),
        "LF-AmazonTitles-1.3M": settings(
            f"{_TABLE_2_3}; Table 2.2: d = 512", batch=1098, cluster_size=1098, label_pool=3000, projection=256
        ),
    },
    departs=(
        "classifiers drop a tenth of their numbers there, and a fifth on LF-WikiSeeAlso-320K; none here",
        "the sum of both scores is served there (`--kind combined`), and a learned one here",
        "a binary cross-entropy on top, in the rows of LF-WikiTitles-500K and LF-AmazonTitles-1.3M; none here",
        "its weight is not given there (Table 2.4): `--binary-weight`",
        "free classifiers have no bias, there and here, that could start at log-odds, which it needed here (unidec.md)",
        *_OF_UNIFIED,
    ),
)

PAPERS: Mapping[str, Preset] = {
    "unidec": UNIDEC,
    "depsl": DEPSL,
    "ramen": RAMEN,
    "oak": OAK,
    "graphsage": GRAPHSAGE,
    "graphformers": GRAPHFORMERS,
    "pina": PINA,
    "galaxc": GALAXC,
    "ngame": NGAME,
    "dexa": DEXA,
    "ance": ANCE,
    "dpr": DPR,
    "simcse": SIMCSE,
    "siamesexml": SIAMESEXML,
    "astec": ASTEC,
    "decaf": DECAF,
    "eclare": ECLARE,
    "inceptionxml": INCEPTIONXML,
    "inceptionxml_lf": INCEPTIONXML_LF,
    "attentionxml": ATTENTIONXML,
    "lightxml": LIGHTXML,
    "cascadexml": CASCADEXML,
    "elias": ELIAS,
    "renee": RENEE,
    "dexml": DEXML,
    "dismec": DISMEC,
    "parabel": PARABEL,
    "bonsai": BONSAI,
}
"""By recipe."""
