"use strict";
// One person plays all roles. Texts come escaped from the server; everything else is set as text.
const state = { user: "U0ALICE", channel: "C0SUPPORT", thread: "", version: -1, last: null };
const $ = (id) => document.getElementById(id);

function make(tag, text, options = {}) {
  const node = document.createElement(tag);
  if (text) node.textContent = text;
  Object.assign(node, options);
  return node;
}

async function act(body) {
  const answer = await fetch("/page/act", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ user: state.user, channel: state.channel, ...body }),
  });
  if (!answer.ok) $("where").textContent = await answer.text();
}

async function audit(channel, thread) {
  $("log").hidden = false;
  $("log").textContent = "Reading the log…";
  const answer = await fetch(`/audit?channel=${channel}&thread=${thread}`);
  $("log").textContent = await answer.text();
  $("log").scrollIntoView();
}

function showRoles(roles) {
  const buttons = Object.entries(roles).map(([id, label]) =>
    make("button", label, {
      className: id === state.user ? "on" : "",
      onclick: () => { state.user = id; state.version = -1; $("log").hidden = true; refresh(); },
    }));
  $("roles").replaceChildren(...buttons);
}

function showChannels(channels) {
  if (!channels.some((one) => one.id === state.channel) && channels.length) state.channel = channels[0].id;
  const buttons = channels.map((one) =>
    make("button", (one.id.startsWith("D") ? "" : "# ") + one.name, {
      className: one.id === state.channel ? "on" : "",
      onclick: () => { state.channel = one.id; state.thread = ""; show(state.last); },
    }));
  $("channels").replaceChildren(...buttons);
}

function showPost(post, statuses) {
  const node = make("article", "", { className: "post" });
  node.classList.toggle("reply", Boolean(post.thread));
  node.classList.toggle("bot", post.bot);
  node.classList.toggle("whisper", Boolean(post.whisper));
  const who = make("div", post.name + (post.whisper ? " (only you see this)" : ""), { className: "who" });
  who.append(make("time", new Date(parseFloat(post.ts) * 1000).toLocaleTimeString()));
  const body = make("div");
  body.innerHTML = post.html;
  node.append(who, body);
  for (const one of post.buttons) {
    node.append(make("button", one.text, {
      className: one.style,
      onclick: () => act({ what: "click", ts: post.ts, action: one.action }),
    }));
  }
  if (!post.thread && !post.whisper) node.append(tools(post, statuses));
  return node;
}

function tools(post, statuses) {
  const line = make("div");
  line.append(make("button", "Reply in thread", { className: "link", onclick: () => { state.thread = post.ts; show(state.last); } }));
  line.append(make("button", "Audit this thread", { className: "link", onclick: () => audit(post.channel, post.ts) }));
  const status = statuses[`${post.channel}/${post.ts}`];
  if (status === "processing") {
    line.append(make("button", "■ Stop", { className: "link", onclick: () => act({ what: "stop", thread: post.ts }) }));
  }
  if (status) line.append(make("small", `session: ${status}`));
  return line;
}

function inThreads(posts) {
  const roots = posts.filter((one) => !one.thread);
  return roots.flatMap((root) => [root, ...posts.filter((one) => one.thread === root.ts)]);
}

function show(found) {
  if (!found) return;
  $("notice").textContent = "A local workspace on this machine. "
    + (found.scripted ? "The model is scripted: it plays written turns and does not think." : "The model is the real one.");
  showRoles(found.roles);
  showChannels(found.channels);
  const posts = inThreads(found.posts.filter((one) => one.channel === state.channel));
  $("posts").replaceChildren(...posts.map((post) => showPost(post, found.statuses)));
  $("chips").replaceChildren(...found.suggestions.map((text) =>
    make("button", text, { onclick: () => act({ what: "say", text: `@plimsoll ${text}`, channel: "C0SUPPORT" }) })));
  const role = found.roles[state.user].split(/[ ,]/)[0];
  $("where").textContent = state.thread ? `${role} replies in the thread` : `${role} writes to the channel; @plimsoll mentions the agent`;
  $("text").placeholder = state.thread ? "Reply… (stop ends a run)" : "@plimsoll …";
}

async function refresh() {
  const user = state.user;
  const answer = await fetch(`/page/state?user=${user}&after=${state.version}`);
  const found = await answer.json();
  if (user !== state.user) return;
  state.version = found.version;
  state.last = found;
  show(found);
}

$("form").onsubmit = (event) => {
  event.preventDefault();
  const text = $("text").value;
  $("text").value = "";
  act({ what: "say", text, thread: state.thread });
};

(async function follow() {
  for (;;) {
    try { await refresh(); } catch { await new Promise((done) => setTimeout(done, 1000)); }
  }
})();
