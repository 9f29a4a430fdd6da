"""The description: it is whole, it refers to nothing that is not there, and its examples fit."""

import re
from typing import Any

import msgspec
import pytest

from tipstaff.doors.http import schemas
from tipstaff.doors.http.app import all_routes, build
from tipstaff.doors.http.openapi import described

ROUTES = all_routes()
DOCUMENT: Any = msgspec.json.decode(msgspec.json.encode(described(ROUTES)))
OPERATIONS = [
    (path, method, operation) for path, methods in DOCUMENT["paths"].items() for method, operation in methods.items()
]
PART = re.compile(r"\{(\w+)\}")


def references(value: Any) -> set[str]:
    """Collect what is referred to."""
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*map(references, value.values()))
    return set().union(*map(references, value)) if isinstance(value, list) else set()


def test_it_is_what_the_plane_serves(served):
    """The document that is served describes exactly the routes that are there."""
    told = served.ask("GET", "/v1/openapi.json", None).json()
    assert told == DOCUMENT
    assert told["info"]["title"] == "Tipstaff plane"
    assert (told["openapi"], set(told["components"]["securitySchemes"])) == ("3.1.0", {"bearer"})
    there = {(route.method, PART.sub("{}", route.path)) for route in ROUTES}
    app = build(served.plane)
    found = {(method, re.sub(r"\{[^}]*\}", "{}", route.path)) for route in app.routes for method in route.methods}
    assert there == {(method, path) for method, path in found if method != "OPTIONS"}


def test_every_reference_leads_somewhere():
    """No schema is named that is not there, and none is there for nothing."""
    names = {one.removeprefix("#/components/schemas/") for one in references(DOCUMENT)}
    assert names == set(DOCUMENT["components"]["schemas"])


@pytest.mark.parametrize(("path", "method", "operation"), OPERATIONS, ids=lambda value: str(value)[:40])
def test_every_operation_is_described(path, method, operation):
    """Each has a name, a summary, its parameters, and what it refuses; whoever needs a token is told so."""
    assert method in {"get", "head", "post", "delete"}
    assert operation["operationId"]
    assert operation["summary"]
    parts = {one["name"] for one in operation.get("parameters", []) if one["in"] == "path"}
    assert parts == set(PART.findall(path))
    assert {"200", "429", "500"} <= set(operation["responses"])
    if operation["security"]:
        assert {"401", "403"} <= set(operation["responses"])


@pytest.mark.parametrize("route", [one for one in ROUTES if isinstance(one.body, type)], ids=lambda one: one.name)
def test_examples_fit_their_schema(route):
    """Every body has an example, and the example is such a body."""
    assert route.body_example is not None
    assert isinstance(msgspec.convert(route.body_example, route.body), schemas.Said)


def test_names_are_used_once():
    """No two operations share a name."""
    names = [operation["operationId"] for _, _, operation in OPERATIONS]
    assert len(names) == len(set(names))
