"""What Slack delivers becomes an inbox item, or is dropped with a reason. Pure; never raises for odd input.

1. A message is known by (app, team, channel, ts) and the kind of change, never by event id or retry header:
   `app_mention` and `message` of one mention are one message, whichever comes first.
2. Whether a message is for us is decided from its text, so that either copy decides alike.
3. What is not the author's own word (quotes, previews, forwarded text, files) is kept apart.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bot.core.words import ThreadId
from bot.engine.storage import InboxItem, InboxKind
from bot.slack.text import RAW, attached, capped, plain, quoted_spans


@dataclass(frozen=True)
class Us:
    """Who we are in this workspace (from auth.test)."""

    team: str
    user: str
    bot: str
    app: str = ""


@dataclass(frozen=True)
class Enqueue:
    """Goes into the inbox of its thread."""

    item: InboxItem
    claim: str
    only_known: bool = False


@dataclass(frozen=True)
class Drop:
    """Nothing follows from it."""

    reason: str


Taken = Enqueue | Drop

# Bounded and without `<`, so that a text of nothing but openings costs linear time.
_USER = re.compile(r"<@([UW][A-Z0-9]{1,40})(?:\|[^<>]{0,300})?>")
_ID = re.compile(r"^[A-Za-z0-9_-]{1,80}$")
_TS = re.compile(r"^\d{1,12}\.\d{1,9}$")
_STOP = re.compile(r"\s*stop\s*[.!]*\s*", re.IGNORECASE)
_LONGEST_STOP = 40
_INPUT_SUBTYPES = frozenset({"file_share", "thread_broadcast", "me_message", "bot_message"})


def read(body: Mapping[str, Any], us: Us) -> Taken:
    """One delivery of any kind."""
    if body.get("type") == "block_actions":
        return _click(body, us)
    event = body.get("event")
    if body.get("type") != "event_callback" or not isinstance(event, dict):
        return Drop(f"{body.get('type')} is not for us")
    kind = event.get("type")
    if kind == "agent_session_stopped":
        return _stopped(body, event, us)
    if kind not in ("message", "app_mention"):
        return Drop(f"{kind} events are not for us")
    subtype = event.get("subtype")
    if subtype == "message_changed":
        return _changed(body, event, us)
    if subtype == "message_deleted":
        return _deleted(body, event, us)
    if subtype is not None and (not isinstance(subtype, str) or subtype not in _INPUT_SUBTYPES):
        return Drop(f"{subtype} is no message of a person")
    return _message(body, event, us)


def _place(event: Mapping[str, Any], message: Mapping[str, Any], us: Us) -> tuple[ThreadId, str] | None:
    channel, ts = str(event.get("channel") or ""), str(message.get("ts") or "")
    root = str(message.get("thread_ts") or ts)
    if not channel or not _TS.match(ts) or not _TS.match(root):
        return None
    return ThreadId(us.team, channel, root), ts


def _ours(message: Mapping[str, Any], us: Us) -> bool:
    return message.get("user") == us.user or message.get("bot_id") == us.bot


def _claim(body: Mapping[str, Any], us: Us, thread: ThreadId, *parts: str) -> str:
    return ":".join([str(body.get("api_app_id") or us.app), us.team, thread.channel, *parts])


def _message(body: Mapping[str, Any], event: Mapping[str, Any], us: Us) -> Taken:
    place = _place(event, event, us)
    if place is None:
        return Drop("it has no channel and ts")
    if _ours(event, us):
        return Drop("our own")
    if event.get("edited") and event.get("type") == "app_mention":
        return Drop("an edited mention comes as a change as well")
    thread, ts = place
    addressed, reply = _addressed(event, us), bool(event.get("thread_ts"))
    if not addressed and not reply:
        return Drop("neither a mention, a direct message nor a reply")
    read_body = message_body(event, us) | {"external": _external(event, us)}
    read_body["shared_channel"] = bool(body.get("is_ext_shared_channel"))
    claim = _claim(body, us, thread, ts, "message")
    if reply and not read_body["bot"] and _is_stop(read_body["text"]):
        stop = {"user": read_body["author"], "ts": ts, "external": read_body["external"]}
        return _enqueue(thread, "stop", stop, claim, only_known=True)
    return _enqueue(thread, "message", read_body, claim, only_known=not addressed)


def _is_stop(text: str) -> bool:
    return len(text) <= _LONGEST_STOP and _STOP.fullmatch(text) is not None


def _addressed(event: Mapping[str, Any], us: Us) -> bool:
    """From the text, so that both copies of a mention decide alike."""
    return f"<@{us.user}" in str(event.get("text") or "")[:RAW] or _direct(event)


def _direct(event: Mapping[str, Any]) -> bool:
    return event.get("channel_type") == "im" or str(event.get("channel") or "").startswith("D")


def message_body(event: Mapping[str, Any], us: Us) -> dict[str, Any]:
    """A message as the engine reads it; see `bot/engine/storage.py`."""
    raw = str(event.get("text") or "")[:RAW]
    mentioned = _USER.findall(raw)
    names = [plain(str(one.get("name") or "unnamed")) for one in _dicts(event.get("files"))]
    files = [" ".join(name.split())[:120] for name in names]
    text = plain(_USER.sub(lambda found: "" if found[1] == us.user else f"@{found[1]}", raw))
    extra = attached(_dicts(event.get("attachments")))
    whole = "\n".join([text.strip(), *(f"[forwarded or previewed] {one}" for one in extra)]).strip()
    return {
        "ts": str(event.get("ts")),
        "author": str(event.get("user") or event.get("bot_id") or ""),
        "text": capped(whole),
        "mentions_us": us.user in mentioned,
        "direct": _direct(event),
        "quoted": [*quoted_spans(text), *extra][:20],
        "files": files[:20],
        "bot": bool(event.get("bot_id") or event.get("subtype") == "bot_message"),
        "thread_reply": bool(event.get("thread_ts")) and event.get("thread_ts") != event.get("ts"),
        "addresses_others": any(user != us.user for user in mentioned) and us.user not in mentioned,
    }


def _external(event: Mapping[str, Any], us: Us) -> bool:
    teams = [event.get(name) for name in ("user_team", "source_team", "team")]
    return any(team and team != us.team for team in teams)


def _enqueue(
    thread: ThreadId, kind: InboxKind, body: Mapping[str, Any], claim: str, only_known: bool = False
) -> Enqueue:
    return Enqueue(InboxItem(thread, kind, dict(body)), claim, only_known)


def _changed(body: Mapping[str, Any], event: Mapping[str, Any], us: Us) -> Taken:
    after, before = event.get("message"), event.get("previous_message")
    if not isinstance(after, dict) or not isinstance(before, dict):
        return Drop("a change without its messages")
    place = _place(event, after, us)
    if place is None or _ours(after, us):
        return Drop("our own" if place else "it has no channel and ts")
    if after.get("subtype") == "tombstone":
        # A root with replies is not removed but emptied.
        thread, ts = place
        return _enqueue(thread, "delete", {"ts": ts}, _claim(body, us, thread, ts, "delete"), only_known=True)
    if str(after.get("text") or "") == str(before.get("text") or ""):
        return Drop("unchanged: a preview or a refresh")
    thread, ts = place
    edited = after.get("edited")
    stamp = str(edited.get("ts") if isinstance(edited, dict) else event.get("ts"))
    changed = message_body({**after, "channel": event.get("channel")}, us)
    kept = {name: changed[name] for name in ("ts", "author", "text", "quoted", "files")}
    kept["external"] = _external(after, us)
    return _enqueue(thread, "edit", kept, _claim(body, us, thread, ts, "edit", stamp), only_known=True)


def _deleted(body: Mapping[str, Any], event: Mapping[str, Any], us: Us) -> Taken:
    before = event.get("previous_message")
    message = {**before, "ts": event.get("deleted_ts")} if isinstance(before, dict) else {"ts": event.get("deleted_ts")}
    place = _place(event, message, us)
    if place is None or _ours(message, us):
        return Drop("our own" if place else "it has no channel and ts")
    thread, ts = place
    return _enqueue(thread, "delete", {"ts": ts}, _claim(body, us, thread, ts, "delete"), only_known=True)


def _stopped(body: Mapping[str, Any], event: Mapping[str, Any], us: Us) -> Taken:
    place = _place(event, {"ts": event.get("thread_ts")}, us)
    if place is None:
        return Drop("it has no channel and ts")
    thread, _ = place
    stamp = str(event.get("event_ts") or "")
    claim = _claim(body, us, thread, thread.root_ts, "stop", stamp)
    return _enqueue(thread, "stop", {"user": str(event.get("user") or "")}, claim, only_known=True)


def _click(body: Mapping[str, Any], us: Us) -> Taken:
    actions, message = _dicts(body.get("actions")), body.get("message")
    user, channel = body.get("user"), body.get("channel")
    if not actions or not isinstance(message, dict) or not isinstance(user, dict) or not isinstance(channel, dict):
        return Drop("a click without its message")
    vote, _, named = str(actions[0].get("action_id") or "").partition(":")
    place = _place({"channel": channel.get("id")}, message, us)
    if vote not in ("approve", "deny") or place is None:
        return Drop("not one of our buttons")
    thread, ts = place
    value = str(actions[0].get("value") or "")
    # The value is only an opaque id; anything else was not put there by us.
    honest = value == named and bool(_ID.match(value))
    clicked: dict[str, Any] = {
        "user": str(user.get("id") or ""),
        "team": str(user.get("team_id") or ""),
        "approval_id": named if _ID.match(named) else "unreadable",
        "vote": vote,
        "tampered": not honest or not _ours(message, us),
    }
    stamp = str(actions[0].get("action_ts") or "")
    claim = _claim(body, us, thread, ts, "click", clicked["user"], vote, clicked["approval_id"], stamp)
    return _enqueue(thread, "click", clicked, claim, only_known=True)


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
