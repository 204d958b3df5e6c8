"""What the papers of recipes with trees of labels set: a part of `longtail.recipes.papers`."""

from __future__ import annotations

from longtail.stages.preset import Preset, settings

_LIGHTXML_CODE = "LightXML's code (kongds/LightXML), run.sh, Wiki-500K"
_IN_TREES = ("weights are averaged over the last epochs there (SWA)", "an ensemble of three models there, one here")
LIGHTXML = Preset(
    {
        **settings(_LIGHTXML_CODE, epochs=10, batch=32, learning_rate=1e-4, max_length=128, beam=32),
        **settings(f"{_LIGHTXML_CODE}: one rate for all", classifier_learning_rate=1e-4),
        **settings("LightXML's code, src/model.py", encoder="bert-base-uncased", layers=5, dropout=0.5),
        **settings("LightXML's code, src/model.py: means over groups and candidates, logits", temperature=1.0),
        **settings("LightXML's code, src/model.py", loss="binary_cross_entropy:over_labels=mean"),
        **settings("LightXML, section 3: at most 100 labels", cluster_size=100),
    },
    departs=(*_IN_TREES, "labels read the text through a layer of 500 there, and as it is here"),
)
_CASCADEXML_CODE = "CascadeXML's code (xmc-aalto/cascadexml), README, Wiki-500K"
CASCADEXML = Preset(
    {
        **settings(_CASCADEXML_CODE, epochs=15, batch=64, learning_rate=1e-4, max_length=128, dropout=0.35),
        **settings(f"{_CASCADEXML_CODE}: 128, 256 and 512", levels=3, branching=3, beam=512),
        **settings("CascadeXML's code: an epoch of 15", warmup=1 / 15),
        **settings("CascadeXML's code, src/main.py: its default", encoder_decay=0.05),
        **settings("CascadeXML, Appendix: ten times the rate of the encoder", classifier_learning_rate=1e-3),
        **settings("CascadeXML's code, src/CascadeXML.py", encoder="bert-base-uncased", temperature=1.0),
        **settings("CascadeXML's code, src/CascadeXML.py: means", loss="binary_cross_entropy:over_labels=mean"),
    },
    departs=(
        *_IN_TREES,
        "a share of 0.2, 0.25, 0.35 and 0.5 is dropped on its levels there, one share here",
        "weights of classifiers decay, too, there",
        "the first level reads two layers through a layer of its own there, and both as they are here",
    ),
)
_ELIAS_CODE = "ELIAS's code (nilesh2797/ELIAS), configs/elias.yaml"
ELIAS = Preset(
    {
        **settings(_ELIAS_CODE, encoder="distilbert-base-uncased", batch=1024, dropout=0.5, temperature=1.0),
        **settings(_ELIAS_CODE, cluster_size=100, beam=20, cluster_scale=10.0, link_scale=150.0),
        **settings(f"{_ELIAS_CODE}: K and kappa", shortlist=2000, links=1000),
        **settings(_ELIAS_CODE, warmup=0.1, encoder_decay=0.01),
        **settings(_ELIAS_CODE, learning_rate=2e-4, classifier_learning_rate=5e-3, shortlist_weight=0.05),
        **settings("ELIAS's code, configs/LF-Amazon-131K: stages 1 and 2", start_epochs=20, epochs=50),
    },
    departs=(
        "its first stage has a weight of 0.01 of the term of paths, and clusters labels again after five epochs",
        "its second stage has batches of 420 and a rate of 3e-5 on LF-AmazonTitles-131K, those of the first here",
        "weights are averaged over the last epochs there (SWA)",
        "weights of classifiers, clusters and links decay, too, there",
    ),
)
_ATTENTIONXML_CODE = "AttentionXML's code (yourh/AttentionXML), configure/models, Wiki-500K"
ATTENTIONXML = Preset(
    {
        **settings(_ATTENTIONXML_CODE, width=1024, hidden=256, dropout=0.5, batch=200, epochs=5),
        **settings(f"{_ATTENTIONXML_CODE}: leaves of 64 labels, 2^13 of them", cluster_size=64, beam=15),
        **settings("AttentionXML's code: means over candidates", loss="binary_cross_entropy:over_labels=mean"),
    },
    departs=(
        "word vectors are those of GloVe there, 300 wide, with states of 512 from each side; here both are of --width",
        "levels are trained one after the other there, each from the weights of the one above; at once here",
        *_IN_TREES,
    ),
)
