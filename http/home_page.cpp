// SPDX-License-Identifier: Apache-2.0
#include "http/routes.hpp"

namespace cairn::http {

// One file, no requests to anywhere else; refreshes itself from /status. Values are set as text,
// never as HTML.
std::string_view home_page() {
  return R"html(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>cairn</title>
<style>
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; margin: 0 0 .2rem; }
h2 { font-size: 1rem; margin: 1.6rem 0 .3rem; }
table { border-collapse: collapse; width: 100%; }
td { padding: .15rem .5rem .15rem 0; vertical-align: top; }
td:first-child { width: 16rem; opacity: .7; }
.bar { height: .7rem; border: 1px solid currentColor; border-radius: .2rem; display: flex; overflow: hidden; }
.bar i { display: block; background: #3a7; }
.bar i + i, #disk { background: #47b; }
#diskbar { margin-top: .3rem; }
code { font-size: .9em; }
#state { font-weight: 600; }
</style>
</head>
<body>
<h1>cairn</h1>
<div><span id="state">connecting</span></div>
<h2>Model</h2><table id="model"></table>
<h2>Now</h2><table id="now"></table>
<h2>Cache</h2>
<div class="bar" title="KV, states"><i id="kv"></i><i id="states"></i></div>
<div class="bar" title="disk: KV and states" id="diskbar"><i id="disk"></i></div>
<table id="cache"></table>
<h2>Limits</h2><table id="limits"></table>
<p><a href="/metrics">/metrics</a> &middot; <a href="/health">/health</a> &middot; <a href="/status">/status</a> &middot;
<a href="/v1/models">/v1/models</a> &middot; <a href="/debug/plan">/debug/plan</a> &middot; <code>POST /v1/chat/completions</code></p>
<script>
const by = id => document.getElementById(id);
function table(id, rows) {
  const t = by(id);
  t.textContent = "";
  for (const [name, value] of rows) {
    const tr = t.insertRow();
    tr.insertCell().textContent = name;
    tr.insertCell().textContent = value;
  }
}
function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let u = 0;
  while (n >= 1024 && u < 4) { n /= 1024; u++; }
  return (u ? n.toFixed(1) : n) + " " + units[u];
}
let last = null;
function rate(now) {
  if (!last || !now.tokens) return "-";
  const seconds = (Date.now() - last.at) / 1000;
  return ((now.tokens.generated - last.generated) / seconds).toFixed(1) + " tokens/s";
}
async function refresh() {
  try {
    const s = await (await fetch("/status")).json();
    by("state").textContent = s.ready ? "ready" : "not ready: " + s.reason;
    const m = s.model, c = s.cache, t = s.tokens || {};
    table("model", [["name", m.name], ["shape", m.shape], ["device", m.device + " " + m.isa + (m.threads ? ", " + m.threads + " threads" : "")],
      ["weights, KV", m.weights + ", " + m.kv], ["context", m.context_length + " tokens"], ["version", s.version]]);
    table("now", [["requests running", s.requests.running], ["requests waiting", s.requests.waiting], ["generating", rate(s)],
      ["tokens read, written", (t.prompt || 0) + ", " + (t.generated || 0)], ["up", s.uptime_seconds + " s"]]);
    const share = t.looked_up ? (100 * t.cached / t.looked_up).toFixed(1) + " %" : "-";
    const p = s.certificate || {}, number = n => Number((n || 0).toPrecision(3));
    table("cache", [["policy, shared by", c.policy + ", " + (c.scope == "key" ? "one key" : "all")], ["KV, states, of", bytes(c.kv_bytes) + ", " + bytes(c.state_bytes) + ", " + bytes(c.bytes_limit)],
      ["states kept", c.cached_states], ["prompt tokens from the cache", share], ["plan", "no. " + c.plan_epoch],
      ["price", number(c.price * 1048576) + " tokens a request and MiB"],
      ["predicted recompute", number(p.expected_recompute_tokens) + " tokens a request"],
      ["at best, of what exists, of all places seen", number(p.bound_tokens) + ", " + number(p.ideal_tokens)],
      ["regret, gap", number(p.regret_tokens) + " tokens, " + number(100 * p.gap_ratio) + " %"],
      ["disk", c.disk_bytes_limit ? c.disk_states + " states, " + bytes(c.disk_bytes) + " of " + bytes(c.disk_bytes_limit) : "none"]]);
    by("diskbar").style.display = c.disk_bytes_limit ? "" : "none";
    by("disk").style.width = (100 * c.disk_bytes / (c.disk_bytes_limit || 1)) + "%";
    by("kv").style.width = (100 * c.kv_bytes / (c.bytes_limit || 1)) + "%";
    by("states").style.width = (100 * c.state_bytes / (c.bytes_limit || 1)) + "%";
    table("limits", Object.entries(s.limits));
    if (s.tokens) last = { at: Date.now(), generated: s.tokens.generated };
  } catch (e) {
    by("state").textContent = "no answer from the server";
  }
  setTimeout(refresh, 2000);
}
refresh();
</script>
</body>
</html>
)html";
}

}  // namespace cairn::http
