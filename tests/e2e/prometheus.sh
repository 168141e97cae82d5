#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# promtool's check of the page, and a real Prometheus that scrapes it.  prometheus.sh URL WORK_DIR
set -euo pipefail
url=$1 work=$2
fail() { echo "FAILED: $*" >&2; exit 1; }
command -v promtool >/dev/null || fail "promtool is not installed (package prometheus)"
command -v prometheus >/dev/null || fail "prometheus is not installed (package prometheus)"

curl -sf -d '{"prompt":"Once","max_tokens":3}' "$url/v1/completions" >/dev/null
curl -sf "$url/metrics" | promtool check metrics || fail "promtool finds fault with the page"
head=$(curl -sfI "$url/metrics")
grep -qi '^content-type: text/plain; version=0.0.4' <<<"$head" || fail "content type"

target=${url#http://}
port=$((20000 + RANDOM % 20000))
cat >"$work/prometheus.yml" <<YML
global: {scrape_interval: 1s}
scrape_configs: [{job_name: cairn, static_configs: [{targets: ['$target']}]}]
YML
rm -rf "$work/data"
prometheus --config.file="$work/prometheus.yml" --storage.tsdb.path="$work/data" \
  --web.listen-address="127.0.0.1:$port" >"$work/prometheus.log" 2>&1 &
scraper=$!
trap 'kill $scraper 2>/dev/null || true; wait $scraper 2>/dev/null || true' EXIT
ask() { curl -sf -G --data-urlencode "query=$1" "http://127.0.0.1:$port/api/v1/query" 2>/dev/null || true; }
for _ in $(seq 60); do
  ask 'up{job="cairn"}' | grep -q '"1"\]' && break
  sleep 0.5
done
ask 'up{job="cairn"}' | grep -q '"1"\]' || fail "Prometheus could not scrape: $(tail -3 "$work/prometheus.log")"
ask 'sum(cairn_requests_total) > 0' | grep -q '"value"' || fail "cairn_requests_total did not arrive"
ask 'cairn_build_info' | grep -q '"value"' || fail "cairn_build_info did not arrive"
