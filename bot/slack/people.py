"""Who somebody is, asked of Slack when it matters."""

from __future__ import annotations

import asyncio
import time
from itertools import compress
from typing import Any

from slack_sdk.web.async_client import AsyncWebClient

from bot.core.errors import OutsideFailed
from bot.core.policy import ApproverRule
from bot.core.words import Person
from bot.slack.calls import SaidNo, patiently

GROUP_AGE_S = 5.0
"""A group's members are asked anew after this long: one click asks once, the next click asks again."""
MEMBER_AGE_S = 30.0
"""Whether a named approver still is a member; who clicks is looked up fresh whatever this says."""
AGAIN_S = 0.3
"""Before the second try at a question whose answer was lost."""
AT_ONCE = 5
"""Look-ups under way together."""
_NOBODY = frozenset({"user_not_found", "users_not_found", "no_such_subteam", "user_not_visible"})


class SlackPeople:
    """The People port."""

    def __init__(self, client: AsyncWebClient, team: str) -> None:
        self._client = client
        self._team = team
        self._members: dict[str, tuple[float, bool]] = {}
        self._groups: dict[str, tuple[float, list[str]]] = {}

    async def lookup(self, user: str) -> Person:
        """Always fresh, asked twice when the first answer is lost. Raises `OutsideFailed` when Slack does not say."""
        try:
            answer = await self._info(user)
        except OutsideFailed as failure:
            if not failure.retryable:
                raise
            await asyncio.sleep(AGAIN_S)
            answer = await self._info(user)
        found: dict[str, Any] = answer["user"]
        team = str(found.get("team_id") or "")
        guest = bool(found.get("is_restricted") or found.get("is_ultra_restricted"))
        external = bool(found.get("is_stranger")) or team != self._team
        robot = bool(found.get("is_bot") or found.get("is_workflow_bot"))
        member = not (guest or external or robot or found.get("deleted"))
        name = str(found.get("real_name") or found.get("name") or user)
        return Person(user, team, member, guest, robot, external, name)

    async def _info(self, user: str) -> Any:
        return await patiently("users.info", lambda: self._client.users_info(user=user))

    async def approvers(self, rule: ApproverRule) -> frozenset[str]:
        """Named people and members of named groups, as far as they are full members here.

        An id that Slack does not know is left out, with no harm to the others. Raises `OutsideFailed` when
        Slack does not answer.
        """
        named = set(rule.people)
        for group in rule.groups:
            named.update(await self._group(group))
        bound = asyncio.Semaphore(AT_ONCE)

        async def member(user: str) -> bool:
            async with bound:
                return await self._is_member(user)

        users = sorted(named)
        return frozenset(compress(users, await asyncio.gather(*(member(user) for user in users))))

    async def _is_member(self, user: str) -> bool:
        at, known = self._members.get(user, (0.0, False))
        if time.monotonic() - at > MEMBER_AGE_S:
            try:
                known = (await self.lookup(user)).is_member
            except SaidNo as refusal:
                if refusal.code not in _NOBODY:
                    raise
                known = False
            self._members[user] = (time.monotonic(), known)
        return known

    async def _group(self, group: str) -> list[str]:
        at, users = self._groups.get(group, (0.0, []))
        if time.monotonic() - at > GROUP_AGE_S:
            try:
                answer = await patiently(
                    "usergroups.users.list", lambda: self._client.usergroups_users_list(usergroup=group)
                )
                users = [str(user) for user in answer["users"]]
            except SaidNo as refusal:
                if refusal.code not in _NOBODY:
                    raise
                users = []
            self._groups[group] = (time.monotonic(), users)
        return users
