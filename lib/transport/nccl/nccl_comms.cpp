#include "transport/nccl/nccl_comms.hpp"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/index.hpp"
#include "transport/packed.hpp"

namespace terrace::detail {

namespace {

using clock = std::chrono::steady_clock;

// Waits until an operation on a nonblocking communicator has been accepted. Returns NCCL's code, or timed_out_code.
int settle(const gpu_runtime& gpu, nccl_comm comm, std::chrono::duration<double> limit) noexcept {
    const auto began = clock::now();
    int code = gpu_runtime::in_progress;
    for (int n = 0;; ++n) {
        if (const int asked = gpu.status(comm, &code); asked != 0) return asked;
        if (code != gpu_runtime::in_progress) return code;
        if (n < 64) continue;
        sched_yield();
        if (limit.count() > 0 && clock::now() - began > limit) return timed_out_code;
    }
}

}  // namespace

void on_all_ranks(team& ranks, const std::function<std::optional<transport_fault>()>& action) {
    packed mine;
    if (const auto fault = action())
        for (const std::string& word : {fault->library, fault->call, fault->message, std::to_string(fault->code)})
            mine.add(word);
    const std::vector<std::string> all = ranks.exchange(mine.bytes());
    for (std::size_t r = 0; r < all.size(); ++r) {
        if (all[r].empty()) continue;
        const std::vector<std::string> of = packed(all[r]).values();
        const std::string text = fmt::format("rank {}: {}", r, of[2]);
        const int code = std::stoi(of[3]);
        if (code == timed_out_code) throw timeout_error(fmt::format("{}: {}", of[1], text));
        throw transport_error(of[0], of[1], code, text);
    }
}

nccl_comms::~nccl_comms() {
    constexpr auto soon = std::chrono::seconds(2);
    on_.use();
    std::reverse(comms_.begin(), comms_.end());  // parts before their origins
    const auto finish = [&gpu = on_.gpu(), limit = captured_ ? std::chrono::duration<double>()
                                                             : timeout_](const std::vector<nccl_comm>& all) {
        for (const nccl_comm comm : all) {
            const int code = gpu.finalize(comm);
            if ((code == 0 || code == gpu_runtime::in_progress) && settle(gpu, comm, limit) == 0) gpu.drop_comm(comm);
            else gpu.abort(comm);
        }
    };
    if (!on_.fault()) reclaim(finish);
    if (reclaimed_.valid()) {
        if (captured_ || on_.fault()) reclaimed_.wait_for(soon);
        else reclaimed_.wait();
    }
    for (const gpu_event e : events_) on_.gpu().drop_event(e);
}

// A separate thread destroys communicators, since NCCL then waits for their work on the device, and for graphs that use
// them. The thread may outlive the transport, and keeps the handles: NCCL may write these until all finished
// communicators are destroyed. If there is no thread, communicators remain until the process ends.
void nccl_comms::reclaim(action how) noexcept {
    try {
        std::vector<handle> all = std::exchange(comms_, {});
        std::vector<nccl_comm> made;
        for (const handle& h : all)
            if (*h != nullptr) made.push_back(*h);
        std::promise<void> done;
        std::future<void> reclaimed = done.get_future();
        std::thread([handles = std::move(all), made, how = std::move(how), done = std::move(done), &gpu = on_.gpu(),
                     device = on_.device()]() mutable {
            gpu.use_device(device);
            how(made);
            // A communicator that was still being made when make() gave up has no work on the device.
            for (const handle& h : handles)
                if (*h != nullptr && std::find(made.begin(), made.end(), *h) == made.end()) gpu.abort(*h);
            done.set_value();
        }).detach();
        reclaimed_ = std::move(reclaimed);
    } catch (const std::exception& e) {
        on_.fail({"nccl", "ncclCommAbort", 1, fmt::format("no thread for it: {}", e.what())});
    }
}

void nccl_comms::connect(team& ranks, int count) {
    const gpu_runtime& gpu = on_.gpu();
    rank_ = ranks.rank();
    // NCCL reads this variable at the first launch of the process.
    setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
    nccl_id id{};
    on_all_ranks(ranks, [&] {
        const int code = rank_ == 0 ? gpu.make_id(&id) : 0;
        return code != 0 ? std::optional(on_.nccl_fault("ncclGetUniqueId", code)) : std::nullopt;
    });
    std::vector<nccl_id> all(at(ranks.size()));
    ranks.gather_all(&id, all.data(), sizeof id);
    of_all_.resize(at(count));
    on_all_ranks(ranks, [&] {
        return make(of_all_.front(), "ncclCommInitRankConfig",
                    [&](nccl_comm* comm) { return gpu.make_comm(comm, ranks.size(), all.data(), rank_, false); });
    });
    for (int i = 1; i < count; ++i) on_all_ranks(ranks, [&] { return split(of_all_[at(i)], 0, rank_); });
}

std::optional<transport_fault> nccl_comms::join(const disjoint_groups& groups) {
    int color = -1, key = 0;
    for (std::size_t g = 0; g < groups.size(); ++g) {
        const auto me = std::find(groups[g].begin(), groups[g].end(), rank_);
        if (me != groups[g].end()) color = static_cast<int>(g), key = static_cast<int>(me - groups[g].begin());
    }
    communicator made;
    if (auto f = split(made, color, key)) return f;
    if (color >= 0) of_group_[groups[at(color)]] = made;
    auto known = std::make_shared<std::set<std::vector<int>>>(*groups_);  // users of the old set keep it
    known->insert(groups.begin(), groups.end());
    groups_ = std::move(known);
    return {};
}

std::optional<transport_fault> nccl_comms::split(communicator& c, int color, int key) {
    return make(c, "ncclCommSplit", [&](nccl_comm* comm) {
        const nccl_comm whole = *of_all_.front().comm;
        const int code = on_.gpu().split(whole, color, key, comm);
        return code == 0 || code == gpu_runtime::in_progress ? settled(whole) : code;
    });
}

template <class Start>
std::optional<transport_fault> nccl_comms::make(communicator& c, const char* call, Start start) {
    c.comm = comms_.emplace_back(std::make_shared<nccl_comm>(nullptr));
    int code = start(c.comm.get());
    if (*c.comm != nullptr && (code == 0 || code == gpu_runtime::in_progress)) code = settled(*c.comm);
    if (code == timed_out_code) return late_fault(call);
    if (code != 0) return on_.nccl_fault(call, code);
    if (*c.comm == nullptr) comms_.pop_back();  // this rank is in no group
    if (const int made = on_.gpu().make_event(&c.last); made != 0)
        return on_.cuda_fault("cudaEventCreateWithFlags", made);
    events_.push_back(c.last);
    return {};
}

transport_fault nccl_comms::late_fault(const char* call) const {
    return {"nccl", call, timed_out_code,
            fmt::format("timed out after {} s (options::timeout), waiting for other ranks", timeout_.count())};
}

int nccl_comms::settled(nccl_comm comm) const noexcept { return settle(on_.gpu(), comm, timeout_); }

// Aborts all in one group, so NCCL marks all before it waits for any. NCCL waits for a communicator's stream, where
// work of another may come first. Streams also continue with work of the next one, which must not reach a peer.
void nccl_comms::abort() noexcept {
    reclaim([&gpu = on_.gpu()](const std::vector<nccl_comm>& all) {
        gpu.group_start();
        for (const nccl_comm comm : all) gpu.abort(comm);
        gpu.group_end();
    });
}

std::optional<transport_fault> nccl_comms::find_fault() const noexcept {
    for (const handle& c : comms_) {
        int code = 0;
        if (on_.gpu().status(*c, &code) != 0 || code == 0 || code == gpu_runtime::in_progress) continue;
        return on_.nccl_fault("ncclCommGetAsyncError", code);
    }
    return {};
}

nccl_comms::communicator& nccl_comms::of_stage(int stage) noexcept {
    return of_all_[std::min(at(stage), of_all_.size() - 1)];
}

void nccl_comms::claim(communicator& c, int queue, const issued_call& call) noexcept {
    const bool same_graph = c.call.number == call.number || (!c.call.captured && !call.captured);
    if (c.queue >= 0 && c.queue != queue && same_graph)
        on_.check("cudaStreamWaitEvent", on_.gpu().wait(on_.at(queue).stream, c.last));
}

void nccl_comms::leave(communicator& c, int queue, const issued_call& call) noexcept {
    if (on_.fault()) return;
    check("ncclCommGetAsyncError", settled(*c.comm));
    on_.check("cudaEventRecord", on_.gpu().record(c.last, on_.at(queue).stream));
    c.queue = queue;
    c.call = call;
}

void nccl_comms::check(const char* call, int code) noexcept {
    if (code == 0 || code == gpu_runtime::in_progress || on_.fault()) return;
    on_.fail(code == timed_out_code ? late_fault(call) : on_.nccl_fault(call, code));
}

}  // namespace terrace::detail
