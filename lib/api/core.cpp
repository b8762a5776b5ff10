#include "api/core.hpp"

#include <unistd.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <new>
#include <numeric>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "api/auto_plan.hpp"
#include "api/dump.hpp"
#include "api/log_line.hpp"
#include "base/partition.hpp"
#include "executor/agreement.hpp"
#include "schedule/compose.hpp"
#include "schedule/stage_groups.hpp"
#include "transport/shm/shm_transport.hpp"

namespace terrace {

namespace {

constexpr std::size_t cached_programs = 32;

// Whether the transport itself runs stages of a rule, in lane slots.
bool takes_lane_slots(const rule& r) { return any_stage(r, &algorithm::native) || any_stage(r, &algorithm::library); }

// The most lanes of any rule that a predicate holds of; two calls may be in flight where there is none.
template <class Predicate>
int most_lanes_of(const recipe& p, Predicate holds) {
    int lanes = 2;
    for (const auto& [what, rules] : p.rules)
        for (const rule& r : rules)
            if (holds(r)) lanes = std::max(lanes, r.lanes);
    return lanes;
}

}  // namespace

communicator::core::core(const plan& p, std::unique_ptr<transport> net, int rank, options o,
                         std::optional<device_setting> device)
    : plan_(p),
      rank_(rank),
      binding_{plan_.get(), net->rank(), callers_rank_},
      options_(std::move(o)),
      net_(std::move(net)),
      events_(!options_.trace_file.empty()),
      device_(device) {
    check_runnable(plan_.get());  // an algorithm nobody knows is refused now, not at the first message of that size
    prepare_library();
    if (options_.shared_memory) share_memory();
    engine_ = std::make_unique<engine>(*net_, most_lanes(), events_);
    number_ranks();
    check_ = std::make_unique<call_check>(
        *net_, callers_rank_, options_.check, [this] { engine_->progress(); }, [this] { watch(); });
    if (device_) device_calls_ = std::make_unique<device_calls>(binding_, *device_, *net_, options_, most_lanes());
    if (!options_.dump_file.empty()) dumps_seen_ = watch_for_dumps();
    or_all_fail([&] {
        if (options_.progress_thread) thread_ = make_thread();  // first: all ranks tell each other where they are
        if (!options_.trace_file.empty() && rank_ == 0) begin_trace(options_.trace_file);
    });
    if (options_.log && rank_ == 0) options_.log(log_level::info, log_line(plan_.get(), transports()));
}

communicator::core::~core() {
    thread_.reset();
    device_calls_.reset();
    if ((failure_ || !engine_->idle()) && !net_->abandon()) keep_programs();
    if (options_.trace_file.empty()) return;
    try {
        events_.write_trace(options_.trace_file, rank_, plan_.name());
    } catch (const std::exception& e) {
        if (options_.log) options_.log(log_level::warn, e.what());
    }
}

// There are slots enough for two calls in flight. No more: all of it is cleared here.
void communicator::core::share_memory() {
    net_ = add_shared_memory(std::move(net_), lane_slots(), static_cast<std::size_t>(slot_bytes(plan_.get())));
}

// The groups are the same for all counts, but for those of so few elements that some have no part; and where they are
// not, stages of other groups are messages.
void communicator::core::prepare_library() {
    std::vector<std::vector<int>> groups;
    for (const auto& [what, rules] : plan_.get().rules)
        for (const rule& r : rules) {
            if (!any_stage(r, &algorithm::library)) continue;
            const composition c = compose(plan_.get().machine, r.stages, std::int64_t{size()} << 20, 1);
            for (const composed_stage& s : c.stages)
                for (const cohort& k : s.cohorts)
                    if (s.by->library && k.members.size() > 1) groups.push_back(k.members);
        }
    std::sort(groups.begin(), groups.end());
    groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
    if (!groups.empty()) net_->prepare_library(groups, lane_slots());
}

int communicator::core::most_lanes() const {
    return most_lanes_of(plan_.get(), [](const rule&) { return true; });
}

int communicator::core::lane_slots() const { return 2 * most_lanes_of(plan_.get(), takes_lane_slots); }

void communicator::core::number_ranks() {
    callers_rank_.resize(static_cast<std::size_t>(size()));
    net_->gather_all(&rank_, callers_rank_.data(), sizeof(int));
}

// Ranks of a node leave the last core to the first of them, and so on.
std::unique_ptr<progress_thread> communicator::core::make_thread() {
    const std::vector<int> nodes = net_->nodes();
    const auto me = nodes.begin() + net_->rank();
    const auto core = static_cast<int>(std::count(nodes.begin(), me, *me));
    const auto step = [this, w = waiter(*net_)]() mutable {
        try {
            const bool moved = progress();
            if (w.tires(moved)) {
                look_around();
                net_->look();
            }
            return moved;
        } catch (...) {
            return true;  // failure_ says it to those who wait
        }
    };
    try {
        return std::make_unique<progress_thread>(
            core, progress_thread::work{[this] { return !engine_->idle() && !failure_; }, step});
    } catch (const std::system_error& e) {
        throw usage_error(
            fmt::format("no progress thread can be started: {}; allow more threads (ulimit -u), or do "
                        "without options::progress_thread",
                        e.what()));
    }
}

progress_thread::lock communicator::core::hold() { return thread_ ? thread_->hold() : progress_thread::lock{}; }

void communicator::core::run(const shape_of_call& call, const void* send, void* recv) {
    start(call, send, recv).wait();
}

request communicator::core::start(const shape_of_call& call, const void* send, void* recv) {
    const auto held = hold();
    expect_unbroken(to_string(call.what));
    if (device_calls_ && device_calls_->holds(call, rank_, send, recv)) {
        const std::uint64_t number = start_on_device(call, send, recv, device_calls_->own_stream());
        return number == 0 ? request{} : request{*device_calls_, number};
    }
    const bool near = reachable(call, send, recv);
    bound* b = find_idle(call, near);
    const std::uint64_t signature = b != nullptr ? b->signature : signature_of(call);
    check_call(call, signature, send, recv);
    if (call.count == 0 && call.counts.empty()) return {};
    if (b == nullptr) b = &bind_new(call, signature, near);
    b->call = engine_->issue(b->run, send, recv);
    do progress();  // the caller may be busy with something else for long
    while (engine_->beginning());
    if (thread_) thread_->wake();
    return {*this, b->call};
}

void communicator::core::enqueue(const shape_of_call& call, const void* send, void* recv, CUstream_st* stream) {
    const auto held = hold();
    expect_unbroken(to_string(call.what));
    if (!device_calls_)
        throw usage_error(fmt::format("{}: this communicator has no device; terrace::nccl::create makes one that has",
                                      to_string(call.what)));
    start_on_device(call, send, recv, stream);
}

void communicator::core::synchronize() {
    const auto held = hold();
    expect_unbroken("synchronize");
    if (device_calls_) or_fail([&] { device_calls_->wait_for_all(); });
}

std::uint64_t communicator::core::start_on_device(const shape_of_call& call, const void* send, void* recv,
                                                  CUstream_st* stream) {
    const std::optional<std::uint64_t> known = device_calls_->signature_of_known(call);
    const std::uint64_t signature = known ? *known : signature_of(call);
    check_call(call, signature, send, recv, device_calls_->objection_to(call, stream));
    if (binding_.elements_of(call) == 0) return 0;
    std::uint64_t number = 0;
    or_fail([&] { number = device_calls_->enqueue(call, signature, send, recv, stream); });
    return number;
}

void communicator::core::check_call(const shape_of_call& call, std::uint64_t signature, const void* send,
                                    const void* recv, std::string objection) {
    if (objection.empty()) objection = objection_to(call, rank_, size(), send, recv);
    or_fail([&] {
        if (objection.empty()) check_->begin(call, signature);
        else check_->meet(describe(call) + ", refused", ": " + objection);
    });
    if (!objection.empty()) throw usage_error(fmt::format("{}: {}", to_string(call.what), objection));
}

bool communicator::core::test(std::uint64_t call) {
    const auto held = hold();
    if (engine_->done(call)) return true;
    if (failure_) std::rethrow_exception(failure_);
    if (!progress()) look_around();
    return engine_->done(call);
}

void communicator::core::wait(std::uint64_t call) {
    auto held = hold();
    if (thread_) thread_->wait(held, [&] { return failure_ || engine_->done(call); });
    finish(call);
}

void communicator::core::finish(std::uint64_t call) {
    for (waiter w(*net_); !engine_->done(call);) {
        if (failure_) std::rethrow_exception(failure_);
        if (!w.tires(progress())) continue;
        look_around();
        net_->idle();
    }
}

bool communicator::core::progress() {
    const bool moved = engine_->progress();
    if (net_->fault()) or_fail([&] { check_fault(*net_); });
    return moved;
}

// For one who waits in a call.
void communicator::core::look_around() {
    or_fail([&] {
        if (check_->listens()) check_->listen();
        watch();
    });
}

// For one who waits, in a call or while calls are compared.
void communicator::core::watch() {
    if (!options_.dump_file.empty() && dumps_seen_ != dumps_asked_for()) {
        dumps_seen_ = dumps_asked_for();
        dump();
    }
    if (options_.timeout.count() > 0 && std::max(check_->age(), engine_->age()) > options_.timeout) time_out();
}

waiting communicator::core::waits() const {
    waiting all;
    check_->add_waits(all);
    engine_->add_waits(callers_rank_, all);
    return all;
}

void communicator::core::time_out() const {
    constexpr std::size_t shown = 3;
    auto [lines, ranks] = waits();
    const std::size_t more = lines.size() > shown ? lines.size() - shown : 0;
    lines.resize(lines.size() - more);
    if (!options_.dump_file.empty()) dump();
    throw timeout_error(fmt::format("not through after {} s (options::timeout); waits for rank {}: {}{}",
                                    options_.timeout.count(), fmt::join(ranks, ", "), fmt::join(lines, "; "),
                                    more > 0 ? fmt::format("; and {} more", more) : ""));
}

void communicator::core::fail(std::exception_ptr why) {
    failure_ = why;
    if (device_calls_) device_calls_->abandon();  // before anybody frees what it works on
    std::rethrow_exception(why);
}

template <class Action>
void communicator::core::or_fail(Action what) {
    try {
        what();
    } catch (...) {
        fail(std::current_exception());
    }
}

// While the communicator is created: what a rank may fail at alone, which the others must learn of rather than wait.
template <class Action>
void communicator::core::or_all_fail(Action what) {
    std::string why;
    try {
        what();
    } catch (const std::exception& e) {
        why = e.what();
    }
    const std::vector<std::string> all = gather_texts(why, *net_);
    for (std::size_t r = 0; r < all.size(); ++r)
        if (!all[r].empty()) throw usage_error(fmt::format("rank {}: {}", callers_rank_[r], all[r]));
}

// After a failure, or where a request was left behind, a message may be half through, and the network go on reading and
// writing the programs' own memory. So it is never freed: a leak on purpose, of what one broken communicator had bound.
void communicator::core::keep_programs() {
    static std::mutex guard;
    static auto& kept = *new std::list<bound>;
    const std::lock_guard lock(guard);
    kept.splice(kept.end(), cache_);
}

void communicator::core::dump() const {
    try {
        write_dump(options_.dump_file, rank_, events_.dump(rank_, waits().lines));
    } catch (const std::exception& e) {
        if (options_.log) options_.log(log_level::warn, e.what());
    }
}

// What is shorter is copied into a slot sooner than peers have read it where it lies, for which the call would wait.
bool communicator::core::reachable(const shape_of_call& call, const void* send, const void* recv) const noexcept {
    constexpr std::size_t worth_no_copy = 1024;  // as measured: docs/performance.md
    const std::size_t bytes = static_cast<std::size_t>(call.count) * size_of(call.type);
    return bytes >= worth_no_copy && !has_blocks(call.what) && net_->reachable(recv, bytes) &&
           (send == recv || net_->reachable(send, bytes));
}

communicator::core::bound* communicator::core::find_idle(const shape_of_call& call, bool near) noexcept {
    const auto found = std::find_if(cache_.begin(), cache_.end(), [&](const bound& b) {
        return b.what == call && b.reachable == near && engine_->done(b.call);
    });
    if (found == cache_.end()) return nullptr;
    cache_.splice(cache_.begin(), cache_, found);
    return &cache_.front();
}

// A second call of one shape in flight gets a program of its own.
communicator::core::bound& communicator::core::bind_new(const shape_of_call& call, std::uint64_t signature, bool near) {
    cache_.push_front({call, signature, near, bind(call, near)});
    for (auto oldest = std::prev(cache_.end()); cache_.size() > cached_programs && oldest != cache_.begin();) {
        const auto candidate = oldest--;
        if (engine_->done(candidate->call)) cache_.erase(candidate);
    }
    return cache_.front();
}

program communicator::core::bind(const shape_of_call& call, bool near) {
    const std::size_t element = size_of(call.type);
    const rule& chosen = binding_.rule_of(call);
    const slicing chunks = slice_call(call, chosen);
    const auto schedule_of = [&](std::int64_t count) {
        const bool fits = fits_slot(binding_.vector_of(call, count), call);
        return binding_.schedule_of(call, chosen, count, fits ? net_->can() : net_->can().without_memory(),
                                    near ? buffer::recv : buffer::scratch);
    };
    schedule tail = schedule_of(chunks.tail);
    schedule full = chunks.chunks > 1 ? schedule_of(chunks.chunk) : schedule{};
    const int lanes = static_cast<int>(std::min<std::int64_t>(chosen.lanes, chunks.chunks));
    const bool placed = net_->can().slots > 0 && takes_lane_slots(chosen);
    if (options_.log)
        options_.log(log_level::debug,
                     fmt::format("{} of {} {}: {}, {} lanes, {} chunks of {}", to_string(call.what),
                                 binding_.elements_of(call), to_string(call.type),
                                 describe(plan_.get().machine, chosen.stages), lanes, chunks.chunks, chunks.chunk));
    return program(std::move(full), std::move(tail),
                   {.element = element,
                    .reduce = find_reduce(call.type, call.op),
                    .divisor = call.op == reduce_op::avg ? size() : 1,
                    .chunks = chunks,
                    .lanes = lanes,
                    .placed = placed,
                    .in_slot = placed && fits_slot(tail.count, call) && fits_slot(full.count, call),
                    .streams = streams(call)},
                   *net_);
}

slicing communicator::core::slice_call(const shape_of_call& call, const rule& chosen) const {
    // Blocks of different counts have no common part; they go in one chunk.
    if (!call.counts.empty()) return {};
    return slice(call.count, size_of(call.type), chosen, has_blocks(call.what) ? size() : 1,
                 any_stage(chosen, &algorithm::native) ? net_->can().slot_bytes : 0);
}

// Whether what is written is out of the cache again before anybody reads it.
bool communicator::core::streams(const shape_of_call& call) const {
    static const std::int64_t cache = std::max(sysconf(_SC_LEVEL3_CACHE_SIZE), sysconf(_SC_LEVEL2_CACHE_SIZE));
    return cache > 0 && 2 * binding_.elements_of(call) * static_cast<std::int64_t>(size_of(call.type)) > cache;
}

bool communicator::core::fits_slot(std::int64_t count, const shape_of_call& call) const {
    return static_cast<std::size_t>(count) * size_of(call.type) <= net_->can().slot_bytes;
}

void communicator::core::expect_unbroken(std::string_view what) const {
    if (failure_)
        throw usage_error(
            fmt::format("{}: an earlier call failed, and the communicator is broken; make a new one", what));
    if (device_calls_) device_calls_->check();
}

// Before something collective that does not move calls along which others may wait for.
void communicator::core::end_calls_for(const std::string& what) {
    expect_unbroken(what);
    or_fail([&] { check_->meet(what); });
    while (!engine_->idle()) finish(engine_->oldest());
}

std::shared_ptr<std::byte> communicator::core::allocate(std::size_t count, std::size_t element) {
    const auto held = hold();
    if (count > std::numeric_limits<std::ptrdiff_t>::max() / element) throw std::bad_array_new_length();
    end_calls_for(fmt::format("allocate of {} elements of {} bytes", count, element));
    if (count == 0) return nullptr;
    std::shared_ptr<std::byte> memory = net_->allocate(count * element);
    if (options_.log && net_->can().slots > 0 && !net_->reachable(memory.get(), count * element))
        options_.log(log_level::warn,
                     fmt::format("allocate: {} bytes for each rank cannot be shared (is /dev/shm full?); "
                                 "this is plain memory, which calls copy",
                                 count * element));
    return memory;
}

std::unique_ptr<communicator::core> communicator::core::split(int color, int key) {
    const auto held = hold();
    end_calls_for("split");
    struct choice {
        int color, key;
    };
    const choice mine{color, key};
    std::vector<choice> all(callers_rank_.size());
    net_->gather_all(&mine, all.data(), sizeof mine);
    std::unique_ptr<transport> net = net_->split(color, 0);
    if (!net) return nullptr;
    std::vector<int> members;  // by rank of the plan, as in `net`
    int before = 0;            // members that the caller's numbering puts before this rank
    for (std::size_t r = 0; r < all.size(); ++r) {
        if (all[r].color != color) continue;
        members.push_back(static_cast<int>(r));
        before += std::pair(all[r].key, callers_rank_[r]) < std::pair(key, rank_);
    }
    const plan p = plan_part(plan_.get(), members, *net);
    return std::make_unique<core>(p, std::move(net), before, options_, device_);
}

std::string communicator::core::transports() const {
    return device_calls_ ? fmt::format("{}; {}", net_->name(), device_calls_->name()) : std::string(net_->name());
}

std::string communicator::core::shape(std::int64_t bytes) const {
    const recipe& r = plan_.get();
    return describe(r.machine, r.choose(collective::allreduce, bytes).stages);
}

}  // namespace terrace
