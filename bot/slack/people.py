"""Who somebody is, asked of Slack when it matters."""

from __future__ import annotations

import time
from typing import Any

from slack_sdk.web.async_client import AsyncWebClient

from bot.core.policy import ApproverRule
from bot.core.words import Person
from bot.slack.calls import calling

GROUP_AGE_S = 5.0
"""A group's members are asked anew after this long: one click asks once, the next click asks again."""


class SlackPeople:
    """The People port."""

    def __init__(self, client: AsyncWebClient, team: str) -> None:
        self._client = client
        self._team = team
        self._groups: dict[str, tuple[float, list[str]]] = {}

    async def lookup(self, user: str) -> Person:
        """Always fresh. Raises `OutsideFailed` when Slack does not say."""
        async with calling("users.info"):
            answer = await self._client.users_info(user=user)
        found: dict[str, Any] = answer["user"]
        team = str(found.get("team_id") or "")
        guest = bool(found.get("is_restricted") or found.get("is_ultra_restricted"))
        external = bool(found.get("is_stranger")) or team != self._team
        robot = bool(found.get("is_bot") or found.get("is_workflow_bot"))
        member = not (guest or external or robot or found.get("deleted"))
        name = str(found.get("real_name") or found.get("name") or user)
        return Person(user, team, member, guest, robot, external, name)

    async def approvers(self, rule: ApproverRule) -> frozenset[str]:
        """Named people and members of named groups, as far as they are full members here."""
        named = set(rule.people)
        for group in rule.groups:
            named.update(await self._group(group))
        return frozenset([user for user in sorted(named) if (await self.lookup(user)).is_member])

    async def _group(self, group: str) -> list[str]:
        at, users = self._groups.get(group, (0.0, []))
        if time.monotonic() - at > GROUP_AGE_S or not users:
            async with calling("usergroups.users.list"):
                answer = await self._client.usergroups_users_list(usergroup=group)
            users = [str(user) for user in answer["users"]]
            self._groups[group] = (time.monotonic(), users)
        return users
