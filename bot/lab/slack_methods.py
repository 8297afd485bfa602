"""The Web API of a local workspace: one function a method, answering as Slack does."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from bot.lab.slack_limits import MARKDOWN, VIEW_BLOCKS, block_faults, message_faults
from bot.lab.slack_state import APP, BOT, BOT_USER, TEAM, Channel, Post, Whisper, Workspace

Answer = dict[str, Any]
Call = dict[str, Any]


class Refused(Exception):
    """`ok: false` with that error."""

    def __init__(self, error: str, messages: list[str] | None = None) -> None:
        super().__init__(error)
        self.error = error
        self.messages = messages or []


class Methods:
    """All methods, bound to one workspace."""

    def __init__(self, workspace: Workspace, said: Callable[[Post, str], Awaitable[None]]) -> None:
        self._workspace = workspace
        self._said = said
        """Called with a post of ours and what happened to it, so that events follow."""
        self.table: dict[str, Callable[[Call], Awaitable[Answer]]] = {
            "auth.test": self._auth_test,
            "chat.postMessage": self._post,
            "chat.update": self._update,
            "chat.delete": self._delete,
            "chat.postEphemeral": self._ephemeral,
            "chat.getPermalink": self._permalink,
            "chat.startStream": self._start_stream,
            "chat.appendStream": self._append_stream,
            "chat.stopStream": self._stop_stream,
            "agents.sessions.setStatus": self._status,
            "agents.sessions.rename": self._rename,
            "assistant.threads.setStatus": self._old_status,
            "conversations.info": self._info,
            "conversations.replies": self._replies,
            "conversations.history": self._history,
            "conversations.open": self._open,
            "users.info": self._user,
            "users.list": self._users,
            "usergroups.list": self._groups,
            "usergroups.users.list": self._group,
            "views.open": self._view,
            "views.update": self._view,
            "views.publish": self._view,
            "reactions.add": self._react,
            "reactions.remove": self._unreact,
            "blocks.validate": self._validate,
            "bots.info": self._bot,
        }

    # -- messages -----------------------------------------------------------------------------------------

    def _channel(self, call: Call) -> Channel:
        name = str(call.get("channel") or call.get("channel_id") or "")
        if name.startswith("U") and name in self._workspace.people:
            return self._workspace.direct(name)
        channel = self._workspace.channels.get(name)
        if channel is None:
            raise Refused("channel_not_found")
        if BOT_USER not in channel.members:
            raise Refused("not_in_channel")
        return channel

    def _own(self, call: Call) -> Post:
        post = self._workspace.find(self._channel(call).id, str(call.get("ts")))
        if post is None:
            raise Refused("message_not_found")
        if post.bot_id != BOT:
            raise Refused("cant_update_message")
        return post

    def _checked(self, method: str, call: Call) -> None:
        if found := message_faults(method, call):
            raise Refused(*found)

    async def _post(self, call: Call) -> Answer:
        self._checked("chat.postMessage", call)
        channel = self._channel(call)
        post = Post(
            channel.id,
            self._workspace.new_ts(),
            BOT_USER,
            str(call.get("text") or call.get("markdown_text") or ""),
            BOT,
            str(call.get("thread_ts") or ""),
            list(call.get("blocks") or []),
            dict(call.get("metadata") or {}),
        )
        self._workspace.posts.append(post)
        await self._said(post, "posted")
        return {"channel": channel.id, "ts": post.ts, "message": post.shown()}

    async def _update(self, call: Call) -> Answer:
        post = self._own(call)
        self._checked("chat.update", call)
        if post.stream == "open":
            raise Refused("streaming_state_conflict")
        post.text = str(call.get("text") or call.get("markdown_text") or "")
        post.blocks = list(call.get("blocks") or [])
        post.metadata = dict(call.get("metadata") or post.metadata)
        post.edited = self._workspace.new_ts()
        await self._said(post, "changed")
        return {"channel": post.channel, "ts": post.ts, "text": post.text, "message": post.shown()}

    async def _delete(self, call: Call) -> Answer:
        post = self._own(call)
        self._workspace.posts.remove(post)
        await self._said(post, "deleted")
        return {"channel": post.channel, "ts": post.ts}

    async def _ephemeral(self, call: Call) -> Answer:
        self._checked("chat.postEphemeral", call)
        channel, user = self._channel(call), str(call.get("user") or "")
        if user not in channel.members:
            raise Refused("user_not_in_channel")
        ts = self._workspace.new_ts()
        text, blocks = str(call.get("text") or ""), list(call.get("blocks") or [])
        self._workspace.whispers.append(Whisper(channel.id, user, text, ts, str(call.get("thread_ts") or ""), blocks))
        await self._workspace.changed()
        return {"message_ts": ts}

    async def _permalink(self, call: Call) -> Answer:
        post = self._workspace.find(self._channel(call).id, str(call.get("message_ts")))
        if post is None:
            raise Refused("message_not_found")
        link = f"https://plimsoll.slack.com/archives/{post.channel}/p{post.ts.replace('.', '')}"
        more = f"?thread_ts={post.thread_ts}&cid={post.channel}" if post.thread_ts else ""
        return {"channel": post.channel, "permalink": link + more}

    # -- streams and sessions -----------------------------------------------------------------------------

    async def _start_stream(self, call: Call) -> Answer:
        channel = self._channel(call)
        if not call.get("thread_ts"):
            raise Refused("missing_thread_ts")
        if not channel.id.startswith("D"):
            for name in ("recipient_team_id", "recipient_user_id"):
                if not call.get(name):
                    raise Refused(f"missing_{name}")
        text = str(call.get("markdown_text") or "")
        post = Post(channel.id, self._workspace.new_ts(), BOT_USER, text, BOT, str(call["thread_ts"]), stream="open")
        self._workspace.posts.append(post)
        self._workspace.statuses[channel.id, post.thread_ts] = "processing"
        await self._workspace.changed()
        return {"channel": channel.id, "ts": post.ts}

    def _streaming(self, call: Call) -> Post:
        post = self._own(call)
        if post.stream != "open":
            raise Refused("message_not_in_streaming_state")
        if len(str(call.get("markdown_text") or "")) > MARKDOWN:
            raise Refused("msg_too_long")
        post.text += str(call.get("markdown_text") or "")
        return post

    async def _append_stream(self, call: Call) -> Answer:
        post = self._streaming(call)
        await self._workspace.changed()
        return {"channel": post.channel, "ts": post.ts}

    async def _stop_stream(self, call: Call) -> Answer:
        post = self._streaming(call)
        post.stream = "closed"
        post.blocks = list(call.get("blocks") or [])
        self._workspace.statuses[post.channel, post.thread_ts] = str(call.get("session_status") or "active")
        await self._said(post, "posted")
        return {"channel": post.channel, "ts": post.ts, "message": post.shown()}

    async def _status(self, call: Call) -> Answer:
        if call.get("status") not in ("processing", "active", "suspended", "closed"):
            raise Refused("invalid_arguments")
        channel = self._channel(call)
        self._workspace.statuses[channel.id, str(call.get("thread_ts") or "")] = str(call["status"])
        await self._workspace.changed()
        return {}

    async def _rename(self, call: Call) -> Answer:
        if not 1 <= len(str(call.get("title") or "")) <= 200:
            raise Refused("invalid_arguments")
        self._workspace.titles[self._channel(call).id, str(call.get("thread_ts"))] = str(call["title"])
        await self._workspace.changed()
        return {}

    async def _old_status(self, call: Call) -> Answer:
        return await self._status({**call, "status": "processing" if call.get("status") else "active"})

    # -- reading ------------------------------------------------------------------------------------------

    async def _auth_test(self, call: Call) -> Answer:
        found = {
            "url": "https://plimsoll.slack.com/",
            "team": "Plimsoll Lab",
            "user": "plimsoll",
            "team_id": TEAM,
        }
        return found | {"user_id": BOT_USER, "bot_id": BOT, "app_id": APP, "is_enterprise_install": False}

    async def _info(self, call: Call) -> Answer:
        channel = self._channel(call)
        shown = {
            "id": channel.id,
            "name": channel.name,
            "is_member": True,
            "is_im": channel.id.startswith("D"),
        }
        return {"channel": shown | {"is_ext_shared": channel.shared, "topic": {"value": ""}}}

    async def _replies(self, call: Call) -> Answer:
        channel, root = self._channel(call), str(call.get("ts"))
        thread = self._workspace.thread(channel.id, root)
        if not thread:
            raise Refused("thread_not_found")
        return self._page(thread, call)

    async def _history(self, call: Call) -> Answer:
        channel = self._channel(call)
        roots = [post for post in self._workspace.posts if post.channel == channel.id and not post.thread_ts]
        return self._page(list(reversed(roots)), call)

    def _page(self, posts: list[Post], call: Call) -> Answer:
        oldest, latest = str(call.get("oldest") or "0"), str(call.get("latest") or "9999999999.999999")
        posts = [post for post in posts if oldest <= post.ts <= latest]
        start, size = int(call.get("cursor") or 0), min(int(call.get("limit") or 100), 1000)
        wanted = str(call.get("include_all_metadata")).lower() in ("1", "true")
        more = start + size < len(posts)
        shown = [post.shown(with_metadata=wanted) for post in posts[start : start + size]]
        cursor = {"next_cursor": str(start + size) if more else ""}
        return {"messages": shown, "has_more": more, "response_metadata": cursor}

    async def _open(self, call: Call) -> Answer:
        user = str(call.get("users") or "").split(",")[0]
        if user not in self._workspace.people:
            raise Refused("user_not_found")
        return {"channel": {"id": self._workspace.direct(user).id}}

    async def _user(self, call: Call) -> Answer:
        human = self._workspace.people.get(str(call.get("user")))
        if human is None:
            raise Refused("user_not_found")
        return {"user": human.profile()}

    async def _users(self, call: Call) -> Answer:
        return {
            "members": [one.profile() for one in self._workspace.people.values()],
            "response_metadata": {},
        }

    async def _groups(self, call: Call) -> Answer:
        return {"usergroups": [{"id": one, "team_id": TEAM} for one in self._workspace.groups]}

    async def _group(self, call: Call) -> Answer:
        users = self._workspace.groups.get(str(call.get("usergroup")))
        if users is None:
            raise Refused("no_such_subteam")
        return {"users": list(users)}

    async def _bot(self, call: Call) -> Answer:
        return {"bot": {"id": BOT, "app_id": APP, "user_id": BOT_USER, "name": "plimsoll"}}

    async def _view(self, call: Call) -> Answer:
        view = call.get("view") or {}
        view = json.loads(view) if isinstance(view, str) else view
        faults = block_faults(view.get("blocks") or [])
        if faults or len(view.get("blocks") or []) > VIEW_BLOCKS:
            raise Refused("invalid_arguments", faults)
        user = str(call.get("user_id") or str(call.get("trigger_id") or "").partition("|")[2])
        self._workspace.views.setdefault(user, []).append({**view, "id": f"V{len(self._workspace.views)}"})
        await self._workspace.changed()
        return {"view": self._workspace.views[user][-1]}

    async def _react(self, call: Call) -> Answer:
        post = self._workspace.find(self._channel(call).id, str(call.get("timestamp")))
        if post is None:
            raise Refused("message_not_found")
        self._workspace.reactions.setdefault((post.channel, post.ts), set()).add(str(call.get("name")))
        return {}

    async def _unreact(self, call: Call) -> Answer:
        found = self._workspace.reactions.get((self._channel(call).id, str(call.get("timestamp"))), set())
        if (name := str(call.get("name"))) not in found:
            raise Refused("no_reaction")
        found.discard(name)
        return {}

    async def _validate(self, call: Call) -> Answer:
        if faults := block_faults(list(call.get("blocks") or [])):
            raise Refused("invalid_blocks", faults)
        return {}
