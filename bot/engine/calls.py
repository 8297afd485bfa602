"""The calls of a reply, validated, each with the stage it runs in."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any

from bot.core import events as e
from bot.core.errors import ModelMistake
from bot.engine.desk import Desk


def requested_calls(desk: Desk, channel: str, reply: e.ModelReplied) -> list[e.ToolRequested]:
    """The calls of a reply, validated, each with the stage it runs in.

    Consecutive parallel-safe calls share a stage; any other call has its own (DESIGN section 4.1).
    """
    offered = {spec.name for spec in desk.toolbox.specs(channel)}
    found: list[e.ToolRequested] = []
    stage, shared = -1, False
    for block in reply.content:
        if block.get("type") != "tool_use":
            continue
        call = _requested(desk, block, reply, offered)
        safe = _is_safe(desk, call)
        stage += not (safe and shared)
        shared = safe
        found.append(call.model_copy(update={"stage": stage}))
    return found


def side_by_side(desk: Desk, channel: str, replies: Mapping[int, e.ModelReplied]) -> list[e.ToolRequested]:
    """The calls of several investigations in common stages: parallel-safe ones of all together, any other alone.

    Each investigation's calls stay in its model's order.
    """
    waiting = []
    for number in sorted(replies):
        calls = [one.model_copy(update={"branch": number}) for one in requested_calls(desk, channel, replies[number])]
        waiting.append([list(group) for _, group in groupby(calls, lambda one: one.stage)])
    found: list[e.ToolRequested] = []
    stage = 0
    while waiting := [stages for stages in waiting if stages]:
        shared = [stages for stages in waiting if _is_safe(desk, stages[0][0])] or waiting[:1]
        found += [call.model_copy(update={"stage": stage}) for stages in shared for call in stages.pop(0)]
        stage += 1
    return found


def _is_safe(desk: Desk, call: e.ToolRequested) -> bool:
    tool = desk.toolbox.get(call.tool) if not call.invalid else None
    return bool(tool and tool.spec.parallel_safe)


def _requested(desk: Desk, block: dict[str, Any], reply: e.ModelReplied, offered: set[str]) -> e.ToolRequested:
    name, call_id, raw = str(block.get("name")), str(block.get("id")), block.get("input")
    tool = desk.toolbox.get(name) if name in offered else None
    authority = tool.spec.authority.word if tool else "critical"
    arguments = raw if isinstance(raw, dict) else {}
    invalid = ""
    try:
        if reply.stop_reason != "tool_use":
            raise ModelMistake("This reply was cut off, so none of its calls was made.")
        if call_id in reply.invalid_calls:
            raise ModelMistake(f"{name} was not run: {reply.invalid_calls[call_id]}")
        if tool is None:
            raise ModelMistake(f"There is no tool {name!r} here. Use one of: {', '.join(sorted(offered))}.")
        arguments = tool.validate(arguments)
    except ModelMistake as mistake:
        invalid = str(mistake)
    return e.ToolRequested(
        call_id=call_id,
        tool=name,
        arguments=arguments,
        authority=authority,
        invalid=invalid,
    )
