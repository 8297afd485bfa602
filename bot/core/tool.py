"""What a tool is: a function with a declared authority, and nothing that decides whether it may run."""

from __future__ import annotations

import inspect
import json
import sys
import typing
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from bot.core.authority import Authority
from bot.core.canon import canonical, digest, hidden_characters
from bot.core.errors import ModelMistake, OurFault
from bot.core.frozen import replace
from bot.core.labels import TEAM, Readers, Trust
from bot.core.words import ThreadId

MAX_NAME = 64
"""Longest tool name that the Messages API accepts."""


class ToolError(Exception):
    """Raised by a tool for the model to read: what went wrong and what to do instead."""

    def __init__(self, message: str, retryable: bool = False) -> None:
        super().__init__(message)
        self.retryable = retryable
        """Whether the very same call may be made once more."""


@dataclass(frozen=True)
class SealedText:
    """A text that stays behind a handle, with the closed-type fields that our own system set."""

    text: str
    source: str
    fields: Mapping[str, Any]


@dataclass(frozen=True)
class ToolContext:
    """What a tool is told about the call it serves."""

    thread: ThreadId
    principal: str
    """Slack user id of the person whose message started the run."""
    run: str
    call_id: str
    idempotency_key: str
    """The same for every attempt at this call; hand it to the system that performs the effect."""
    deadline: datetime
    """Aware; a result after it is not waited for."""
    resources: Mapping[str, Any]
    """What wiring lends to tools: `home` (pathlib.Path of PLIMSOLL_HOME) and what `build` put there."""

    def seal(self, text: str, *, source: str, **closed_fields: Any) -> SealedText:
        """Mark a stranger's text; `closed_fields` (ids, times, sizes) must be set by our own system."""
        return SealedText(text, source, closed_fields)


@dataclass(frozen=True)
class ToolSpec:
    """A tool as the gate, the model, a card and an auditor see it. Everything here is in the digest."""

    name: str
    description: str
    input_schema: Mapping[str, Any]
    """JSON Schema of the arguments."""
    authority: Authority
    output: Trust = Trust.UNTRUSTED
    """How far what it returns can be trusted."""
    readers: Readers = TEAM
    """Who may see what it returns."""
    parallel_safe: bool = False
    idempotent: bool = False
    """Whether the same idempotency key twice has one effect."""
    timeout_s: float = 30.0
    max_output_bytes: int = 16_384
    critical_args: tuple[str, ...] = ()
    """Arguments that say how much or to whom; shown first and never cut."""
    destination: tuple[str, ...] = ()
    """Arguments that say where it goes."""
    always_ask: bool = False
    """A person decides even below the ceiling (policy: `approve = "always"`)."""

    @property
    def definition(self) -> str:
        """Digest of all of the above; another definition is another tool to an approval."""
        return digest(
            {
                "name": self.name,
                "description": self.description,
                "input_schema": self.input_schema,
                "authority": self.authority.word,
                "output": self.output.word,
                "readers": self.readers.dump(),
                "parallel_safe": self.parallel_safe,
                "idempotent": self.idempotent,
                "timeout_s": self.timeout_s,
                "max_output_bytes": self.max_output_bytes,
                "critical_args": list(self.critical_args),
                "destination": list(self.destination),
                "always_ask": self.always_ask,
            }
        )


@dataclass(frozen=True)
class ToolCall:
    """One call that the model asked for, with canonical arguments, as the gate judges it."""

    call_id: str
    spec: ToolSpec
    arguments: Mapping[str, Any]
    precondition: Any = None
    """JSON value of the tool's precondition now; bound by an approval and re-checked."""
    approvers: frozenset[str] | None = None
    """Who could approve it now (requesters already left out); `None`: nobody could look that up."""


@dataclass(frozen=True)
class ToolResult:
    """What came back, before it is logged."""

    ok: bool
    content: Any
    """A JSON value or text."""
    trust: Trust = Trust.UNTRUSTED
    readers: Readers = field(default_factory=Readers)
    retryable: bool = False
    unknown: bool = False
    """It may or may not have had its effect, and must not be made again without a person."""


Run = Callable[[Any, ToolContext], Awaitable[Any]]


@dataclass(frozen=True)
class Tool:
    """A spec with the code behind it."""

    spec: ToolSpec
    arguments: type[BaseModel]
    run: Run
    precondition: Run | None = None
    relations: Mapping[str, Run] = field(default_factory=dict)
    id_patterns: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name the model calls it by."""
        return self.spec.name

    def validate(self, raw: Any) -> dict[str, Any]:
        """The canonical arguments: the strictly validated dump of the tool's model.

        Raises `ModelMistake` with an instruction where the arguments do not fit.
        """
        try:
            parsed = self.arguments.model_validate_json(
                json.dumps(raw, allow_nan=False), strict=True, extra=_extra(self.arguments)
            )
            arguments: dict[str, Any] = parsed.model_dump(mode="json")
            canonical(arguments)
        except ValidationError as error:
            raise ModelMistake(
                f"{self.name} was not run: {_faults(error)}. Correct the arguments and call again."
            ) from None
        except (ValueError, TypeError, RecursionError) as error:
            raise ModelMistake(f"{self.name} was not run: the arguments are not plain JSON ({error}).") from None
        if hidden := hidden_characters(arguments):
            raise ModelMistake(
                f"{self.name} was not run: the arguments hold invisible characters ({', '.join(hidden)}). "
                "Call again without them."
            )
        return arguments

    def parse(self, arguments: Mapping[str, Any]) -> BaseModel:
        """The model object for canonical arguments that `validate` gave."""
        return self.arguments.model_validate_json(json.dumps(dict(arguments)), strict=True)

    def restricted(self, **changes: Any) -> Tool:
        """The same tool with parts of its spec replaced (the policy may raise, never lower)."""
        return replace(self, spec=replace(self.spec, **changes))


def tool(
    *,
    authority: Authority,
    output: Trust = Trust.UNTRUSTED,
    readers: Readers = TEAM,
    name: str | None = None,
    parallel_safe: bool = False,
    idempotent: bool = False,
    timeout_s: float = 30.0,
    max_output_bytes: int = 16_384,
    critical_args: tuple[str, ...] | None = None,
    destination: tuple[str, ...] = (),
    precondition: Run | None = None,
    relations: Mapping[str, Run] | None = None,
    id_patterns: Mapping[str, str] | None = None,
) -> Callable[[Run], Tool]:
    """Make a `Tool` of `async def NAME(args: Model, context: ToolContext)`; its docstring is the description.

    Raises `OurFault` at import for a tool that cannot be what it says it is.
    """
    caller_locals = sys._getframe(1).f_locals

    def make(function: Run) -> Tool:
        tool_name = name or str(getattr(function, "__name__", ""))
        arguments = _arguments_model(function, caller_locals)
        critical = tuple(arguments.model_fields) if critical_args is None else critical_args
        spec = ToolSpec(
            name=tool_name,
            description=inspect.cleandoc(function.__doc__ or ""),
            input_schema=_schema(arguments),
            authority=authority,
            output=output,
            readers=readers,
            parallel_safe=parallel_safe,
            idempotent=idempotent,
            timeout_s=timeout_s,
            max_output_bytes=max_output_bytes,
            critical_args=critical,
            destination=destination,
        )
        _check(spec, arguments)
        return Tool(spec, arguments, function, precondition, relations or {}, id_patterns or {})

    return make


def _check(spec: ToolSpec, arguments: type[BaseModel]) -> None:
    problems = []
    if (
        not spec.name.replace("_", "").replace("-", "").isalnum()
        or not spec.name.isascii()
        or len(spec.name) > MAX_NAME
    ):
        problems.append(f"its name must be 1 to {MAX_NAME} ASCII letters, digits, _ or -")
    if not spec.description:
        problems.append("it has no docstring, and that is what the model reads")
    if spec.parallel_safe and spec.authority > Authority.EGRESS:
        problems.append("nothing above egress is parallel-safe")
    if unknown := {*spec.critical_args, *spec.destination} - set(arguments.model_fields):
        problems.append(f"it names arguments that it does not have: {', '.join(sorted(unknown))}")
    if problems:
        raise OurFault(f"tool {spec.name!r}: {'; '.join(problems)}")


def _arguments_model(function: Run, caller_locals: Mapping[str, Any]) -> type[BaseModel]:
    hints = typing.get_type_hints(function, localns=dict(caller_locals))
    hints.pop("return", None)
    first = next(iter(hints.values()), None)
    if not (isinstance(first, type) and issubclass(first, BaseModel)) or not inspect.iscoroutinefunction(function):
        raise OurFault(
            f"tool {getattr(function, '__name__', '?')!r}: write `async def name(args: SomeModel, "
            "context: ToolContext)`, SomeModel a pydantic model"
        )
    return first


def _extra(arguments: type[BaseModel]) -> Literal["allow", "forbid"]:
    # A word that falls away unseen (`dry_run`, `refund_to`) would change what the model meant.
    return "allow" if arguments.model_config.get("extra") == "allow" else "forbid"


def _schema(arguments: type[BaseModel]) -> dict[str, Any]:
    closed = {"additionalProperties": False} if _extra(arguments) == "forbid" else {}
    return arguments.model_json_schema() | closed


def _faults(error: ValidationError) -> str:
    details = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(f"{'.'.join(map(str, one['loc'])) or 'arguments'}: {one['msg']}" for one in details[:8])
