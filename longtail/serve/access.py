"""What the parts of the HTTP interface share: who may change labels, the service of a request, and errors."""

from __future__ import annotations

import hmac
import json
from typing import Annotated, Any

from fastapi import Depends, HTTPException, Request
from fastapi.responses import JSONResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from longtail.data.texts import STORABLE, storable
from longtail.serve import schemas
from longtail.serve.service import Service

TOKEN = "LONGTAIL_TOKEN"  # noqa: S105  (the name of an environment variable)
_bearer = HTTPBearer(auto_error=False, description="the value of LONGTAIL_TOKEN")
PROBLEMS: dict[int | str, dict[str, Any]] = {
    code: {"model": schemas.Problem, "description": description}
    for code, description in {
        400: "The body is no JSON.",
        401: "The token is missing or wrong.",
        403: "Changes are refused: the server has no token.",
        404: "There is no such label or correction.",
        408: "The body did not arrive in time.",
        413: "The body is too large.",
        422: "Something in the request is not as it must be.",
        429: "Too much is waiting; try again later.",
        503: "The request waited too long, or no model is open.",
    }.items()
}


class Json(JSONResponse):
    """JSON in ASCII: whatever a text holds, it can be sent."""

    def render(self, content: Any) -> bytes:
        """The bytes of an answer."""
        return json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode()


def problems(*codes: int) -> dict[int | str, dict[str, Any]]:
    """Of an endpoint: these, and those that any may answer."""
    return {code: PROBLEMS[code] for code in (*codes, 413, 422, 429, 503)}


async def _service(request: Request) -> Service:  # async, as FastAPI asks threads to call other functions
    service: Service = request.app.state.service
    return service


async def may_change(request: Request, given: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]) -> None:
    """Refuse who has not the server's token: changes, and corrections, which only who may make them may read."""
    token: str = request.app.state.token
    if not token:
        raise HTTPException(403, f"changes are refused: start the server with {TOKEN}")
    if given is None or not hmac.compare_digest(given.credentials.encode("latin-1", "replace"), token.encode()):
        asked = "corrections" if request.method == "GET" else "changes"
        raise HTTPException(401, f"{asked} need the server's token", {"WWW-Authenticate": "Bearer"})


def must_be_text(text: str) -> None:
    """Refuse what no label holds."""
    if not storable(text):
        raise HTTPException(422, STORABLE)


Served = Annotated[Service, Depends(_service)]
