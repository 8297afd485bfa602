"""Tools that every installation has."""

from __future__ import annotations

from bot.core.authority import Authority
from bot.core.labels import Trust
from bot.core.todo import TODO, TodoArgs
from bot.core.tool import Tool, ToolContext, tool


@tool(
    name=TODO, authority=Authority.OBSERVE, output=Trust.INTERNAL, parallel_safe=True, idempotent=True, critical_args=()
)
async def _todo(args: TodoArgs, context: ToolContext) -> str:
    """Keep a to-do list for this task; the people in the thread see it as your progress.

    Use it for long tasks of three or more steps: write the list when you begin, and send the whole list again each
    time something is done, dropped or found to be missing, together with your next call. At most one item is `doing`.
    Do not use it for a single look-up or a plain answer. It looks nothing up and changes nothing.
    """
    closed = sum(item.state in ("done", "dropped") for item in args.items)
    return f"The list has {len(args.items)} items, {closed} of them closed."


OWN_TOOLS: tuple[Tool, ...] = (_todo,)
