"""The HTTP interface of corrections: what people say of texts and labels."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Path, Query
from fastapi.responses import Response

from longtail.model.catalogue import Correction
from longtail.model.snapshot import Snapshot
from longtail.serve import schemas
from longtail.serve.access import Json, Served, may_change, problems

api = APIRouter(prefix="/v1/corrections", tags=["corrections"], dependencies=[Depends(may_change)])
Number = Annotated[int, Path(ge=1, lt=schemas.NUMBERS)]


@api.post("", status_code=201, response_model=schemas.CorrectAnswer, responses=problems(400, 401, 403, 404, 408))
async def correct(asked: schemas.GivenCorrection, service: Served) -> Response:
    """Keep that a text has a label, or has it not; the next request knows it.

    A model with a memory remembers a text with its label at once; one without keeps it as data to train on. A label
    that is wrong for a text is not given to an equal text any more. Of the same text and label the newest correction
    stays.
    """
    given = Correction(schemas.fields_of(asked.text), asked.uid, asked.right)
    kept = await service.correct(given)
    if kept is None:
        raise HTTPException(404, "there is no label with this uid")
    return Json({"id": kept.number, "remembered": len(kept.vector) > 0}, 201)


@api.get("", response_model=schemas.CorrectionsAnswer, responses=problems(401, 403))
async def corrections(
    service: Served,
    before: Annotated[int, Query(ge=1, lt=schemas.NUMBERS, description="only older ones than this id")] = (
        schemas.NUMBERS - 1
    ),
    limit: Annotated[int, Query(ge=1, le=schemas.MOST)] = 100,
) -> Response:
    """The corrections that are kept, newest first. They hold texts of people, so it takes the token to read them."""

    def look(snapshot: Snapshot) -> list[dict[str, Any]]:
        kept = snapshot.corrections.kept
        return [_said(snapshot, kept[number]) for number in sorted(kept, reverse=True) if number < before][:limit]

    return Json({"corrections": await service.read(look)})


def _said(snapshot: Snapshot, one: Correction) -> dict[str, Any]:
    row = snapshot.find(one.uid)
    return {
        "id": one.number,
        "text": one.document,
        "uid": one.uid,
        "label": None if row is None else snapshot.label(row)[2],
        "right": one.is_right,
    }


@api.delete("/{number}", status_code=204, response_class=Response, responses=problems(401, 403, 404))
async def withdraw(number: Number, service: Served) -> Response:
    """Take a correction back; the next request is answered as if it had never been given."""
    if not await service.withdraw(number):
        raise HTTPException(404, "there is no correction with this id")
    return Response(status_code=204)
