"""What Slack refuses: sizes, shapes and rates, measured or documented (slack.md section 2)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

POST_TEXT = 40_000
UPDATE_TEXT = 4_000
MARKDOWN = 12_000
MESSAGE_MARKDOWN = 13_200
BLOCKS = 50
VIEW_BLOCKS = 100
SECTION_TEXT = 3_000
HEADER = 150
BUTTON_TEXT = 75
BUTTON_VALUE = 2_000
ID = 255
ACTION_ELEMENTS = 25
CONTEXT_ELEMENTS = 10
TABLE_ROWS, TABLE_COLUMNS, TABLE_CHARACTERS = 100, 20, 10_000
METADATA = 8_000

KNOWN_BLOCKS = frozenset(
    {
        "section",
        "divider",
        "image",
        "actions",
        "context",
        "context_actions",
        "input",
        "file",
        "call",
        "header",
    }
    | {
        "markdown",
        "video",
        "rich_text",
        "table",
        "task_card",
        "plan",
        "alert",
        "card",
        "carousel",
        "container",
    }
)


def message_faults(method: str, call: dict[str, Any]) -> tuple[str, list[str]] | None:
    """The error and its details, or `None` for a message that Slack takes."""
    text, blocks, markdown = str(call.get("text") or ""), call.get("blocks") or [], call.get("markdown_text")
    if markdown is not None and (text or blocks):
        return "markdown_text_conflict", []
    if not text and not blocks and not markdown and not call.get("attachments"):
        return "no_text", []
    if len(text) > (UPDATE_TEXT if method == "chat.update" else POST_TEXT) or len(markdown or "") > MARKDOWN:
        return "msg_too_long", []
    if not isinstance(blocks, list):
        return "invalid_blocks_format", []
    if len(blocks) > BLOCKS:
        return "invalid_blocks", [f"[ERROR] no more than {BLOCKS} items allowed [json-pointer:/blocks]"]
    total = sum(
        len(str(one.get("text", ""))) for one in blocks if isinstance(one, dict) and one.get("type") == "markdown"
    )
    if total > MESSAGE_MARKDOWN:
        return "msg_blocks_too_long", []
    faults = block_faults(blocks)
    return ("invalid_blocks", faults) if faults else _metadata_fault(call.get("metadata"))


def _metadata_fault(metadata: Any) -> tuple[str, list[str]] | None:
    if metadata in (None, ""):
        return None
    good = isinstance(metadata, dict) and isinstance(metadata.get("event_type"), str)
    if not good or not isinstance(metadata.get("event_payload"), dict):
        return "invalid_metadata_format", []
    return ("metadata_too_large", []) if len(str(metadata)) > METADATA else None


def block_faults(blocks: list[Any]) -> list[str]:
    """One line for each thing that is wrong, with its JSON pointer."""
    faults: list[str] = []
    seen: dict[str, set[str]] = {"block_id": set(), "action_id": set()}
    for place, block in enumerate(blocks):
        where = f"/blocks/{place}"
        if not isinstance(block, dict) or str(block.get("type")) not in KNOWN_BLOCKS:
            kind = block.get("type") if isinstance(block, dict) else block
            faults.append(f"[ERROR] unsupported type: {kind} [json-pointer:{where}/type]")
            continue
        faults += _id(block, "block_id", where, seen)
        if check := _CHECKS.get(str(block["type"])):
            faults += check(block, where, seen)
    if sum(isinstance(one, dict) and one.get("type") == "table" for one in blocks) > 1:
        faults.append("[ERROR] only one table allowed [json-pointer:/blocks]")
    return faults


def _id(owner: dict[str, Any], name: str, where: str, seen: dict[str, set[str]]) -> list[str]:
    value = owner.get(name)
    if value is None:
        return []
    if not isinstance(value, str) or not 1 <= len(value) <= ID:
        return [f"[ERROR] must be 1 to {ID} characters [json-pointer:{where}/{name}]"]
    if value in seen[name]:
        return [f"[ERROR] `{name}` {value} already exists [json-pointer:{where}/{name}]"]
    seen[name].add(value)
    return []


def _text(value: Any, where: str, longest: int, kinds: tuple[str, ...] = ("plain_text", "mrkdwn")) -> list[str]:
    if not isinstance(value, dict) or value.get("type") not in kinds or not isinstance(value.get("text"), str):
        return [f"[ERROR] not a text object of {'/'.join(kinds)} [json-pointer:{where}]"]
    if not value["text"]:
        return [f"[ERROR] must be more than 0 characters [json-pointer:{where}/text]"]
    if len(value["text"]) > longest:
        return [f"[ERROR] must be less than {longest + 1} characters [json-pointer:{where}/text]"]
    return []


def _section(block: dict[str, Any], where: str, seen: dict[str, set[str]]) -> list[str]:
    fields = block.get("fields")
    if fields is not None and not isinstance(fields, list):
        return [f"[ERROR] a list expected [json-pointer:{where}/fields]"]
    if block.get("text") is None and not fields:
        return [f"[ERROR] missing required field: text or fields [json-pointer:{where}]"]
    faults = _text(block["text"], f"{where}/text", SECTION_TEXT) if block.get("text") is not None else []
    if fields and len(fields) > 10:
        faults.append(f"[ERROR] no more than 10 items allowed [json-pointer:{where}/fields]")
    for place, one in enumerate(fields or []):
        faults += _text(one, f"{where}/fields/{place}", 2_000)
    return faults


def _actions(block: dict[str, Any], where: str, seen: dict[str, set[str]]) -> list[str]:
    elements = block.get("elements")
    if not isinstance(elements, list) or not 1 <= len(elements) <= ACTION_ELEMENTS:
        return [f"[ERROR] 1 to {ACTION_ELEMENTS} items allowed [json-pointer:{where}/elements]"]
    faults: list[str] = []
    for place, element in enumerate(elements):
        inside = f"{where}/elements/{place}"
        if not isinstance(element, dict):
            faults.append(f"[ERROR] not an element [json-pointer:{inside}]")
            continue
        faults += _id(element, "action_id", inside, seen)
        if element.get("type") == "button":
            faults += _text(element.get("text"), f"{inside}/text", BUTTON_TEXT, ("plain_text",))
            if len(str(element.get("value", ""))) > BUTTON_VALUE:
                faults.append(f"[ERROR] must be less than {BUTTON_VALUE + 1} characters [json-pointer:{inside}/value]")
            if element.get("style") not in (None, "primary", "danger"):
                faults.append(f"[ERROR] invalid style [json-pointer:{inside}/style]")
    return faults


def _context(block: dict[str, Any], where: str, seen: dict[str, set[str]]) -> list[str]:
    elements = block.get("elements")
    if not isinstance(elements, list) or not 1 <= len(elements) <= CONTEXT_ELEMENTS:
        return [f"[ERROR] 1 to {CONTEXT_ELEMENTS} items allowed [json-pointer:{where}/elements]"]
    faults: list[str] = []
    for place, element in enumerate(elements):
        if not isinstance(element, dict) or element.get("type") != "image":
            faults += _text(element, f"{where}/elements/{place}", SECTION_TEXT)
    return faults


def _header(block: dict[str, Any], where: str, seen: dict[str, set[str]]) -> list[str]:
    return _text(block.get("text"), f"{where}/text", HEADER, ("plain_text",))


def _markdown(block: dict[str, Any], where: str, seen: dict[str, set[str]]) -> list[str]:
    text = block.get("text")
    if not isinstance(text, str) or not 1 <= len(text) <= MARKDOWN:
        return [f"[ERROR] 1 to {MARKDOWN} characters [json-pointer:{where}/text]"]
    return []


def _rich(block: dict[str, Any], where: str, seen: dict[str, set[str]]) -> list[str]:
    ok = isinstance(block.get("elements"), list) and bool(block["elements"])
    return [] if ok else [f"[ERROR] missing elements [json-pointer:{where}/elements]"]


def _table(block: dict[str, Any], where: str, seen: dict[str, set[str]]) -> list[str]:
    rows = block.get("rows")
    if not isinstance(rows, list) or not 1 <= len(rows) <= TABLE_ROWS:
        return [f"[ERROR] 1 to {TABLE_ROWS} rows [json-pointer:{where}/rows]"]
    if not all(isinstance(row, list) and all(isinstance(cell, dict) for cell in row) for row in rows):
        return [f"[ERROR] rows of cells expected [json-pointer:{where}/rows]"]
    if any(not 1 <= len(row) <= TABLE_COLUMNS for row in rows):
        return [f"[ERROR] 1 to {TABLE_COLUMNS} columns [json-pointer:{where}/rows]"]
    cells = [str(cell.get("text") or cell.get("elements") or "") for row in rows for cell in row]
    if not all(cells):
        return [f"[ERROR] empty cell [json-pointer:{where}/rows]"]
    return [f"[ERROR] too many characters [json-pointer:{where}]"] if sum(map(len, cells)) > TABLE_CHARACTERS else []


_CHECKS: dict[str, Callable[[dict[str, Any], str, dict[str, set[str]]], list[str]]] = {
    "section": _section,
    "actions": _actions,
    "context": _context,
    "header": _header,
    "markdown": _markdown,
    "rich_text": _rich,
    "table": _table,
}

PER_MINUTE = {
    "chat.update": 50,
    "chat.delete": 50,
    "chat.postEphemeral": 100,
    "chat.startStream": 20,
    "chat.stopStream": 20,
    "chat.appendStream": 100,
    "conversations.replies": 50,
    "conversations.history": 50,
    "users.info": 100,
    "usergroups.list": 20,
    "usergroups.users.list": 20,
    "agents.sessions.setStatus": 50,
    "apps.connections.open": 50,
    "views.open": 100,
    "reactions.add": 50,
    "reactions.remove": 20,
}
"""Calls a minute for each method and app (slack.md section 2.2)."""
POST_BURST = 4
"""Posts that a channel takes at once before one a second holds."""


@dataclass
class Rates:
    """Token buckets; off unless a workspace turns them on."""

    on: bool = False
    now: Callable[[], float] = time.monotonic
    _buckets: dict[str, tuple[float, float]] = field(default_factory=dict)

    def wait_s(self, method: str, channel: str) -> int:
        """0 when the call may go on, else Retry-After in whole seconds."""
        if not self.on:
            return 0
        if method == "chat.postMessage":
            return self._take(f"{method}:{channel}", 1.0, POST_BURST)
        if limit := PER_MINUTE.get(method):
            return self._take(method, limit / 60, limit)
        return 0

    def _take(self, name: str, per_s: float, burst: float) -> int:
        now = self.now()
        level, at = self._buckets.get(name, (float(burst), now))
        level = min(float(burst), level + (now - at) * per_s)
        if level < 1:
            self._buckets[name] = (level, now)
            return max(1, math.ceil((1 - level) / per_s))
        self._buckets[name] = (level - 1, now)
        return 0
