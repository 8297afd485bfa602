"""What is sent to a model, and what it may use at the very most."""

from __future__ import annotations

from dataclasses import dataclass, replace

from bot.core import caps as limits
from bot.core import events as e
from bot.core.actions import AskModel, Finish
from bot.core.gate import ceiling_for
from bot.core.replies import text_of
from bot.core.state import Run, Session
from bot.engine.desk import Desk
from bot.engine.ports import ModelRequest
from bot.engine.writer import Writer

MOST_OUTPUT_TOKENS = 128_000
"""The largest reply that any current model gives (model.md section 2.4)."""


@dataclass(frozen=True)
class Planned:
    """A request with the room that was reserved for it."""

    request: ModelRequest
    room: limits.Room
    size: int
    """Bytes of system, tools and messages as JSON."""

    def reserved(self, turn: int, *, branch: int = 0, lost: e.Usage, lost_usd: float) -> e.ModelRequested:
        """As the log keeps it, before the attempt is made; `lost`: what attempts before it used up for nothing."""
        return e.ModelRequested(
            turn=turn,
            role=self.request.role,
            branch=branch,
            reserved_tokens=self.room.tokens,
            reserved_usd=self.room.usd,
            model=self.request.model,
            max_output_tokens=self.request.max_output_tokens,
            request_bytes=self.size,
            lost=lost,
            lost_usd=lost_usd,
        )


def planned(
    desk: Desk, writer: Writer, ask: AskModel, model: str, *, seen: Session | None = None, share: float = 1.0
) -> Planned | Finish:
    """The request, its output cut to what is left of that share of the budgets; a `Finish` when it would be passed.

    `seen`: the session that it is reckoned from, where it is not the writer's.
    """
    session = seen or writer.session
    run = session.run
    assert run is not None
    request = _request(desk, writer, session, ask, model)
    size = _size(desk, session, request)
    room = _room(desk, run, ask, request, size, share)
    if isinstance(room, Finish):
        return room
    if run.cut and ask.role == "agent" and room.max_output_tokens <= run.output_limit:
        # More room was wanted for a reply that was cut off, and there is none.
        return Finish("partial", "max_tokens", text_of(run.reply.content) if run.reply else "")
    return Planned(replace(request, max_output_tokens=room.max_output_tokens), room, size)


def _request(desk: Desk, writer: Writer, session: Session, ask: AskModel, model: str) -> ModelRequest:
    own = ask.role != "agent"
    conversation = ask.messages or writer.conversation(model).of(session)
    wanted = ask.max_output_tokens or desk.policy.model.max_output_tokens
    longer = session.run is not None and session.run.cut and not own
    return ModelRequest(
        model=model,
        system=ask.system or desk.prompt,
        tools=() if own else desk.toolbox.specs(session.thread.channel),
        messages=conversation,
        max_output_tokens=min(wanted * 2, MOST_OUTPUT_TOKENS) if longer else wanted,
        conversation=str(session.thread),
        role=ask.role,
        previous_id="" if own else session.last_reply,
        wait_likely=not own and _wait_likely(desk, session),
    )


def _wait_likely(desk: Desk, session: Session) -> bool:
    """Whether some offered tool would need a person as things are now."""
    ceiling = ceiling_for(session.label, desk.policy)
    return any(one.always_ask or one.authority > ceiling for one in desk.toolbox.specs(session.thread.channel))


def _size(desk: Desk, session: Session, request: ModelRequest) -> int:
    tools = desk.toolbox.size(session.thread.channel) if request.tools else 0
    words = sum(message.size for message in request.messages)
    return tools + len(request.system.encode()) + words


def _room(desk: Desk, run: Run, ask: AskModel, request: ModelRequest, size: int, share: float) -> limits.Room | Finish:
    model = request.model

    def usd_of(input_tokens: int, output_tokens: int) -> float:
        usage = e.Usage(cache_write_tokens=input_tokens, output_tokens=output_tokens)
        return desk.model.price(model, usage) or 0.0

    if desk.model.price(model, e.Usage(input_tokens=1)) is None:
        detail = f"No price is known for the model {model}, so no budget could hold."
        return Finish("failed", "model_error", detail=detail)
    caps = desk.policy.caps
    # What the service counted last is known of the agent's own conversation alone, and of that model.
    same = ask.role == "agent" and model == run.asked_model
    room = limits.room_for(
        run,
        caps.model_copy(update={"tokens": int(share * caps.tokens), "usd": share * caps.usd}),
        worst_input=limits.input_at_most(run, size) if same else size + limits.UNREPORTED_TOKENS,
        max_output=request.max_output_tokens,
        usd_of=usd_of,
    )
    return Finish(room.outcome, room.stop_reason) if isinstance(room, limits.Stop) else room
