// SPDX-License-Identifier: Apache-2.0
#include "actors/disk_desk.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/check.hpp"
#include "base/failpoints.hpp"
#include "base/log.hpp"
#include "metrics/metrics.hpp"

namespace cairn::actors {
namespace {

// How often what is too old is looked for, and last uses are written down.
constexpr auto kTickEvery = std::chrono::seconds(60);

}  // namespace

DiskDesk::DiskDesk(std::shared_ptr<Shared> shared, Mail& mail)
    : shared_(std::move(shared)), mail_(mail) {
  if (!shared_->disk) {
    const bool wanted = !shared_->options.disk_dir.empty();
    if (wanted && !shared_->disk_counted.exchange(true)) {
      shared_->metrics->disk_write_failures_total().add();
    }
    return;
  }
  // The first desk tells what opening the store has found, too.
  if (shared_->disk_counted.exchange(true)) counted_ = shared_->disk->stat();
  publish_gauges();
  mail_.disk_after(kTickEvery, DiskTick{});
}

void DiskDesk::handle(const DiskMessage& message) {
  std::visit([this](const auto& m) { on(m); }, message);
  if (shared_->disk) publish_gauges();
}

void DiskDesk::on(const StoreState& m) {
  if (shared_->disk) store(*m.saved, m.rate);
  // The slots are free to go before anyone is told that the disk is.
  m.saved->state = {};
  m.saved->blocks.clear();
  mail_.prefix(DiskIdle{});
}

void DiskDesk::on(const Forecast& m) {
  if (shared_->disk) shared_->disk->forecast(*m.forecast);
}

void DiskDesk::store(const engine::SavedState& saved, double rate) {
  const model::MemoryLayout& layout = shared_->pools->layout();
  std::vector<const std::byte*> blocks;
  for (const engine::KvBlockRef& block : saved.blocks) blocks.push_back(block.data());
  const std::int32_t tail = saved.position % model::kBlockTokens;
  if (tail > 0) {
    if (!copy_tail(blocks.back(), tail)) return;
    blocks.back() = tail_.data();
  }
  const std::span<const std::int32_t> tokens(*saved.tokens);
  const auto begin = Clock::now();
  const auto put = shared_->disk->put({saved.scope,
                                       tokens.first(static_cast<std::size_t>(saved.position)),
                                       saved.kind,
                                       {saved.state.data(), layout.state_bytes},
                                       blocks,
                                       rate});
  if (put && !put->existed)
    shared_->metrics->disk_store_seconds().observe(seconds_between(begin, Clock::now()));
}

// A running sequence may be writing the slots behind the state; they are none of its own.
bool DiskDesk::copy_tail(const std::byte* block, std::int32_t tokens) {
  tail_.assign(shared_->pools->layout().kv_block_bytes, std::byte{0});
  if (shared_->arena) {
    tail_block_.resize(tail_.size());
    try {
      shared_->arena->read(block, tail_block_);
    } catch (const DeviceError& e) {
      log(LogLevel::warning, std::string("a state is not written to disk: ") + e.what());
      return false;
    }
    block = tail_block_.data();
  }
  shared_->copy_kv_slots(block, tail_.data(), tokens);
  return true;
}

void DiskDesk::on(const FetchState& m) {
  const bool good = shared_->disk && fetch(*m.fetch);
  mail_.prefix(Fetched{m.fetch, good});
}

bool DiskDesk::fetch(DiskFetch& fetch) {
  if (hit_failpoint("disk.fetch")) return false;
  std::vector<std::byte*> blocks;
  const auto from = static_cast<std::size_t>(fetch.first_block);
  for (std::size_t b = from; b < fetch.blocks.size(); ++b) blocks.push_back(fetch.blocks[b].data());
  const auto begin = Clock::now();
  const Status read = shared_->disk->read(
      fetch.match.id,
      {{fetch.state.data(), shared_->pools->layout().state_bytes}, blocks, fetch.first_block});
  if (read)
    shared_->metrics->state_restore_seconds(Tier::disk)
        .observe(seconds_between(begin, Clock::now()));
  return read.ok();
}

void DiskDesk::on(const PurgeDisk& m) {
  if (!shared_->disk) return;
  const engine::DiskStat had = shared_->disk->stat();
  DroppedCache dropped = m.so_far;
  dropped.disk_states = static_cast<std::int64_t>(had.states);
  dropped.disk_bytes = had.bytes;
  if (const Status done = shared_->disk->purge(); done) {
    if (m.reply) m.reply->set_value(dropped);
  } else {
    Error error{ErrorCode::unavailable,
                "the disk cache could not be emptied: " + done.error().message, ""};
    log(LogLevel::error, error.message);
    if (m.reply) m.reply->set_value(std::move(error));
  }
}

void DiskDesk::on(const StoreLearned& m) {
  const bool kept = shared_->disk && shared_->disk->save_blob(kLearnedBlob, *m.learned).ok();
  if (m.reply) m.reply->set_value(kept);
}

void DiskDesk::on(const DiskTick&) {
  if (!shared_->disk) return;
  shared_->disk->expire();
  shared_->disk->flush();
  mail_.disk_after(kTickEvery, DiskTick{});
}

void DiskDesk::publish_gauges() {
  const engine::DiskStat now = shared_->disk->stat();
  const Metrics& metrics = *shared_->metrics;
  const model::MemoryLayout& layout = shared_->pools->layout();
  for (int k = 0; k < engine::kStateKinds; ++k) {
    metrics.state_checkpoints(static_cast<CheckpointKind>(k), Tier::disk)
        .set(static_cast<double>(now.states_by_kind[k]));
  }
  const auto states = static_cast<double>(now.states) * static_cast<double>(layout.state_bytes);
  metrics.cache_bytes(CacheObject::state, Tier::disk).set(states);
  metrics.cache_bytes(CacheObject::kv, Tier::disk)
      .set(std::max(0.0, static_cast<double>(now.bytes) - states));
  const auto refused = [&](RefusedFile reason, std::uint64_t after, std::uint64_t before) {
    metrics.disk_refused_files_total(reason).add(static_cast<double>(after - before));
  };
  refused(RefusedFile::corrupt, now.refused_corrupt, counted_.refused_corrupt);
  refused(RefusedFile::foreign, now.refused_foreign, counted_.refused_foreign);
  refused(RefusedFile::missing, now.refused_missing, counted_.refused_missing);
  metrics.disk_write_failures_total().add(
      static_cast<double>(now.write_failures - counted_.write_failures));
  counted_ = now;
}

}  // namespace cairn::actors
