#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/at_end.hpp"
#include "kernels/reduce.hpp"
#include "support/gpu_stand_in_state.hpp"

namespace terrace::detail::test {

namespace {

// Messages of a thread between group_start and group_end: one operation for each communicator.
struct grouped {
    comm_state* comm;
    stream_state* stream;
    std::shared_ptr<network_op> op;
};
thread_local std::vector<grouped> group_ops;
thread_local std::vector<comm_state*> group_aborts;
thread_local int group_depth = 0;

std::vector<std::byte> sum_of(const std::vector<std::shared_ptr<network_op>>& all) {
    const network_op& first = *all.front();
    std::vector<std::byte> result(first.count * size_of(first.type) *
                                  (first.what == network_kind::reduce_scatter ? all.size() : 1));
    std::vector<const void*> inputs;
    for (const auto& op : all) inputs.push_back(op->from);
    const auto count = static_cast<std::int64_t>(result.size() / size_of(first.type));
    find_reduce(first.type, first.op)(result.data(), inputs.data(), static_cast<int>(inputs.size()), count, 1);
    return result;
}

void perform(const std::vector<std::shared_ptr<network_op>>& all) {
    const network_op& first = *all.front();
    const auto n = all.size();
    const auto give = [](void* to, const std::byte* from, std::size_t bytes) { std::memcpy(to, from, bytes); };
    if (first.what == network_kind::all_gather || first.what == network_kind::broadcast) {
        std::vector<std::byte> whole;
        for (const auto& op : all)
            if (first.what == network_kind::all_gather || op->comm->rank == first.root)
                whole.insert(whole.end(), static_cast<const std::byte*>(op->from),
                             static_cast<const std::byte*>(op->from) + op->count);
        for (const auto& op : all) give(op->to, whole.data(), whole.size());
        return;
    }
    const std::vector<std::byte> sum = sum_of(all);
    for (std::size_t r = 0; r < n; ++r) {
        const std::size_t part = sum.size() / n;
        if (first.what == network_kind::reduce_scatter) give(all[r]->to, sum.data() + r * part, part);
        else if (first.what == network_kind::all_reduce || static_cast<int>(r) == first.root)
            give(all[r]->to, sum.data(), sum.size());
    }
}

}  // namespace

std::string network_op::signature() const {
    constexpr std::string_view names[] = {"all_reduce", "reduce_scatter", "all_gather", "reduce", "broadcast", "group"};
    return fmt::format("{} of {} {}, {}, root {}", names[static_cast<int>(what)], count, to_string(type), to_string(op),
                       root);
}

bool gpu_stand_in::state::usable(comm_state* c, const char* what) {
    const bool alive = c != nullptr && !c->aborted && !c->dropped;
    rule(alive, fmt::format("{} on a communicator that is gone", what));
    if (!alive) return false;
    rule(c->ready && c->busy == 0 && !c->splitting, fmt::format("{} on a communicator that is not settled", what));
    return true;
}

bool gpu_stand_in::state::run_network(stream_state& s, const std::shared_ptr<network_op>& op) {
    device_state& d = devices[static_cast<std::size_t>(s.device)];
    comm_state& c = *op->comm;
    rule(c.ends || c.completed == op->number,
         "an operation whose stream does not wait for the one before it on its communicator");
    if (!op->started) {
        if (op->ticket != d.launched || (!how.concurrent && d.running > 0)) return false;
        op->started = true;
        ++d.launched;
        ++d.running;
        if (!c.ends) post(op);
    }
    if (!op->done && !c.ends) return false;
    --d.running;
    ++c.completed;
    return true;
}

void gpu_stand_in::state::post(const std::shared_ptr<network_op>& op) {
    clique& all = *op->comm->all;
    const int me = op->comm->rank;
    for (const message& m : op->sends) check_memory(op->comm->device, m.from, m.bytes, "a message that leaves");
    for (const message& m : op->recvs) check_memory(op->comm->device, m.to, m.bytes, "a message that arrives");
    if (op->what == network_kind::group) {
        op->left = op->sends.size() + op->recvs.size();
        for (const message& m : op->sends) all.sends[{me, m.peer}].push_back({m, op});
        for (const message& m : op->recvs) all.recvs[{m.peer, me}].push_back({m, op});
        for (const message& m : op->sends) match(all, {me, m.peer});
        for (const message& m : op->recvs) match(all, {m.peer, me});
        return;
    }
    auto& arrived = all.collectives[op->comm->collectives++];
    arrived.push_back(op);
    if (arrived.size() < all.members.size()) return;
    std::sort(arrived.begin(), arrived.end(),
              [](const auto& a, const auto& b) { return a->comm->rank < b->comm->rank; });
    for (const auto& each : arrived)
        rule(each->signature() == op->signature(),
             fmt::format("ranks differ: {} and {}", each->signature(), op->signature()));
    perform(arrived);
    for (const auto& each : arrived) each->done = true;
    arrived.clear();
}

void gpu_stand_in::state::match(clique& all, std::pair<int, int> way) {
    auto &sends = all.sends[way], &recvs = all.recvs[way];
    while (!sends.empty() && !recvs.empty()) {
        auto &from = sends.front(), &to = recvs.front();
        rule(from.what.bytes == to.what.bytes,
             fmt::format("a message of {} bytes where {} are expected", from.what.bytes, to.what.bytes));
        std::memcpy(to.what.to, from.what.from, std::min(from.what.bytes, to.what.bytes));
        for (const auto& op : {from.of, to.of}) op->done = --op->left == 0;
        sends.pop_front();
        recvs.pop_front();
    }
}

int gpu_stand_in::state::issue(gpu_stream stream, const std::shared_ptr<network_op>& op, const char* what) {
    if (!usable(op->comm, what)) return 5;
    stream_state* s = stream_of(stream);
    const std::size_t ranks = op->comm->all->members.size();
    const std::size_t bytes = op->count * size_of(op->type);
    const bool gives = op->what != network_kind::broadcast || op->comm->rank == op->root;
    const bool gets = op->what != network_kind::reduce || op->comm->rank == op->root;
    if (op->what != network_kind::group) {
        if (gives)
            check_memory(s->device, op->from, bytes * (op->what == network_kind::reduce_scatter ? ranks : 1), what);
        if (gets) check_memory(s->device, op->to, bytes * (op->what == network_kind::all_gather ? ranks : 1), what);
    }
    rule(group_depth == 0, fmt::format("{} in a group", what));
    put(s, {stream_op::kind::network, nullptr, nullptr, 0, op});
    settle_later(op->comm);
    return op->comm->busy > 0 ? gpu_runtime::in_progress : 0;
}

int gpu_stand_in::state::add_message(comm_state* c, gpu_stream stream, const message& m, bool sends) {
    if (!usable(c, sends ? "ncclSend" : "ncclRecv")) return 5;
    stream_state* s = stream_of(stream);
    rule(group_depth > 0, "a message outside of any group");
    rule(m.peer >= 0 && m.peer < static_cast<int>(c->all->members.size()), "a message to nobody");
    check_memory(s->device, sends ? m.from : m.to, m.bytes, sends ? "ncclSend" : "ncclRecv");
    auto found = std::find_if(group_ops.begin(), group_ops.end(), [&](const grouped& g) { return g.comm == c; });
    if (found == group_ops.end()) {
        auto op = std::make_shared<network_op>();
        op->comm = c;
        found = group_ops.insert(group_ops.end(), {c, s, op});
    }
    rule(found->stream == s, "a group with two streams");
    ++c->grouped;
    (sends ? found->op->sends : found->op->recvs).push_back(m);
    return 0;
}

void gpu_stand_in::state::begin_group() { ++group_depth; }

int gpu_stand_in::state::end_group(int failure) {
    if (--group_depth > 0) return failure;
    int code = failure;
    for (const grouped& g : group_ops) {
        g.comm->grouped = 0;
        if (failure != 0) continue;
        put(g.stream, {stream_op::kind::network, nullptr, nullptr, 0, g.op});
        settle_later(g.comm);
        if (g.comm->busy > 0) code = gpu_runtime::in_progress;
    }
    group_ops.clear();
    return code;
}

void gpu_stand_in::state::mark_aborted(comm_state* c) {
    c->aborted = true;
    group_aborts.push_back(c);
}

// Ends all marked communicators together: real kernels poll every few microseconds, after the host has marked a group.
void gpu_stand_in::state::end_aborted() {
    if (group_depth > 0) return;
    ++blocked;  // keeps the machine: also detached threads call this
    const at_end through([this] { --blocked; });
    const std::vector<comm_state*> all = std::exchange(group_aborts, {});
    {
        const auto held = lock_machine();
        for (comm_state* c : all) withdraw(c);
        changed.notify_all();
    }
    for (comm_state* c : all) {
        block_until([c] { return c->completed == c->issued; },
                    "ncclCommAbort waits for work of another communicator, which nobody ends");
        block_until([c] { return c->graphs == 0; }, "ncclCommAbort waits for a graph");
    }
}

// Removes the communicator's posted operations. Other ranks that wait for them wait for ever, or get an error.
void gpu_stand_in::state::withdraw(comm_state* c) {
    c->ends = true;
    if (!c->all) return;
    const auto of_it = [&](const clique::posted& p) { return p.of->comm == c; };
    for (auto* ways : {&c->all->sends, &c->all->recvs})
        for (auto& [way, posts] : *ways) posts.erase(std::remove_if(posts.begin(), posts.end(), of_it), posts.end());
    c->all->collectives.clear();
    for (comm_state* other : c->all->members)
        if (other != nullptr && other != c && how.remote_errors) other->error = 6;
}

comm_state* gpu_stand_in::state::new_comm(int device) {
    comms.push_back(std::make_unique<comm_state>());
    comms.back()->device = device;
    return comms.back().get();
}

void gpu_stand_in::state::split_if_all_are_here(clique& all) {
    if (all.splits.size() < all.members.size()) return;
    std::map<int, std::vector<std::pair<std::pair<int, int>, comm_state*>>> parts;
    for (const auto& [rank, s] : all.splits)
        if (s.color >= 0) parts[s.color].push_back({{s.key, rank}, s.child});
    for (auto& [color, members] : parts) {
        std::sort(members.begin(), members.end());
        auto made = std::make_shared<clique>();
        for (const auto& [key, child] : members) {
            child->rank = static_cast<int>(made->members.size());
            child->all = made;
            child->ready = true;
            made->members.push_back(child);
        }
    }
    for (const auto& [rank, s] : all.splits) *s.place = s.child;
    all.splits.clear();
    for (comm_state* c : all.members) c->splitting = false;
}

}  // namespace terrace::detail::test
