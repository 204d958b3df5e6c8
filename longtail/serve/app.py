"""The HTTP interface: FastAPI checks requests and documents them; the service answers."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path as File
from typing import Annotated, Any, TypeAlias

import numpy as np
import torch
from fastapi import APIRouter, Body, Depends, FastAPI, HTTPException, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.types import ASGIApp

import longtail
from longtail.errors import LongtailError
from longtail.model.integrity import Unusable
from longtail.model.label_set import NewLabel
from longtail.model.snapshot import Snapshot
from longtail.serve import corrections, schemas
from longtail.serve.access import PROBLEMS, TOKEN, Json, Served, may_change, must_be_text, problems
from longtail.serve.answers import Predict
from longtail.serve.batcher import Full, Late
from longtail.serve.connections import STATE, Connections, tell
from longtail.serve.files import read, read_lines
from longtail.serve.middleware import RequestGuard, failure
from longtail.serve.service import Service, Settings
from longtail.serve.telemetry import Metrics
from longtail.train.log import LOG

_PAGE = {
    "": ("page.html", "text/html"),
    "page.css": ("page.css", "text/css"),
    **{name: (name, "text/javascript") for name in ("page.js", "card.js", "dom.js")},
}
Handler: TypeAlias = Callable[[Request, Exception], Coroutine[Any, Any, Response]]
UidInPath = Annotated[str, Path(max_length=schemas.UID_LENGTH)]
api = APIRouter(prefix="/v1", tags=["model"])
operation = APIRouter(tags=["operation"])


class _Any(PathConvertor):
    """A uid as it is: a path of Starlette's own ends at a line feed."""

    regex = "(?s:.*)"


register_url_convertor("any", _Any())


@api.post("/predict", response_model=schemas.PredictAnswer, responses=problems(400, 408))
async def predict(asked: schemas.PredictRequest, service: Served) -> Response:
    """Rank labels for texts."""
    if asked.explain and len(asked.texts) > 1:
        raise HTTPException(422, "explain is for one text at a time")
    texts = [schemas.fields_of(text) for text in asked.texts]
    limits = asked.labels(), asked.kind, asked.allowed, asked.excluded
    request = Predict(texts, *limits, asked.explain, asked.probabilities, asked.threshold, asked.precision)
    return Json((await service.predict(request)).as_dict())


@api.get("/labels", response_model=schemas.LabelsAnswer, responses=problems())
async def labels(
    service: Served,
    query: Annotated[str, Query(max_length=schemas.TITLE_LENGTH, description="a part of the label's text")] = "",
    limit: Annotated[int, Query(ge=1, le=schemas.MOST)] = 20,
) -> Response:
    """Find labels by a part of their text, or by their whole uid; upper and lower case of a to z are the same."""
    must_be_text(query)

    def look(snapshot: Snapshot) -> list[dict[str, Any]]:
        return [_label(snapshot, row) for row in snapshot.found(query, limit)]

    return Json({"labels": await service.read(look)})


@api.get("/labels/{uid:any}", response_model=schemas.LabelAnswer, responses=problems(404))
async def label(uid: UidInPath, service: Served) -> Response:
    """A label by its uid."""
    must_be_text(uid)

    def look(snapshot: Snapshot) -> dict[str, Any] | None:
        row = snapshot.find(uid)
        return None if row is None else _label(snapshot, row)

    answer = await service.read(look)
    if answer is None:
        raise HTTPException(404, "there is no label with this uid")
    return Json(answer)


def _label(snapshot: Snapshot, row: int) -> dict[str, Any]:
    _, uid, text = snapshot.label(row)
    documents = None if snapshot.base.fusion is None else int(snapshot.frequency(np.array([row]))[0])
    return {"uid": uid, "text": text, "added": snapshot.is_added(row), "documents": documents}


@api.post(
    "/labels",
    status_code=201,
    response_model=schemas.AddAnswer,
    responses=problems(400, 401, 403, 408),
    dependencies=[Depends(may_change)],
)
async def add(asked: Annotated[schemas.AddedLabels, Body()], service: Served) -> Response:
    """Add labels, or replace those with the same uid: all of them or none. The next request finds them."""
    given = asked if isinstance(asked, list) else [asked]
    await service.add(
        [NewLabel(one.uid, one.text, [schemas.fields_of(example) for example in one.examples]) for one in given]
    )
    return Json({"uids": [one.uid for one in given]}, 201)


@api.delete(
    "/labels/{uid:any}",
    status_code=204,
    response_class=Response,
    responses=problems(401, 403, 404),
    dependencies=[Depends(may_change)],
)
async def remove(uid: UidInPath, service: Served) -> Response:
    """Remove a label; the next request does not find it."""
    must_be_text(uid)
    if not await service.remove(uid):
        raise HTTPException(404, "there is no label with this uid")
    return Response(status_code=204)


@api.get("/model", response_model=schemas.ModelAnswer, responses=problems())
async def model(request: Request, service: Served) -> Response:
    """What answers: the model's card, its labels, its training and, where it was evaluated, its metrics."""
    run = service.label_set.run
    snapshot = await service.read(lambda snapshot: snapshot)
    said, indexes = read(run / "run.json"), snapshot.segments[0].indexes
    return Json(
        {
            "recipe": snapshot.recipe,
            "kinds": list(snapshot.kinds),
            "probabilities": [kind for kind in snapshot.kinds if kind in snapshot.calibrations],
            "fields": list(snapshot.fields),
            "encoder": " and ".join(type(encoder).__name__ for encoder in snapshot.encoders) or "none",
            "width": sum(encoder.width for encoder in snapshot.encoders),
            "labels": {**snapshot.counts, "all": len(snapshot)},
            "index": {kind: getattr(index, "measured")._asdict() for kind, index in indexes.items()},  # noqa: B009
            "changes": bool(request.app.state.token),
            "settings": {key: said[key] for key in ("arguments", "versions") if key in said},
            "training": read_lines(run / LOG),
            "evaluation": read(run / "evaluation.json") or None,
        }
    )


@operation.get("/healthz", responses={200: {"description": "The process lives."}})
async def healthz() -> dict[str, str]:
    """Whether the process lives."""
    return {"status": "ok"}


@operation.get("/readyz", responses={503: PROBLEMS[503]})
async def readyz(service: Served) -> dict[str, str]:
    """Whether a model answers."""
    if not service.ready:
        raise HTTPException(503, "no model is open")
    return {"status": "ready"}


@operation.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def metrics(request: Request) -> Response:
    """Counts and times, for Prometheus."""
    return Response(request.app.state.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


async def _page(request: Request) -> Response:
    content, kind = request.app.state.page[request.url.path.removeprefix("/")]
    return Response(content, media_type=kind, headers={"cache-control": "no-cache"})


async def _invalid(request: Request, error: Exception) -> Response:
    """The first thing that is wrong, in one line; what was sent is not sent back."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = ".".join(str(step) for step in first["loc"] if step not in schemas.TAGS.values())
    if place.startswith("body") and "json" not in request.headers.get("content-type", "json"):
        return _problem(422, "body: expected JSON; send it with the header Content-Type: application/json")
    return _problem(422, f"{place[:200]}: {first['msg']}")


async def _failed(_: Request, error: Exception) -> Response:  # the guard logs it
    return _problem(*failure(error))


def _problem(status: int, detail: str) -> Response:
    return Json({"detail": detail}, status, {"Retry-After": "1"} if status in (429, 503) else None)


def _answered(status: int, detail: str = "") -> Handler:
    """A handler that answers with a status and a line; with that of the error if left out."""

    async def handler(_: Request, error: Exception) -> Response:
        return _problem(status, detail or str(error))

    return handler


_HANDLERS: dict[type[Exception], Handler] = {
    RequestValidationError: _invalid,
    LongtailError: _answered(422),
    Full: _answered(429, "too much is waiting; try again later"),
    Late: _answered(503, "the request waited too long"),
    Unusable: _answered(503),
    Exception: _failed,
}


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[dict[str, Connections]]:
    settings: Settings = app.state.service.settings
    await app.state.service.start()
    connections = Connections(
        limit=settings.connections,
        of_client=settings.client_connections,
        head=settings.head_timeout,
        closed=lambda reason: app.state.metrics.closed.labels(reason).inc(),
    )
    watcher = asyncio.create_task(connections.watch())
    asyncio.get_running_loop().set_exception_handler(tell)
    gc.collect()
    gc.freeze()  # what a process starts with stays: to look through it again takes a tenth of a second
    yield {STATE: connections}
    watcher.cancel()
    await app.state.service.stop()
    gc.unfreeze()


def application(settings: Settings) -> ASGIApp:
    """The server's application, its run opened; the environment variable ``LONGTAIL_TOKEN`` holds the token.

    Raises:
        LongtailError: the run cannot be opened.
    """
    torch.set_num_threads(settings.threads)
    app = FastAPI(
        title="longtail",
        version=longtail.__version__,
        summary="Ranks the few relevant labels of a text out of very many.",
        docs_url=None,  # these pages load their scripts from another host
        redoc_url=None,
        lifespan=_lifespan,
    )
    app.state.metrics = Metrics()
    app.state.token = os.environ.get(TOKEN, "")
    app.state.service = Service(settings, app.state.metrics)
    folder = File(__file__).parent / "page"
    app.state.page = {path: ((folder / name).read_bytes(), kind) for path, (name, kind) in _PAGE.items()}
    for router in (api, corrections.api, operation):
        app.include_router(router)
    for path in _PAGE:
        app.add_api_route(f"/{path}", _page, methods=["GET"], include_in_schema=False)
    for error, handler in _HANDLERS.items():
        app.add_exception_handler(error, handler)
    return RequestGuard(app, metrics=app.state.metrics, body=settings.body)
