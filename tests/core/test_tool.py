"""Tools as authors write them, and arguments as the model sends them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from pydantic import BaseModel, Field

from bot.core.authority import Authority
from bot.core.errors import ModelMistake, OurFault
from bot.core.labels import Trust
from bot.core.tool import ToolContext, ToolError, tool
from tests.builders import GET_ORDER, ISSUE_CREDIT, THREAD, CreditArgs, make_tool


class AnyArgs(BaseModel):
    """Takes anything."""

    value: Any
    ratio: float = 1.0


def test_a_tool_is_a_function_with_a_declared_authority() -> None:
    """The contract's example: name from the function, description from the docstring, safe defaults."""

    class RefundArgs(BaseModel):
        order_id: str = Field(pattern=r"^\d{4,}$")
        amount_cents: int = Field(gt=0)

    @tool(authority=Authority.CRITICAL)
    async def issue_refund(args: RefundArgs, context: ToolContext) -> dict[str, Any]:
        """Refund part of an order to its payment method."""
        return {}

    spec = issue_refund.spec
    assert (spec.name, spec.description) == ("issue_refund", "Refund part of an order to its payment method.")
    assert (spec.output, spec.idempotent, spec.parallel_safe) == (Trust.UNTRUSTED, False, False)
    assert spec.critical_args == ("order_id", "amount_cents")
    assert spec.input_schema["required"] == ["order_id", "amount_cents"]


def test_arguments_are_the_strictly_validated_dump() -> None:
    """Defaults are filled in, and nothing is guessed."""
    found = ISSUE_CREDIT.validate({"order_id": "4921", "amount_cents": 5})

    assert found == {"order_id": "4921", "amount_cents": 5, "note": ""}
    assert isinstance(ISSUE_CREDIT.parse(found), CreditArgs)


@pytest.mark.parametrize(
    ("raw", "named"),
    [
        ({"order_id": "4921"}, "amount_cents"),
        ({"order_id": "4921", "amount_cents": 5, "dry_run": True}, "dry_run"),
        ({"order_id": 4921, "amount_cents": 5}, "order_id"),
        ({"order_id": "4921", "amount_cents": "5"}, "amount_cents"),
        ({"order_id": "4921", "amount_cents": 5.5}, "amount_cents"),
        ({"order_id": "4921", "amount_cents": True}, "amount_cents"),
        ({"order_id": "4921", "amount_cents": 2**60}, "plain JSON"),
        ({"order_id": "4921", "amount_cents": float("nan")}, "plain JSON"),
        ({"order_id": "4921", "amount_cents": 5, "note": "a\u202eb"}, "U+202E"),
        ({"order_id": "4921", "amount_cents": 5, "note": "\ud800"}, "not plain JSON|Invalid JSON"),
        ([], "arguments"),
    ],
)
def test_arguments_that_do_not_fit_come_back_as_an_instruction(raw: Any, named: str) -> None:
    """The tool, the argument and what to do are named; nothing is run."""
    with pytest.raises(ModelMistake, match=f"issue_credit was not run.*({named})".replace("+", r"\+")):
        ISSUE_CREDIT.validate(raw)


def test_one_and_one_point_zero_stay_what_the_schema_makes_of_them() -> None:
    """A float field makes them equal, a free field keeps them apart."""
    loose = make_tool("loose", Authority.OBSERVE, model=AnyArgs, answer=1)

    assert loose.validate({"value": 1, "ratio": 40})["ratio"] == 40.0
    assert isinstance(loose.validate({"value": 1.0})["value"], float)
    assert isinstance(loose.validate({"value": 1})["value"], int)


def test_any_change_of_a_definition_changes_its_digest() -> None:
    """Another definition is another tool to an approval."""
    changes: list[dict[str, Any]] = [
        {"description": "other"},
        {"authority": Authority.SEND},
        {"idempotent": False},
        {"critical_args": ("order_id",)},
        {"timeout_s": 1.0},
        {"always_ask": True},
    ]

    digests = {ISSUE_CREDIT.restricted(**change).spec.definition for change in changes}

    assert len(digests | {ISSUE_CREDIT.spec.definition}) == len(changes) + 1


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"name": "bad name"}, "its name must be"),
        ({"name": "x" * 65}, "its name must be"),
        ({"name": "größe"}, "its name must be"),
        ({"parallel_safe": True}, "parallel-safe"),
        ({"critical_args": ("missing",)}, "missing"),
        ({"destination": ("missing",)}, "missing"),
    ],
)
def test_a_tool_that_cannot_be_what_it_says_is_refused_at_import(options: dict[str, Any], why: str) -> None:
    """Loudly: it is our own mistake."""

    async def send(args: CreditArgs, context: ToolContext) -> None:
        """Send."""

    with pytest.raises(OurFault, match=why):
        tool(authority=Authority.SEND, **options)(send)


def test_a_tool_without_a_description_or_a_model_is_refused() -> None:
    """The model reads the docstring, and arguments need a schema."""

    async def silent(args: CreditArgs, context: ToolContext) -> None:
        pass

    async def untyped(args: dict, context: ToolContext) -> None:  # type: ignore[type-arg]  # on purpose
        """Something."""

    def blocking(args: CreditArgs, context: ToolContext) -> None:
        """Something."""

    with pytest.raises(OurFault, match="docstring"):
        tool(authority=Authority.OBSERVE)(silent)
    for wrong in (untyped, blocking):
        with pytest.raises(OurFault, match="async def name"):
            tool(authority=Authority.OBSERVE)(wrong)  # type: ignore[arg-type]  # on purpose


def test_a_stranger_s_text_can_be_sealed_with_fields_of_our_own() -> None:
    """The text stays apart from what our system set."""
    context = ToolContext(THREAD, "U0ALICE", "run-1", "c1", "key", datetime.fromisoformat("2026-12-01T00:00:00Z"), {})

    sealed = context.seal("hello", source="ticket T-1", ticket_id="T-1")

    assert (sealed.text, sealed.source, sealed.fields) == ("hello", "ticket T-1", {"ticket_id": "T-1"})
    assert ToolError("no", retryable=True).retryable
    assert GET_ORDER.name == "get_order"
