"""What requests and answers look like; FastAPI checks them and documents them as OpenAPI."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    StrictBool,
    StrictStr,
    StringConstraints,
    Tag,
    model_validator,
)

from longtail.data.texts import STORABLE, storable
from longtail.model.thresholds import at_most

TEXTS, LENGTH, LABELS, EXAMPLES, UIDS, MOST = 256, 20_000, 1_000, 100, 1_000, 1_000
UID_LENGTH, TITLE_LENGTH = 512, 2_000
NUMBERS = 2**63  # beyond those of corrections


def _storable(text: str) -> str:
    if not storable(text):
        raise ValueError(STORABLE)
    return text


_Checked = AfterValidator(_storable)
Content = Annotated[StrictStr, StringConstraints(max_length=LENGTH), _Checked]
Title = Annotated[StrictStr, StringConstraints(min_length=1, max_length=TITLE_LENGTH, pattern=r"\S"), _Checked]
Uid = Annotated[StrictStr, StringConstraints(min_length=1, max_length=UID_LENGTH), _Checked]
Count = Annotated[int, Field(strict=True, ge=1, le=MOST)]
Kind = Annotated[StrictStr, StringConstraints(min_length=1, max_length=100), _Checked]  # the model knows its own


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Document(_Request):
    """A text of several fields."""

    title: Content
    content: Content = ""

    def fields(self) -> dict[str, str]:
        """The text by field."""
        return {"title": self.title, "content": self.content}


TAGS: dict[type, str] = {str: "(text)", dict: "(object)", list: "(list)"}  # no part of the place of an error


def _by_type(expected: str) -> Discriminator:
    """Has what may be of two kinds checked as the one whose type it has."""
    said = f"Input should be {expected}"
    return Discriminator(lambda sent: TAGS.get(type(sent)), custom_error_type="kind", custom_error_message=said)


Text = Annotated[
    Annotated[Content, Tag("(text)")] | Annotated[Document, Tag("(object)")],
    _by_type("a text or an object with a title"),
]


def fields_of(text: str | Document) -> dict[str, str]:
    """A text by field; a plain one is a title."""
    return {"title": text} if isinstance(text, str) else text.fields()


class PredictRequest(_Request):
    """Texts to rank labels for."""

    texts: Annotated[list[Text], Field(min_length=1, max_length=TEXTS)]
    k: Annotated[
        Count | None, Field(description="labels a text; 5 if left out, and 20 with a threshold or a precision")
    ] = None
    at_most: Annotated[Count | None, Field(description="the same as k")] = None
    probabilities: Annotated[StrictBool, Field(description="say how probable it is that each label is right")] = False
    threshold: Annotated[
        float | None, Field(strict=True, ge=0, le=1, description="give only labels that are at least so probable")
    ] = None
    precision: Annotated[
        float | None,
        Field(
            strict=True,
            gt=0,
            le=1,
            description="give labels above the lowest threshold that kept it on held-out documents",
        ),
    ] = None
    kind: Annotated[Kind | None, Field(description="the score kind; the best one if left out")] = None
    allowed: Annotated[
        list[Uid] | None, Field(max_length=UIDS, description="rank only these labels; unknown uids are left out")
    ] = None
    excluded: Annotated[list[Uid], Field(max_length=UIDS, description="never rank these labels")] = []
    explain: Annotated[StrictBool, Field(description="say why: words, documents, links; for one text at a time")] = (
        False
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> PredictRequest:
        for one, other in (("k", "at_most"), ("threshold", "precision")):
            if getattr(self, one) is not None and getattr(self, other) is not None:
                raise ValueError(f"expected one of {one} and {other}, found both")
        return self

    def labels(self) -> int:
        """Labels of a text, at most."""
        least = self.precision if self.threshold is None else self.threshold
        return at_most(self.at_most if self.k is None else self.k, least)


class Word(BaseModel):
    """A word of a text, and the score that a label loses without it."""

    word: str
    weight: float


class NearDocument(BaseModel):
    """A document that the model remembers, and how similar it is to the text."""

    title: Annotated[str | None, Field(description="null where it is not known")]
    similarity: Annotated[float, Field(ge=-1.001, le=1.001, description="a cosine")]


class LinkedNode(BaseModel):
    """A node that a text was linked to."""

    id: int
    text: str
    score: float
    weight: Annotated[float | None, Field(description="null where the model does not weigh nodes")]


class RankedLabel(BaseModel):
    """A label of a text, with its probability if that was asked.

    With an explanation, its score of every kind, the share of every word and, of a model with a memory, the documents
    that have the label and are nearest to the text.
    """

    id: Annotated[int, Field(description="stays with the label as long as the run lives")]
    uid: str
    text: str
    score: float
    probability: float | None = None
    scores: dict[str, float] | None = None
    words: list[Word] | None = None
    near: Annotated[list[NearDocument] | None, Field(description="for the first ten labels of a text")] = None


class Ranking(BaseModel):
    """The labels of one text, best first; with an explanation, the nodes that it was linked to, if the model links."""

    labels: list[RankedLabel]
    links: list[LinkedNode] | None = None


class KeptAnswer(BaseModel):
    """A threshold, with the precision, its margin of error (95 %), and the recall that it had on held-out documents."""

    threshold: float
    precision: float
    recall: float
    margin: float | None


class PredictAnswer(BaseModel):
    """One ranking for each text, in order, the score kind that they are by, and what a precision stands for."""

    kind: str
    results: list[Ranking]
    kept: KeptAnswer | None = None


class AddedLabel(_Request):
    """A label to add, or to replace."""

    uid: Uid
    text: Title
    examples: Annotated[list[Text], Field(max_length=EXAMPLES, description="documents that have the label")] = []


AddedLabels = Annotated[
    Annotated[AddedLabel, Tag("(object)")]
    | Annotated[list[AddedLabel], Field(min_length=1, max_length=LABELS), Tag("(list)")],
    _by_type("a label or a list of labels"),
]


class AddAnswer(BaseModel):
    """The uids that are there now."""

    uids: list[str]


class LabelAnswer(BaseModel):
    """A label that is there."""

    uid: str
    text: str
    added: Annotated[bool, Field(description="since the model was built")]
    documents: Annotated[
        int | None,
        Field(description="that it was learned from; of an added one, its examples; null without a fusion"),
    ]


class LabelsAnswer(BaseModel):
    """Labels whose text contains what was asked for."""

    labels: list[LabelAnswer]


class GivenCorrection(_Request):
    """What a person says of a text and a label."""

    text: Text
    uid: Annotated[Uid, Field(description="of the label")]
    right: Annotated[StrictBool, Field(description="whether the text has the label")]


class CorrectAnswer(BaseModel):
    """The correction that is kept now."""

    id: int
    remembered: Annotated[bool, Field(description="whether the model's memory has it already")]


class CorrectionAnswer(BaseModel):
    """A correction that is kept."""

    id: int
    text: Annotated[dict[str, str], Field(description="by field: title and content, where they are not empty")]
    uid: str
    label: Annotated[str | None, Field(description="the label's text; null where the label is not there any more")]
    right: bool


class CorrectionsAnswer(BaseModel):
    """Corrections, newest first."""

    corrections: list[CorrectionAnswer]


class ModelAnswer(BaseModel):
    """The model that answers."""

    recipe: str
    kinds: list[str]
    probabilities: Annotated[list[str], Field(description="the kinds that have probabilities")]
    fields: list[str]
    encoder: str
    width: int
    labels: dict[str, int]
    index: dict[str, dict[str, Any]]
    changes: Annotated[bool, Field(description="whether labels can be changed here, with a token")]
    settings: dict[str, Any]
    training: list[dict[str, Any]]
    evaluation: dict[str, Any] | None


class Problem(BaseModel):
    """What is wrong with a request."""

    detail: str
