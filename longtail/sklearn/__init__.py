"""The estimator for scikit-learn's pipelines and searches: ``longtail.sklearn.LongtailClassifier``."""

from longtail.errors import MissingExtra

try:
    from longtail.sklearn.estimator import LongtailClassifier
except ModuleNotFoundError as error:
    if str(error.name).partition(".")[0] != "sklearn":
        raise
    raise MissingExtra("scikit-learn", extra="scikit-learn", purpose="longtail.sklearn") from error

__all__ = ["LongtailClassifier"]
