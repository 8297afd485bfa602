"""One thread, until it rests.

A strategy proposes, the gate disposes, the engine performs, the log remembers.
"""

from __future__ import annotations

from typing import assert_never

from bot.core.strategy import AskBranches, AskModel, Finish, Note, RunTools, Wait, next_action
from bot.engine.branching import investigate
from bot.engine.desk import Desk
from bot.engine.dispatch import dispatch
from bot.engine.finish import finish
from bot.engine.intake import absorb
from bot.engine.reason import reason
from bot.engine.writer import Writer


async def advance(desk: Desk, writer: Writer) -> None:
    """Take in, decide, act, write down; returns when only a person, a timer or a message can go on."""
    while True:
        taken = writer.news and await absorb(desk, writer)
        action = next_action(
            desk.strategy,
            writer.session,
            desk.policy.caps,
            desk.clock.now(),
            fold_at_tokens=desk.policy.loop.compact_at_tokens,
        )
        match action:
            case Wait():
                if not taken:
                    await writer.settle()
                    return
                continue
            case Note():
                writer.stage(*action.events)
                continue
            case AskBranches():
                await investigate(desk, writer, action.numbers)
                continue
            case AskModel():
                end = await reason(desk, writer, action)
            case RunTools():
                end = await dispatch(desk, writer, action.calls)
            case Finish():
                end = action
            case _ as never:
                assert_never(never)
        if end is not None:
            await finish(desk, writer, end)
