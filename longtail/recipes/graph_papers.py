"""What the papers of systems on graphs set, as `longtail.recipes.papers` for the others."""

from __future__ import annotations

from longtail.stages.preset import ALL_TRAIN, Preset, Settings, settings

_TRUE_LINKS = (
    "no linker there: test documents have their true links (OAK, section 5.3), as `evaluate --oracle-links` gives them",
    "the linker of new documents here is the default, `--linker unidec --linker-epochs 6`",
)
_SAGE_CODE = "baselines of OAK and RAMEN, as their authors run them"
_GRAPH_ENCODERS: Settings = {
    **settings("OAK, section 5.3: the ground truth links at train time", train_links="true"),
    **settings("OAK: predicted links count as true ones", link_chances=False),
    **settings(_SAGE_CODE, base="dpr", plain_weight=0.0, bank=False, label_links=True, loss="info_nce:temperature=1.0"),
    **settings("batches have the positives of their documents alone", random_negatives=0),
    **ALL_TRAIN,
}
GRAPHSAGE = Preset(
    {
        **_GRAPH_ENCODERS,
        **settings("OAK, Appendix B: a DistilBERT, of all methods", encoder="distilbert-base-uncased"),
        **settings("OAK, Appendix B: settings of all that is trained", epochs=300, batch=1024),
        **settings("OAK's code (shikharmn/OAK)", learning_rate=2e-4, warmup=500, encoder_decay=0.01),
    },
    departs=("vectors of no unit length there", *_TRUE_LINKS),
)
_GRAPHFORMERS_CODE = "code of suchith720/XCSage_baselines, GraphFormers/run.sh"
GRAPHFORMERS = Preset(
    {
        **_GRAPH_ENCODERS,
        **settings(f"{_GRAPHFORMERS_CODE}: UniLM trained on DBLP there", encoder="bert-base-uncased"),
        **settings(_GRAPHFORMERS_CODE, epochs=5, batch=50, learning_rate=1e-6, max_length=32, most_links=3, links=5),
    },
    departs=(
        "neighbours are exchanged between all layers there, on top of the last one here",
        "inner products there, cosines here",
        *_TRUE_LINKS,
    ),
)
_PINA_CODE = "PINA's code (amzn/pecos, examples/pina), LF-Amazon-131K"
PINA = Preset(
    {
        **settings(_PINA_CODE, encoder="bert-base-cased", batch=32, learning_rate=1e-4, warmup=200),
        **settings(f"{_PINA_CODE}: predictions of the model that has seen them", train_links="predicted"),
        **settings(f"{_PINA_CODE}: 5 of 20 predicted, weighed by their softmax", links=5, link_chances=False),
        **settings("PINA: labels are instances, too", label_rows=True, bank=False, combiner="mean"),
    },
    by_data={
        "LF-Amazon-131K": settings(
            f"{_PINA_CODE}: 20,000 steps of 32 are 1.5 passes over documents and labels", linker_epochs=2
        )
    },
    departs=(
        "XR-Transformer three times there, on its trees with its own loss; here ngame (`--linker ngame`)",
        "what neighbours say is appended there, column by column, and added here",
        "steps are counted there: 20,000 of the first model, where epochs are here",
        "epochs of the second model, and on other sets of the first (`--linker-epochs 6`), are the defaults",
    ),
)

_GALAXC_CODE = "GalaXC's code, its settings for LF-AmazonTitles-131K"
GALAXC = Preset(
    {
        **settings(f"{_GALAXC_CODE}: vectors of Astec's first module", encoder="bag", width=300, cluster_size=2),
        **settings(_GALAXC_CODE, batch=256, classifier_epochs=30, classifier_learning_rate=1e-3, dropout=0.5),
        **settings(_GALAXC_CODE, attention_learning_rate=1e-3, random_negatives=30000, loss="binary_cross_entropy"),
        **settings(f"{_GALAXC_CODE}: fanouts 4, 3 and 2", hops=3, links=4),
        **settings("GalaXC: training documents are linked to their labels", true_edges=True),
    },
    by_data={
        "LF-WikiSeeAlsoTitles-320K": settings("GalaXC's code", attention_learning_rate=0.05, random_negatives=32000)
    },
    departs=(
        "a node has the vectors of 4, 3 and 2 sampled neighbours there, by hop, and of all here",
        "the rate is halved six times there, and falls evenly here",
        "vectors start from fastText's there (`--static-vectors`)",
    ),
)
