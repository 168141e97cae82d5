// SPDX-License-Identifier: Apache-2.0
#include "actors/runtime.hpp"

#include <caf/all.hpp>

#include <array>
#include <exception>
#include <functional>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "actors/checkpoint_desk.hpp"
#include "actors/disk_desk.hpp"
#include "actors/executor_desk.hpp"
#include "actors/planner_desk.hpp"
#include "actors/prefix_desk.hpp"
#include "actors/router.hpp"
#include "actors/text_worker.hpp"
#include "base/check.hpp"
#include "base/log.hpp"
#include "metrics/metrics.hpp"

namespace cairn::actors {

/// One CAF message type per actor: its closed variant.
template <class M>
struct Letter {
  M body;
};
using RouterLetter = Letter<RouterMessage>;
using PrefixLetter = Letter<PrefixMessage>;
using PlannerLetter = Letter<PlannerMessage>;
using ExecutorLetter = Letter<ExecutorMessage>;
using CheckpointLetter = Letter<CheckpointMessage>;
using DiskLetter = Letter<DiskMessage>;
using WorkerLetter = Letter<WorkerMessage>;
struct Die {};
struct Respawn {};

}  // namespace cairn::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(cairn::actors::RouterLetter)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(cairn::actors::PrefixLetter)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(cairn::actors::PlannerLetter)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(cairn::actors::ExecutorLetter)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(cairn::actors::CheckpointLetter)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(cairn::actors::DiskLetter)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(cairn::actors::WorkerLetter)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(cairn::actors::Die)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(cairn::actors::Respawn)

namespace cairn::actors {
namespace {

constexpr auto kExecutorRestartGap = std::chrono::seconds(60);

ActorName metric_name(Role role) {
  switch (role) {
    case Role::router:
      return ActorName::router;
    case Role::prefix:
      return ActorName::prefix;
    case Role::planner:
      return ActorName::planner;
    case Role::executor:
      return ActorName::executor;
    case Role::checkpoints:
      return ActorName::checkpoints;
    case Role::worker:
      return ActorName::text;
    case Role::disk:
      return ActorName::disk;
  }
  return ActorName::text;
}

template <class Desk>
struct DeskState {
  std::unique_ptr<Desk> desk;
};

// Receives, calls the desk, counts. A desk that throws ends its actor; the text goes to the
// supervisor's log.
template <class Desk, class Message>
caf::behavior desk_behavior(caf::stateful_actor<DeskState<Desk>>* self,
                            std::shared_ptr<Shared> shared, Mail* mail, Role role) {
  self->set_exception_handler(
      [role, shared](caf::scheduled_actor*, std::exception_ptr& e) -> caf::error {
        try {
          std::rethrow_exception(e);
        } catch (const std::exception& problem) {
          if (dynamic_cast<const DeviceLost*>(&problem) != nullptr) {
            shared->device_loss.set(problem.what());
          }
          log(LogLevel::error, std::string(to_string(role)) + " actor failed: " + problem.what());
          return caf::make_error(caf::sec::runtime_error, std::string(problem.what()));
        } catch (...) {
          return caf::make_error(caf::sec::runtime_error, std::string("unknown exception"));
        }
      });
  self->state.desk = std::make_unique<Desk>(shared, *mail);
  const auto handled = shared->metrics->actor_messages_handled_total(metric_name(role));
  return {
      [self, handled](const Letter<Message>& letter) {
        handled.add();
        self->state.desk->handle(letter.body);
      },
      [](const Die&) { throw InvariantError("told to die"); },
  };
}

}  // namespace

struct Runtime::Impl {
  Impl(std::shared_ptr<Shared> s, Runtime* r);

  struct Config : caf::actor_system_config {
    Config() {
      set("scheduler.policy", caf::atom("sharing"));
      set("scheduler.max-threads", static_cast<std::size_t>(3));
    }
  };

  template <class Desk, class Message, caf::spawn_options Options>
  caf::actor spawn_desk(Role role) {
    return system.spawn<Options>(desk_behavior<Desk, Message>, shared, static_cast<Mail*>(runtime),
                                 role);
  }
  caf::actor spawn(Role role, int index);
  void start(Role role, int index);
  std::string name_of(const caf::actor_addr& address, Role& role, int& index);

  caf::actor target(Role role, int index = 0) const {
    std::lock_guard lock(mutex);
    return handles[static_cast<std::size_t>(role)][static_cast<std::size_t>(index)];
  }
  template <class Message>
  void send(Role role, int index, Message message) {
    shared->metrics->actor_messages_sent_total(metric_name(role)).add();
    if (const caf::actor to = target(role, index)) {
      caf::anon_send(to, Letter<Message>{std::move(message)});
    }
  }
  template <class Message>
  void send_after(Role role, std::chrono::milliseconds delay, Message message) {
    shared->metrics->actor_messages_sent_total(metric_name(role)).add();
    if (const caf::actor to = target(role)) {
      caf::delayed_anon_send(to, delay, Letter<Message>{std::move(message)});
    }
  }
  caf::behavior supervise(caf::event_based_actor* self, const std::vector<caf::actor>& first);
  void on_down(caf::event_based_actor* self, const caf::down_msg& down);
  void lose_router(caf::event_based_actor* self, const std::string& why);
  void watch(caf::event_based_actor* self, Role role, int index);
  void revive_executor(caf::event_based_actor* self);

  std::shared_ptr<Shared> shared;
  Runtime* runtime;
  Config config;
  mutable std::mutex mutex;
  std::shared_mutex door;                               // shared while a ticket is opened and sent
  std::array<std::vector<caf::actor>, kRoles> handles;  // by role, then by index
  caf::actor supervisor;
  Clock::time_point executor_revived;  // last restart; the supervisor's
  bool stopping = false;               // under mutex: deaths are exits now
  // Last: its destructor waits for actors that still send through what is above.
  caf::actor_system system;
};

Runtime::Impl::Impl(std::shared_ptr<Shared> s, Runtime* r)
    : shared(std::move(s)), runtime(r), system(config) {
  for (int role = 0; role < kRoles; ++role) {
    const int count =
        static_cast<Role>(role) == Role::worker ? 2 * shared->options.text_workers : 1;
    handles[static_cast<std::size_t>(role)].resize(static_cast<std::size_t>(count));
  }
}

caf::actor Runtime::Impl::spawn(Role role, int index) {
  switch (role) {
    case Role::router:
      return spawn_desk<Router, RouterMessage, caf::no_spawn_options>(role);
    case Role::prefix:
      return spawn_desk<PrefixDesk, PrefixMessage, caf::no_spawn_options>(role);
    case Role::planner:
      return spawn_desk<PlannerDesk, PlannerMessage, caf::detached>(role);
    case Role::executor:
      return spawn_desk<ExecutorDesk, ExecutorMessage, caf::detached>(role);
    case Role::checkpoints:
      return spawn_desk<CheckpointDesk, CheckpointMessage, caf::detached>(role);
    case Role::disk:
      return spawn_desk<DiskDesk, DiskMessage, caf::detached>(role);
    case Role::worker:
      if (index >= shared->options.text_workers) {
        return spawn_desk<TextWorker, WorkerMessage, caf::detached>(role);
      }
      return spawn_desk<TextWorker, WorkerMessage, caf::no_spawn_options>(role);
  }
  throw InvariantError("no such role");
}

void Runtime::Impl::start(Role role, int index) {
  const caf::actor fresh = spawn(role, index);
  std::lock_guard lock(mutex);
  if (stopping) {  // nobody would ever tell it to go
    caf::anon_send_exit(fresh, caf::exit_reason::user_shutdown);
    return;
  }
  handles[static_cast<std::size_t>(role)][static_cast<std::size_t>(index)] = fresh;
  if (role == Role::executor) shared->executor_up = true;
}

caf::behavior Runtime::Impl::supervise(caf::event_based_actor* self,
                                       const std::vector<caf::actor>& first) {
  self->set_down_handler([this, self](caf::down_msg& down) { on_down(self, down); });
  for (const caf::actor& a : first) self->monitor(a);
  return {[this, self](const Respawn&) { revive_executor(self); }};
}

std::string Runtime::Impl::name_of(const caf::actor_addr& address, Role& role, int& index) {
  std::lock_guard lock(mutex);
  for (std::size_t r = 0; r < handles.size(); ++r) {
    for (std::size_t i = 0; i < handles[r].size(); ++i) {
      if (!handles[r][i] || handles[r][i].address() != address) continue;
      role = static_cast<Role>(r);
      index = static_cast<int>(i);
      handles[r][i] = nullptr;
      return stopping ? std::string() : to_string(role);
    }
  }
  return {};
}

void Runtime::Impl::on_down(caf::event_based_actor* self, const caf::down_msg& down) {
  Role role{};
  int index = 0;
  const std::string name = name_of(down.source, role, index);
  if (name.empty()) return;  // a stop, or an actor that was replaced already
  const std::string why = system.render(down.reason);
  log(LogLevel::error, "the " + name + " actor died (" + why + ")");
  shared->metrics->actor_restarts_total(metric_name(role)).add();
  if (role == Role::executor) {
    shared->executor_up = false;
    runtime->router(ActorLost{role, index, why});
    if (shared->device_loss) return;  // it would die again
    const auto next = executor_revived + kExecutorRestartGap;
    if (executor_revived == Clock::time_point{} || next <= Clock::now())
      return revive_executor(self);
    log(LogLevel::warning, "the executor starts again a minute after its last restart");
    self->delayed_send(self, next - Clock::now(), Respawn{});
    return;
  }
  if (role == Role::router) return lose_router(self, why);
  start(role, index);
  watch(self, role, index);
  if (role == Role::prefix) runtime->executor(PrefixReplaced{});
  if (role == Role::disk) runtime->prefix(DiskReplaced{});
  runtime->router(ActorLost{role, index, why});
}

void Runtime::Impl::watch(caf::event_based_actor* self, Role role, int index) {
  if (const caf::actor a = target(role, index)) self->monitor(a);
}

// The router's requests end here, before there is a new one to take others. Prefix is replaced too,
// since leases that were on their way to the old router would stay in flight for ever.
void Runtime::Impl::lose_router(caf::event_based_actor* self, const std::string& why) {
  // Without a router's handle no ticket is opened; those that were being opened are through after
  // this.
  { const std::unique_lock alone(door); }
  shared->tickets.fail_all(Error{ErrorCode::internal, "the request router failed: " + why, ""});
  for (int w = 0; w < 2 * shared->options.text_workers; ++w) runtime->worker(w, DropStreams{});
  runtime->executor_urgent(CancelAll{});
  runtime->executor(CancelAll{});  // behind every Admit of the old router
  if (const caf::actor prefix = target(Role::prefix)) {
    caf::anon_send_exit(prefix, caf::exit_reason::kill);
  }
  start(Role::router, 0);
  watch(self, Role::router, 0);
}

void Runtime::Impl::revive_executor(caf::event_based_actor* self) {
  {
    std::lock_guard lock(mutex);
    if (stopping) return;
  }
  executor_revived = Clock::now();
  start(Role::executor, 0);
  watch(self, Role::executor, 0);
  runtime->router(ExecutorBack{});  // the queue moves again
}

Runtime::Runtime(std::shared_ptr<Shared> shared)
    : impl_(std::make_unique<Impl>(std::move(shared), this)) {
  for (int role = 0; role < kRoles; ++role) {
    const auto count = impl_->handles[static_cast<std::size_t>(role)].size();
    for (std::size_t i = 0; i < count; ++i) {
      impl_->start(static_cast<Role>(role), static_cast<int>(i));
    }
  }
  // It begins on its own thread, perhaps after a stop has taken the handles: it gets its own.
  std::vector<caf::actor> first;
  for (const auto& list : impl_->handles) first.insert(first.end(), list.begin(), list.end());
  impl_->supervisor =
      impl_->system.spawn([impl = impl_.get(), first](caf::event_based_actor* self) {
        return impl->supervise(self, first);
      });
}

Runtime::~Runtime() {
  for (const std::string& name : stop(std::chrono::seconds(5))) {
    log(LogLevel::error, "the " + name + " actor did not stop");
  }
}

void Runtime::router(RouterMessage message) { impl_->send(Role::router, 0, std::move(message)); }
void Runtime::prefix(PrefixMessage message) { impl_->send(Role::prefix, 0, std::move(message)); }
void Runtime::planner(PlannerMessage message) { impl_->send(Role::planner, 0, std::move(message)); }
void Runtime::executor(ExecutorMessage message) {
  impl_->send(Role::executor, 0, std::move(message));
}
void Runtime::checkpoints(CheckpointMessage message) {
  impl_->send(Role::checkpoints, 0, std::move(message));
}
void Runtime::disk(DiskMessage message) { impl_->send(Role::disk, 0, std::move(message)); }
void Runtime::worker(int index, WorkerMessage message) {
  impl_->send(Role::worker, index, std::move(message));
}

bool Runtime::submit(TicketPtr ticket, EventSink sink) {
  const std::shared_lock open(impl_->door);
  if (!impl_->target(Role::router)) return false;
  impl_->shared->tickets.open(ticket->id, std::move(sink));
  router(Submit{std::move(ticket)});
  return true;
}

void Runtime::executor_urgent(ExecutorMessage message) {
  impl_->shared->metrics->actor_messages_sent_total(ActorName::executor).add();
  if (const caf::actor to = impl_->target(Role::executor)) {
    caf::anon_send<caf::message_priority::high>(to, ExecutorLetter{std::move(message)});
  }
}

void Runtime::router_after(std::chrono::milliseconds delay, RouterMessage message) {
  impl_->send_after(Role::router, delay, std::move(message));
}
void Runtime::prefix_after(std::chrono::milliseconds delay, PrefixMessage message) {
  impl_->send_after(Role::prefix, delay, std::move(message));
}
void Runtime::disk_after(std::chrono::milliseconds delay, DiskMessage message) {
  impl_->send_after(Role::disk, delay, std::move(message));
}

void Runtime::kill([[maybe_unused]] Role role, [[maybe_unused]] int worker) {
#ifdef CAIRN_FAILPOINTS_ENABLED
  const int index = role == Role::worker ? worker : 0;
  if (const caf::actor to = impl_->target(role, index)) caf::anon_send(to, Die{});
#endif
}

std::vector<std::string> Runtime::stop(std::chrono::milliseconds deadline) {
  std::vector<std::pair<std::string, caf::actor>> order;
  {
    std::lock_guard lock(impl_->mutex);
    if (impl_->stopping) return {};
    impl_->stopping = true;
    order.emplace_back("supervisor", impl_->supervisor);
    for (const Role role : {Role::router, Role::worker, Role::planner, Role::prefix,
                            Role::checkpoints, Role::disk, Role::executor}) {
      for (caf::actor& a : impl_->handles[static_cast<std::size_t>(role)]) {
        if (a) order.emplace_back(to_string(role), a);
        a = nullptr;
      }
    }
    impl_->supervisor = nullptr;
  }
  std::vector<std::string> left;
  caf::scoped_actor self{impl_->system};
  const auto end = Clock::now() + deadline;
  for (const auto& entry : order) {
    self->monitor(entry.second);
    self->send_exit(entry.second, caf::exit_reason::user_shutdown);
    bool down = false;
    bool late = false;
    while (!down && !late) {  // a late word of one that was given up is not this one's
      const auto rest =
          std::max(std::chrono::milliseconds(1),
                   std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()));
      self->receive([&](const caf::down_msg& m) { down = m.source == entry.second.address(); },
                    caf::after(rest) >> [&] { late = true; });
    }
    if (!down) left.push_back(entry.first);
  }
  // An actor that hangs must not hang the system's destructor with it.
  if (!left.empty()) impl_->system.await_actors_before_shutdown(false);
  return left;
}

}  // namespace cairn::actors
