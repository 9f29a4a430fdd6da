"""The description of the door: OpenAPI 3.1, made of the same list that the door answers by."""

import re
from typing import Any, Final

import msgspec

from tipstaff import __version__
from tipstaff.doors.http import schemas
from tipstaff.doors.http.replies import JSON, Json
from tipstaff.doors.http.routes import Route

_PART: Final = re.compile(r"\{(\w+)\}")
_REF: Final = "#/components/schemas/{name}"
_ALWAYS: Final = (429, 500, 503)
_REFUSALS: Final = {
    400: "malformed", 401: "nobody is known by this token", 403: "may not", 404: "there is no such thing",
    408: "the body did not come in time", 409: "not in this state", 413: "too large", 422: "cannot be taken as it is",
    429: "too often", 500: "a fault of the plane", 503: "busy, or not ready", 507: "the plane's store is full",
}  # fmt: skip
_PARTS: Final = {
    "runId": {"type": "string", "examples": ["run_6f1c3a52-7b86-4c0e-9f58-0e6f0c2f4a11"]},
    "stream": {"type": "string", "enum": ["stdout", "stderr"]},
    "hash": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
}


def described(routes: tuple[Route, ...]) -> Json:
    """Describe the routes."""
    kinds = {one for route in routes for one in (route.body, route.reply) if isinstance(one, type)}
    ordered = sorted(kinds | {schemas.Problem, schemas.Denied}, key=lambda kind: kind.__name__)
    _, components = msgspec.json.schema_components(ordered, ref_template=_REF)
    paths: Json = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Tipstaff plane",
            "version": __version__,
            "summary": "Runs what agents ask for: by policy, in a sandbox, with receipts.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description": "a principal's token, or a claim's"}
            },
        },
    }


def _operation(route: Route) -> Json:
    operation: Json = {"operationId": route.name, "summary": route.summary, "tags": [route.path.split("/")[2]]}
    if route.needs:
        operation["description"] = f"Needs a role with `{route.needs}`."
    if parameters := _parameters(route):
        operation["parameters"] = parameters
    if route.body is not None:
        content = _content(route.body, route.body_example)
        operation["requestBody"] = {"required": not route.body_optional, "content": content}
    operation["responses"] = _responses(route)
    operation["security"] = [{"bearer": []}] if route.proof == "bearer" else []
    return operation


def _parameters(route: Route) -> list[Json]:
    parts = [
        {"name": name, "in": "path", "required": True, "schema": _PARTS.get(name, {"type": "string"})}
        for name in _PART.findall(route.path)
    ]
    asked = [
        {"name": one.name, "in": "query", "required": False, "description": one.about, "schema": one.schema}
        for one in route.queries
    ]
    return parts + asked


def _content(kind: Any, example: Any = None) -> Json:
    if isinstance(kind, str):
        said: Json = {"schema": {"type": "string"}}
        media_type = kind
    else:
        said = {"schema": {"$ref": _REF.format(name=kind.__name__)}}
        media_type = JSON
    if example is not None:
        said["examples"] = {"usual": {"value": example}}
    return {media_type: said}


def _responses(route: Route) -> Json:
    good: Json = {"description": route.summary}
    if route.reply is not None:
        good["content"] = _content(route.reply, route.reply_example)
    if route.name == "metrics":
        good["content"]["text/plain"] = {"schema": {"type": "string"}}
    statuses = {*route.refusals, *_ALWAYS}
    statuses |= {400, 401, 403} if route.proof == "bearer" else set()
    statuses |= {408} if route.body is not None else set()
    told = {"200": good} | {str(status): _refusal(route, status) for status in sorted(statuses)}
    if route.name == "ready":
        told["503"] = {"description": "not ready", "content": _content(schemas.Ready)}
    return told


def _refusal(route: Route, status: int) -> Json:
    said: Json = {"description": _REFUSALS[status]}
    if route.method != "HEAD":
        denied = route.name == "submit" and status == 403  # noqa: PLR2004 - HTTP's word for it
        said["content"] = _content(schemas.Denied if denied else schemas.Problem)
    if status == 429:  # noqa: PLR2004 - as above
        said["headers"] = {"Retry-After": {"schema": {"type": "integer"}, "description": "seconds"}}
    return said
