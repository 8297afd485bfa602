"""People of a local workspace, as tests and the page drive them: they type, click, edit, delete, stop."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from bot.lab.slack_state import APP, BOT, BOT_USER, TEAM, Post, Workspace

if TYPE_CHECKING:
    from bot.lab.slack_delivery import Delivering, Delivery


class Humans:
    """Mixed into the server: everything here changes the workspace and delivers what Slack would."""

    workspace: Workspace
    delivering: Delivering

    async def say(self, user: str, text: str, channel: str = "C0SUPPORT", thread_ts: str = "", **extra: Any) -> str:
        """That person writes; a mention of the bot is delivered as two events, in either order. Returns the ts."""
        human = self.workspace.people[user]
        ts = str(extra.pop("ts", "") or self.workspace.new_ts())
        post = Post(channel, ts, user, text, human.bot_id, thread_ts, extra=extra)
        self.workspace.posts.append(post)
        await self.workspace.changed()
        events = [self._event(post)]
        if f"<@{BOT_USER}>" in text:
            mention = {key: value for key, value in events[0].items() if key != "channel_type"} | {
                "type": "app_mention"
            }
            events.insert(len(self.workspace.posts) % 2, mention)
        for event in events:
            self.delivering.event(event, shared=self.workspace.channels[channel].shared)
        return ts

    def _event(self, post: Post) -> dict[str, Any]:
        human = self.workspace.people[post.user]
        event = post.shown() | {
            "channel": post.channel,
            "event_ts": post.ts,
            "client_msg_id": str(uuid.uuid4()),
        }
        event |= {"channel_type": "im" if post.channel.startswith("D") else "channel", "team": human.team}
        if human.team != TEAM:
            event |= {"user_team": human.team, "source_team": human.team}
        return event

    async def dm(self, user: str, text: str, thread_ts: str = "") -> str:
        """That person writes to the bot directly."""
        return await self.say(user, text, self.workspace.direct(user).id, thread_ts)

    async def edit(self, ts: str, text: str, channel: str = "C0SUPPORT") -> None:
        """The author changes a message; the same text is what a link preview does."""
        post = self.workspace.find(channel, ts)
        assert post is not None, f"there is no message {ts}"
        before = self._event(post)
        changed = text != post.text
        post.text = text
        if changed:
            post.edited = self.workspace.new_ts()
        await self.workspace.changed()
        event = {"type": "message", "subtype": "message_changed", "channel": channel, "hidden": True}
        event |= {"ts": self.workspace.new_ts(), "message": self._event(post), "previous_message": before}
        event["event_ts"] = event["ts"]
        self.delivering.event(event)
        if changed and f"<@{BOT_USER}>" in text:
            self.delivering.event(self._event(post) | {"type": "app_mention"})

    async def delete(self, ts: str, channel: str = "C0SUPPORT") -> None:
        """The author removes a message."""
        post = self.workspace.find(channel, ts)
        assert post is not None, f"there is no message {ts}"
        self.workspace.posts.remove(post)
        await self.tell(post, "deleted")

    async def tell(self, post: Post, what: str) -> None:
        """Deliver the event that follows a change of a post."""
        await self.workspace.changed()
        if what == "posted":
            self.delivering.event(self._event(post))
            return
        event: dict[str, Any] = {"type": "message", "channel": post.channel, "ts": self.workspace.new_ts()}
        if what == "changed":
            event |= {
                "subtype": "message_changed",
                "message": self._event(post),
                "previous_message": self._event(post),
            }
        else:
            event |= {
                "subtype": "message_deleted",
                "deleted_ts": post.ts,
                "previous_message": self._event(post),
            }
        event["event_ts"] = event["ts"]
        self.delivering.event(event)

    def buttons(self, channel: str, ts: str, user: str = "") -> list[dict[str, Any]]:
        """The buttons a message shows to that person."""
        post = self.workspace.find(channel, ts)
        elements = [
            (block.get("block_id", ""), element)
            for block in (post.blocks if post else [])
            if block.get("type") == "actions"
            for element in block["elements"]
        ]
        return [{"block_id": block_id, **element} for block_id, element in elements if element.get("type") == "button"]

    async def click(
        self, user: str, ts: str, button: str, channel: str = "C0SUPPORT", *, nth: int = 0, **forged: Any
    ) -> Delivery:
        """Tap a button by its text or action id; refuses when the message shows no such button."""
        found = [
            one for one in self.buttons(channel, ts, user) if button in (one["text"]["text"], one.get("action_id"))
        ]
        assert len(found) > nth, f"message {ts} shows no button {button!r}"
        post = self.workspace.find(channel, ts)
        assert post is not None
        return self.press(user, post, {**found[nth], **forged})

    def press(self, user: str, post: Post, element: dict[str, Any]) -> Delivery:
        """Deliver a click as Slack does, whatever the element says."""
        human = self.workspace.people[user]
        kept: tuple[str, ...] = ("action_id", "block_id", "value", "type", "text")
        action = {name: element[name] for name in kept if name in element}
        action["action_ts"] = self.workspace.new_ts()
        payload = {
            "type": "block_actions",
            "user": {"id": user, "username": human.name, "name": human.name, "team_id": human.team},
            "api_app_id": APP,
            "token": "lab",
            "team": {"id": TEAM, "domain": "plimsoll"},
            "container": {
                "type": "message",
                "message_ts": post.ts,
                "channel_id": post.channel,
                "is_ephemeral": False,
            },
            "channel": {"id": post.channel, "name": self.workspace.channels[post.channel].name},
            "message": post.shown(),
            "trigger_id": f"{uuid.uuid4().hex}|{user}",
            "actions": [action],
        }
        deliveries = [self.delivering.send("interactive", payload) for _ in range(self.delivering.duplicate)]
        return deliveries[0]

    async def stop(self, user: str, thread_ts: str, channel: str = "C0SUPPORT") -> None:
        """Slack's own Stop button."""
        event = {"type": "agent_session_stopped", "channel": channel, "thread_ts": thread_ts, "user": user}
        self.delivering.event(event | {"event_ts": self.workspace.new_ts(), "streaming_message_ts": []})

    def cards(self, channel: str = "C0SUPPORT") -> list[Post]:
        """Messages of the bot that show an Approve button."""
        return [
            post
            for post in self.workspace.posts
            if post.channel == channel
            and post.bot_id == BOT
            and any(one["text"]["text"] == "Approve" for one in self.buttons(channel, post.ts))
        ]

    def ours(self, channel: str = "C0SUPPORT", thread_ts: str = "") -> list[Post]:
        """What the bot wrote, oldest first."""
        return [
            post
            for post in self.workspace.posts
            if post.channel == channel and post.bot_id == BOT and thread_ts in ("", post.thread_ts)
        ]

    def whispered(self, user: str) -> list[str]:
        """What only that person was told."""
        return [one.text for one in self.workspace.whispers if one.user == user]


def words_of(post: Post) -> str:
    """All words of a message's blocks, or its text when it has none."""
    words: list[str] = []
    for block in post.blocks:
        text = block.get("text")
        words += [str(text["text"])] if isinstance(text, dict) else []
        words += [str(one["text"]) for one in block.get("elements", []) if isinstance(one.get("text"), str)]
    return "\n".join(words or [post.text])
