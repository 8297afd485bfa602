"""The running product: /metrics over HTTP, spans over OTLP, and a reference followed from the command line."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from bot.telemetry.metrics import CONTENT_TYPE
from bot.telemetry.spans import trace_of
from tests.live import Live, live
from tests.telemetry.scrape import Scraped, scraped

pytestmark = pytest.mark.wire
QUESTION = "The pallet arrived crushed, three units unusable, order 4921. What do we owe them?"


async def serving(world: Live, **env: str) -> tuple[Any, str]:
    """One `plimsoll serve` and its administrators' address, from the line it prints first."""
    process = await world.spawn("serve", **env)
    said = b""
    while b"ready" not in said:
        line = await process.stdout.readline()  # type: ignore[union-attr]  # spawned with a pipe
        assert line, await world.ended(process)
        said += line
    await world.slack.delivering.connected()
    found = re.search(r"admin (http://\S+)", said.decode())
    assert found
    return process, found[1]


async def scrape(address: str) -> Scraped:
    """As Prometheus would."""
    async with ClientSession() as session, session.get(f"{address}/metrics") as response:
        assert response.status == 200 and response.headers["Content-Type"] == CONTENT_TYPE
        return scraped(await response.text())


async def test_metrics_of_a_live_process_agree_with_its_log_and_know_who_waits_after_a_restart(tmp_path: Path) -> None:
    """The second process never saw the question, and knows of the open card."""
    async with live(tmp_path) as world:
        first, address = await serving(world)
        thread = await world.ask(QUESTION)
        card = await world.card(thread)
        asked = await scrape(address)
        await world.stop(first)

        _, address = await serving(world)
        restarted = await scrape(address)
        await world.slack.click("U0CAROL", card.ts, "Approve")
        await world.answer(thread)
        done = await scrape(address)
        _, exported = await world.command("audit", "export", f"T0PLIMSOLL/C0SUPPORT/{thread}")

    lines = [json.loads(line) for line in exported.splitlines()]
    ended = next(one["payload"] for one in lines if one["type"] == "RunFinished")
    verdicts = [one["payload"]["verdict"] for one in lines if one["type"] == "GateDecided"]
    assert [one.value("plimsoll_approvals_waiting") for one in (asked, restarted, done)] == [1.0, 1.0, 0.0]
    assert asked.value("plimsoll_gate_verdicts_total", verdict="needs_approval") == verdicts.count("needs_approval")
    assert restarted.value("plimsoll_gate_verdicts_total", verdict="needs_approval") == 0
    assert done.value("plimsoll_runs_finished_total", outcome="answered", stop_reason="end_turn") == 1
    assert done.value("plimsoll_run_cost_usd_sum") == pytest.approx(ended["cost_usd"])
    assert done.value("plimsoll_run_cost_usd_recent", quantile="0.99") == pytest.approx(ended["cost_usd"])
    read = sum(ended["usage"][name] for name in ("input_tokens", "cache_read_tokens", "cache_write_tokens"))
    share = ended["usage"]["cache_read_tokens"] / read
    assert done.value("plimsoll_run_cache_share_sum") == pytest.approx(share)


async def test_a_reference_leads_from_the_answer_to_its_place_in_the_log(tmp_path: Path) -> None:
    """A person reads it out; an operator types it, and gets thread and entry."""
    async with live(tmp_path) as world:
        await world.start()
        thread = await world.ask(QUESTION.replace("4921", "none"))
        found = re.search(r"ref-[0-9a-f]+", await world.answer(thread))
        assert found
        code, said = await world.command("audit", "search", found[0])
        missing = await world.command("audit", "search", "ref-0000")
        _, exported = await world.command("audit", "export", f"T0PLIMSOLL/C0SUPPORT/{thread}")
        noted = [json.loads(line) for line in (tmp_path / "errors.log").read_text().splitlines()]

    place = re.match(r"T0PLIMSOLL/C0SUPPORT/(\S+)  seq (\d+)  \S+  RunFinished  answered / end_turn", said)
    assert code == 0 and place and place[1] == thread
    entry = json.loads(exported.splitlines()[int(place[2]) - 1])
    assert entry["payload"]["reference"] == found[0]
    note = next(one for one in noted if one.get("reference") == found[0])
    assert (note["thread"], note["seq"]) == (f"T0PLIMSOLL/C0SUPPORT/{thread}", int(place[2]))
    assert missing[0] == 1 and "holds ref-0000" in missing[1]


class Collector:
    """What a collector was sent: spans by name, attributes, and the resource."""

    def __init__(self) -> None:
        self.spans: list[tuple[str, bytes, dict[str, Any]]] = []
        self.services: set[str] = set()

    async def take(self, request: web.Request) -> web.Response:
        """One export."""
        sent = ExportTraceServiceRequest.FromString(await request.read())
        for resource in sent.resource_spans:
            self.services.add(_values(resource.resource.attributes)["service.name"])
            for span in (one for scope in resource.scope_spans for one in scope.spans):
                self.spans.append((span.name, span.trace_id, _values(span.attributes)))
        return web.Response()


def _values(pairs: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in pairs}


@contextlib.asynccontextmanager
async def collecting() -> AsyncIterator[tuple[Collector, str]]:
    """A collector on loopback."""
    collector, app = Collector(), web.Application()
    app.router.add_post("/v1/traces", collector.take)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield collector, site.name
    finally:
        await runner.cleanup()


async def test_spans_reach_a_collector_and_the_last_ones_are_sent_at_the_end(tmp_path: Path) -> None:
    """Parked in one process, finished in the next: one trace, of the run's own id."""
    async with collecting() as (collector, endpoint), live(tmp_path) as world:
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_BSP_SCHEDULE_DELAY": "60000"}
        first, _ = await serving(world, **env)
        thread = await world.ask(QUESTION)
        card = await world.card(thread)
        await world.stop(first)
        second, _ = await serving(world, **env)
        await world.slack.click("U0CAROL", card.ts, "Approve")
        answer = await world.answer(thread)
        await world.stop(second)

    roots = [found for name, _, found in collector.spans if name == "invoke_agent plimsoll"]
    ran = {name for name, _, _ in collector.spans}
    conversations = {found["gen_ai.conversation.id"] for _, _, found in collector.spans}
    runs = {found["plimsoll.run.id"] for found in roots}
    assert collector.services == {"plimsoll"} and conversations == {f"T0PLIMSOLL/C0SUPPORT/{thread}"}
    assert {"turn", "execute_tool issue_credit"} < ran and any(name.startswith("chat ") for name in ran)
    assert [one["plimsoll.outcome"] for one in roots] == ["waiting", "answered"]
    assert str(roots[-1]["plimsoll.reference"]) in answer
    assert {trace for _, trace, _ in collector.spans} == {trace_of(str(run)).to_bytes(16, "big") for run in runs}
    assert len(runs) == 1 and QUESTION[:20] not in repr(collector.spans)
