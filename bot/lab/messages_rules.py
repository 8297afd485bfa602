"""What the Messages API refuses, in its own manner (model.md section 2). Each check gives a message or nothing."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Container
from typing import Any

from bot.lab.messages_blocks import Refused, cacheable, check_block, mark_of
from bot.lab.messages_models import MODELS, json_of
from bot.lab.messages_turns import check_messages

__all__ = ["Refused", "check", "parsed"]

FIELDS = frozenset(
    {"model", "messages", "max_tokens", "system", "tools", "tool_choice", "thinking", "output_config", "cache_control"}
    | {"diagnostics", "stop_sequences", "service_tier", "speed", "metadata", "container", "stream", "inference_geo"}
    | {"user_profile_id"}
)
SAMPLING = frozenset({"temperature", "top_p", "top_k"})
LEAST_BUDGET = 1024
MAX_MARKS = 4
_TOOL_NAME = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")
_SERVER_TOOL = re.compile(r"^[a-z_]+_20\d{6}$")
_TOOL_FIELDS = frozenset(
    {"type", "name", "description", "input_schema", "cache_control", "strict", "eager_input_streaming"}
    | {"defer_loading", "input_examples", "allowed_callers"}
)
_CHOICE_FIELDS = {
    "auto": {"type", "disable_parallel_tool_use"},
    "any": {"type", "disable_parallel_tool_use"},
    "tool": {"type", "name", "disable_parallel_tool_use"},
    "none": {"type"},
}
_CLOSED = {
    "service_tier": ("auto", "standard_only"),
    "speed": ("standard", "fast", None),
    "stream": (True, False),
}


def parsed(body: bytes) -> Any:
    """The request's JSON. Raises `Refused`."""
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_refuse, parse_float=_finite)
        if b"\\ud" in body or b"\\uD" in body:  # only an escape can bring half a surrogate pair
            json_of(value).decode("utf-8")
    except UnicodeDecodeError:
        raise Refused("The request body is not valid JSON: no low surrogate in string, or no UTF-8") from None
    except RecursionError:
        raise Refused("The request body is not valid JSON: recursion limit exceeded") from None
    except ValueError as error:
        raise Refused(f"The request body is not valid JSON: {error}") from None
    return value


def _refuse(constant: str) -> Any:
    raise ValueError(f"unexpected character: {constant}")


def _finite(number: str) -> float:
    found = float(number)
    if math.isinf(found):
        raise ValueError(f"number out of range: {number}")
    return found


def check(request: Any, paused: Container[str] = frozenset(), *, counting: bool = False) -> None:
    """Raises `Refused` for the first thing that is wrong. `counting`: a question of size, which has no max_tokens."""
    if not isinstance(request, dict):
        raise Refused("request body is not an object")
    for name in request:
        if name in SAMPLING:
            raise Refused(f"{name}: sampling parameters are not supported by this API version")
        if name not in FIELDS:
            raise Refused(f"{name}: Extra inputs are not permitted")
    for name in ("model", "messages") if counting else ("model", "messages", "max_tokens"):
        if name not in request:
            raise Refused(f"{name}: Field required")
    if not isinstance(request["model"], str) or request["model"] not in MODELS:
        raise Refused(f"model: {request['model']}", 404, "not_found_error")
    if not counting:
        _max_tokens(request)
    _small(request)
    _system(request)
    _tools(request)
    _choice(request)
    _thinking(request)
    check_messages(request, paused)
    _marks(request)


def _max_tokens(request: dict[str, Any]) -> None:
    asked, most = request["max_tokens"], MODELS[request["model"]].max_output
    if type(asked) is not int or asked < 0:
        raise Refused("max_tokens: Input should be a valid integer, at least 0")
    if asked > most:
        raise Refused(
            f"max_tokens: {asked} > {most}, which is the maximum allowed number of output tokens for {request['model']}"
        )
    if asked == 0 and request.get("stream"):
        raise Refused("max_tokens: 0 (to warm the cache) cannot be streamed")


def _small(request: dict[str, Any]) -> None:
    for name, allowed in _CLOSED.items():
        if name in request and request[name] not in allowed:
            raise Refused(f"{name}: Input should be one of {', '.join(map(repr, allowed))}")
    for number, one in enumerate(_typed(request, "stop_sequences", list) or []):
        if not isinstance(one, str) or not one.strip():
            raise Refused(f"stop_sequences.{number}: each stop sequence must contain non-whitespace")
    if extra := (_typed(request, "metadata", dict) or {}).keys() - {"user_id"}:
        raise Refused(f"metadata.{min(extra)}: Extra inputs are not permitted")
    output = _typed(request, "output_config", dict) or {}
    if extra := output.keys() - {"effort", "format"}:
        raise Refused(f"output_config.{min(extra)}: Extra inputs are not permitted")
    if output.get("effort") not in (None, "low", "medium", "high", "xhigh", "max"):
        raise Refused("output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'")
    asked = output.get("format")
    if asked is not None and not (
        isinstance(asked, dict) and asked.get("type") == "json_schema" and isinstance(asked.get("schema"), dict)
    ):
        raise Refused("output_config.format: Input should be {'type': 'json_schema', 'schema': {...}}")
    told = _typed(request, "diagnostics", dict) or {}
    if told.keys() - {"previous_message_id"} or not isinstance(told.get("previous_message_id"), (str, type(None))):
        raise Refused("diagnostics: Input should hold previous_message_id, a string or null")


def _typed(request: dict[str, Any], name: str, kind: type) -> Any:
    value = request.get(name)
    if value is not None and not isinstance(value, kind):
        raise Refused(f"{name}: Input should be a valid {'list' if kind is list else 'dictionary'}")
    return value


def _system(request: dict[str, Any]) -> None:
    system = request.get("system", [])
    if not isinstance(system, str | list):
        raise Refused("system: Input should be a valid string or list")
    for number, block in enumerate(system if isinstance(system, list) else []):
        if not isinstance(block, dict) or block.get("type") != "text":
            raise Refused(f"system.{number}.type: Input should be 'text'")
        check_block(block, f"system.{number}", "system")


def _tools(request: dict[str, Any]) -> None:
    tools = _typed(request, "tools", list) or []
    names = [tool.get("name") if isinstance(tool, dict) else None for tool in tools]
    for place, tool in enumerate(tools):
        if not _TOOL_NAME.match(str(names[place])):
            raise Refused(f"tools.{place}.name: String should match pattern '{_TOOL_NAME.pattern}'")
        if tool.get("type") in (None, "custom"):
            _own_tool(tool, f"tools.{place}")
        elif not _SERVER_TOOL.match(str(tool["type"])):
            raise Refused(f"tools.{place}.type: Input tag '{tool['type']}' does not match any of the expected tags")
    if len(set(names)) != len(names):
        raise Refused("tools: Tool names must be unique.")


def _own_tool(tool: dict[str, Any], where: str) -> None:
    if extra := tool.keys() - _TOOL_FIELDS:
        raise Refused(f"{where}.{min(extra)}: Extra inputs are not permitted")
    if not isinstance(tool.get("description", ""), str):
        raise Refused(f"{where}.description: Input should be a valid string")
    schema = tool.get("input_schema")
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise Refused(f"{where}.input_schema.type: Field required")
    if schema.keys() & {"oneOf", "allOf", "anyOf"}:
        raise Refused(f"{where}.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level")
    if not isinstance(schema.get("properties", {}), dict) or not isinstance(schema.get("required", []), list):
        raise Refused(f"{where}.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12")


def _choice(request: dict[str, Any]) -> None:
    choice = _typed(request, "tool_choice", dict)
    if choice is None:
        return
    kind = choice.get("type")
    if kind not in _CHOICE_FIELDS:
        raise Refused("tool_choice.type: Input should be 'auto', 'any', 'tool' or 'none'")
    if extra := choice.keys() - _CHOICE_FIELDS[kind]:
        raise Refused(f"tool_choice.{kind}.{min(extra)}: Extra inputs are not permitted")
    if not request.get("tools"):
        raise Refused("tool_choice: tool_choice may only be specified while providing tools")
    if kind in ("any", "tool") and not MODELS[request["model"]].steerable:
        raise Refused(f"tool_choice: forcing tool use is not supported by {request['model']}")
    if kind in ("any", "tool") and request.get("max_tokens") == 0:
        raise Refused("tool_choice: cannot force tool use when max_tokens is 0")
    if kind == "tool" and choice.get("name") not in [tool["name"] for tool in request["tools"]]:
        raise Refused(f"tool_choice.tool.name: Tool '{choice.get('name')}' not found in provided tools")


def _thinking(request: dict[str, Any]) -> None:
    thinking = _typed(request, "thinking", dict)
    if thinking is None:
        return
    kind, model = thinking.get("type"), MODELS[request["model"]]
    if kind not in ("adaptive", "between_tools", "enabled", "disabled"):
        raise Refused("thinking.type: Input should be 'adaptive', 'between_tools', 'enabled' or 'disabled'")
    if kind not in model.thinking:
        raise Refused(f"thinking.type: '{kind}' is not supported by {request['model']}")
    if thinking.get("display") not in (None, "summarized", "omitted") or (
        "display" in thinking and kind in ("between_tools", "disabled")
    ):
        raise Refused(f"thinking.{kind}.display: Input should be 'summarized' or 'omitted' on thinking that is on")
    if kind != "enabled":
        return
    budget = thinking.get("budget_tokens")
    if type(budget) is not int or not LEAST_BUDGET <= budget < request.get("max_tokens", budget + 1):
        raise Refused(f"thinking.enabled.budget_tokens: must be at least {LEAST_BUDGET} and less than max_tokens")
    if (request.get("tool_choice") or {}).get("type") in ("any", "tool"):
        raise Refused("Thinking may not be enabled when tool_choice forces tool use.")


def _marks(request: dict[str, Any]) -> None:
    marks = [mark for block in cacheable(request) if (mark := mark_of(block)) is not None]
    marks += [request["cache_control"]] if request.get("cache_control") else []
    for mark in marks:
        if not isinstance(mark, dict) or mark.get("type") != "ephemeral" or mark.keys() - {"type", "ttl"}:
            raise Refused("cache_control.type: Input should be 'ephemeral'")
    if len(marks) > MAX_MARKS:
        raise Refused(f"A maximum of {MAX_MARKS} blocks with cache_control may be provided. Found {len(marks)}.")
    lives = [mark.get("ttl", "5m") for mark in marks]
    if any(life not in ("5m", "1h") for life in lives):
        raise Refused("cache_control.ttl: Input should be '5m' or '1h'")
    if "1h" in lives[lives.index("5m") :] if "5m" in lives else False:
        raise Refused("a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block")
