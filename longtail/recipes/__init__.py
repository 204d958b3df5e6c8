"""One page per method: each recipe is a function from a data set to a trained bundle."""

from collections.abc import Callable
from typing import Any

from longtail.recipes.ance import ance
from longtail.recipes.astec import astec
from longtail.recipes.attentionxml import attentionxml
from longtail.recipes.bonsai import bonsai
from longtail.recipes.cascadexml import cascadexml
from longtail.recipes.decaf import decaf
from longtail.recipes.depsl import depsl
from longtail.recipes.dexa import dexa
from longtail.recipes.dexml import dexml
from longtail.recipes.dismec import dismec
from longtail.recipes.dpr import dpr
from longtail.recipes.eclare import eclare
from longtail.recipes.elias import elias
from longtail.recipes.galaxc import galaxc
from longtail.recipes.graphformers import graphformers
from longtail.recipes.graphsage import graphsage
from longtail.recipes.inceptionxml import inceptionxml
from longtail.recipes.inceptionxml_lf import inceptionxml_lf
from longtail.recipes.lightxml import lightxml
from longtail.recipes.ngame import ngame
from longtail.recipes.oak import oak
from longtail.recipes.parabel import parabel
from longtail.recipes.pina import pina
from longtail.recipes.ramen import ramen
from longtail.recipes.renee import renee
from longtail.recipes.siamesexml import siamesexml
from longtail.recipes.simcse import simcse
from longtail.recipes.unidec import unidec

RECIPES: dict[str, Callable[..., Any]] = {
    "unidec": unidec,
    "depsl": depsl,
    "ramen": ramen,
    "oak": oak,
    "graphsage": graphsage,
    "graphformers": graphformers,
    "pina": pina,
    "galaxc": galaxc,
    "ngame": ngame,
    "dexa": dexa,
    "ance": ance,
    "dpr": dpr,
    "simcse": simcse,
    "siamesexml": siamesexml,
    "astec": astec,
    "decaf": decaf,
    "eclare": eclare,
    "inceptionxml": inceptionxml,
    "inceptionxml_lf": inceptionxml_lf,
    "attentionxml": attentionxml,
    "lightxml": lightxml,
    "cascadexml": cascadexml,
    "elias": elias,
    "renee": renee,
    "dexml": dexml,
    "dismec": dismec,
    "parabel": parabel,
    "bonsai": bonsai,
}

DEFAULT = "unidec"  # where none is named

__all__ = [
    "DEFAULT",
    "RECIPES",
    "ance",
    "astec",
    "attentionxml",
    "bonsai",
    "cascadexml",
    "decaf",
    "depsl",
    "dexa",
    "dexml",
    "dismec",
    "dpr",
    "eclare",
    "elias",
    "galaxc",
    "graphformers",
    "graphsage",
    "inceptionxml",
    "inceptionxml_lf",
    "lightxml",
    "ngame",
    "oak",
    "parabel",
    "pina",
    "ramen",
    "renee",
    "siamesexml",
    "simcse",
    "unidec",
]
