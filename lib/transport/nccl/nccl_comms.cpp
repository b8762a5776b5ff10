#include "transport/nccl/nccl_comms.hpp"

#include <sched.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/index.hpp"

namespace terrace::detail {

namespace {

using clock = std::chrono::steady_clock;

// A rank's report to the others.
struct finding {
    int code = 0;
    std::array<char, 16> library{};
    std::array<char, 32> call{};
    std::array<char, 200> message{};
};

template <std::size_t N>
void set(std::array<char, N>& to, std::string_view text) {
    std::copy_n(text.begin(), std::min(text.size(), N - 1), to.begin());
}

}  // namespace

void on_all_ranks(team& ranks, const std::function<std::optional<transport_fault>()>& action) {
    finding mine;
    if (const auto fault = action()) {
        mine.code = fault->code;
        set(mine.library, fault->library);
        set(mine.call, fault->call);
        set(mine.message, fault->message);
    }
    std::vector<finding> all(at(ranks.size()));
    ranks.gather_all(&mine, all.data(), sizeof mine);
    for (std::size_t r = 0; r < all.size(); ++r) {
        const finding& f = all[r];
        if (f.code == 0) continue;
        const std::string text = fmt::format("rank {}: {}", r, f.message.data());
        if (f.code == timed_out_code) throw timeout_error(fmt::format("{}: {}", f.call.data(), text));
        throw transport_error(f.library.data(), f.call.data(), f.code, text);
    }
}

nccl_comms::~nccl_comms() {
    on_.use();
    const gpu_runtime& gpu = on_.gpu();
    // Parts before what they were split from.
    for (auto c = comms_.rbegin(); c != comms_.rend() && !on_.fault(); ++c) {
        const int code = gpu.finalize(*c);
        if ((code == 0 || code == gpu_runtime::in_progress) && settled(*c) == 0) gpu.drop_comm(*c);
        else gpu.abort(*c);
    }
    for (const gpu_event e : events_) gpu.drop_event(e);
}

void nccl_comms::connect(team& ranks, int count) {
    const gpu_runtime& gpu = on_.gpu();
    rank_ = ranks.rank();
    nccl_id id{};
    on_all_ranks(ranks, [&]() -> std::optional<transport_fault> {
        const int code = rank_ == 0 ? gpu.make_id(&id) : 0;
        if (code != 0) return on_.nccl_fault("ncclGetUniqueId", code);
        return {};
    });
    std::vector<nccl_id> all(at(ranks.size()));
    ranks.gather_all(&id, all.data(), sizeof id);
    of_all_.resize(at(count));
    on_all_ranks(ranks, [&] {
        return make(of_all_.front(), "ncclCommInitRankConfig",
                    [&](nccl_comm* comm) { return gpu.make_comm(comm, ranks.size(), all.data(), rank_); });
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
    auto known = std::make_shared<std::set<std::vector<int>>>(*groups_);  // who has the old set keeps it
    known->insert(groups.begin(), groups.end());
    groups_ = std::move(known);
    return {};
}

std::optional<transport_fault> nccl_comms::split(communicator& c, int color, int key) {
    return make(c, "ncclCommSplit", [&](nccl_comm* comm) {
        const nccl_comm whole = of_all_.front().comm;
        const int code = on_.gpu().split(whole, color, key, comm);
        return code == 0 || code == gpu_runtime::in_progress ? settled(whole) : code;
    });
}

template <class Start>
std::optional<transport_fault> nccl_comms::make(communicator& c, const char* call, Start start) {
    int code = start(&c.comm);
    if (c.comm != nullptr) {
        comms_.push_back(c.comm);
        if (code == 0 || code == gpu_runtime::in_progress) code = settled(c.comm);
    }
    if (code == timed_out_code) return late_fault(call);
    if (code != 0) return on_.nccl_fault(call, code);
    if (const int made = on_.gpu().make_event(&c.last); made != 0)
        return on_.cuda_fault("cudaEventCreateWithFlags", made);
    events_.push_back(c.last);
    return {};
}

transport_fault nccl_comms::late_fault(const char* call) const {
    return {"nccl", call, timed_out_code,
            fmt::format("timed out after {} s (options::timeout), waiting for other ranks", timeout_.count())};
}

// Waits until an operation on a nonblocking communicator has been accepted. Returns NCCL's code, or timed_out_code.
int nccl_comms::settled(nccl_comm comm) const noexcept {
    const auto began = clock::now();
    int code = gpu_runtime::in_progress;
    for (int n = 0;; ++n) {
        if (const int asked = on_.gpu().status(comm, &code); asked != 0) return asked;
        if (code != gpu_runtime::in_progress) return code;
        if (n < 64) continue;
        sched_yield();
        if (timeout_.count() > 0 && clock::now() - began > timeout_) return timed_out_code;
    }
}

void nccl_comms::abort() noexcept {
    for (const nccl_comm comm : comms_) on_.gpu().abort(comm);
    comms_.clear();
}

std::optional<transport_fault> nccl_comms::find_fault() const noexcept {
    for (const nccl_comm comm : comms_) {
        int code = 0;
        if (on_.gpu().status(comm, &code) != 0 || code == 0 || code == gpu_runtime::in_progress) continue;
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
    check("ncclCommGetAsyncError", settled(c.comm));
    on_.check("cudaEventRecord", on_.gpu().record(c.last, on_.at(queue).stream));
    c.queue = queue;
    c.call = call;
}

void nccl_comms::check(const char* call, int code) noexcept {
    if (code == 0 || code == gpu_runtime::in_progress || on_.fault()) return;
    on_.fail(code == timed_out_code ? late_fault(call) : on_.nccl_fault(call, code));
}

}  // namespace terrace::detail
