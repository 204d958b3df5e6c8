"""One page per method: each recipe is a function from a data set to a trained bundle."""

from longtail.recipes.dpr import dpr
from longtail.recipes.ngame import ngame

RECIPES = {"dpr": dpr, "ngame": ngame}

__all__ = ["RECIPES", "dpr", "ngame"]
