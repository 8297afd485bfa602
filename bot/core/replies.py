"""What a complete reply of the model means, by its stop reason: total, so that no reply is met unprepared.

| stop reason | what follows |
|---|---|
| tool_use | its calls are brought before the gate |
| end_turn, stop_sequence | the answer; an empty one is asked for once more, then handed over |
| max_tokens | no call of it runs; asked again once with more room, then `partial / max_tokens` |
| pause_turn | sent back as it is; counts as a turn |
| refusal | `refused / refusal`, never asked again |
| model_context_window_exceeded | the conversation is folded once, then `partial / context_window` |
| anything else | no call of it runs; `failed / model_error` |
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from bot.core.events import ModelReplied
from bot.core.state import Run

ENDS = frozenset({"end_turn", "stop_sequence"})
WINDOW = "model_context_window_exceeded"
NUDGE = "(Your reply was empty. Answer now with what you have, or say what is missing.)"

LONGEST_NAME = 200
"""Characters of a tool's name that the Messages API takes back."""
_NAME = re.compile(rf"[a-zA-Z0-9_-]{{1,{LONGEST_NAME}}}")
_NO_NAME = re.compile("[^a-zA-Z0-9_-]")


def text_of(content: Iterable[object]) -> str:
    """The words of a reply, thinking and calls left out."""
    texts = (str(block.get("text", "")) for block in content if isinstance(block, dict) and block.get("type") == "text")
    return "\n\n".join(text.strip() for text in texts if text.strip())


def usable(content: Iterable[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    """What the next request may show of a reply; nothing of one that says nothing.

    The service refuses empty texts, a history in which a message ends in thinking, and names of calls that it wrote
    itself: such a call is shown by a name that it takes, and the log keeps the one that came.
    """
    said = (block for block in content if block.get("type") != "text" or str(block.get("text", "")).strip())
    kept = tuple(_by_safe_name(block) for block in said)
    return kept if any(block.get("type") in ("text", "tool_use") for block in kept) else ()


def _by_safe_name(block: Mapping[str, Any]) -> Mapping[str, Any]:
    name = str(block.get("name"))
    if block.get("type") != "tool_use" or _NAME.fullmatch(name):
        return block
    return {**block, "name": _NO_NAME.sub("_", name)[:LONGEST_NAME] or "_"}


def asked_again(reply: ModelReplied, run: Run) -> bool:
    """Whether that reply is left out of the conversation, because the same is asked once more with more room."""
    return (reply.stop_reason == "max_tokens" and run.cut < 2) or (reply.stop_reason == WINDOW and not run.window_folds)


def ending_for(reply: ModelReplied, run: Run) -> tuple[str, str, str] | None:
    """Outcome, stop reason and text that a complete reply without open calls means; `None`: the run goes on.

    A stop reason that this version does not know, or a promise of calls without any, ends the run.
    """
    text = text_of(reply.content)
    if asked_again(reply, run):
        return None
    match reply.stop_reason:
        case "tool_use" if run.calls:
            return None
        case "pause_turn":
            return None
        case "end_turn" | "stop_sequence" if text:
            return ("answered", "end_turn", text)
        case "end_turn" | "stop_sequence":
            return ("escalated", _why_silent(run), "")
        case "max_tokens":
            return ("partial", "max_tokens", text)
        case "model_context_window_exceeded":
            return ("partial", "context_window", text)
        case "refusal":
            return ("refused", "refusal", "")
        case _:
            return ("failed", "model_error", "")


def _why_silent(run: Run) -> str:
    decided = {approval.status for approval in run.approvals.values()}
    if "denied" in decided:
        return "approval_denied"
    return "approval_expired" if "expired" in decided else "hand_over"
