#include "bench/measure/backend.hpp"

#include <algorithm>
#include <array>

#include <terrace/ucx.hpp>
#include <terrace/version.hpp>

#include "bench/device/device_backend.hpp"
#include "bench/measure/mpi_backend.hpp"
#include "plan/plan_access.hpp"
#include "plan/plan_yaml.hpp"
#include "planner/planner.hpp"

namespace terrace::detail::bench {

namespace {

class planned final : public backend {
public:
    planned(const setting& s, plan p)
        : backend(s.of),
          plan_(std::move(p)),
          comm_(s.ucx ? ucx::create(plan_, s.how) : create_over_mpi(s, plan_)),
          windows_(s.windows),
          rounds_(s.how.rounds_on_wire && row_of(of_.what).up && !row_of(of_.what).has_root()) {}

    bench::description describe(std::int64_t bytes) const override {
        bench::description made = bench::describe(plan_, of_.what, bytes);
        const bool goes_straight =
            row_of(of_.what).has_root() || data_of(plan_).choose(of_.what, bytes).stages.size() == 1;
        if (of_.own_lengths) made.shape = goes_straight ? "direct, with lengths" : "lengths in " + made.shape;
        return made;
    }

    double rounding(std::int64_t bytes) const override {
        return rounds_ ? rounding_error(data_of(plan_).choose(of_.what, bytes).stages) : 0;
    }

    void run(std::span<const call> calls) override {
        if (of_.own_lengths) return run_with_lengths(calls.front());
        if (calls.size() == 1) return start(calls.front()).wait();
        for (const call& c : calls) started_.push_back(start(c));
        wait_all(started_);
        started_.clear();
    }

    std::shared_ptr<std::byte> allocate(std::int64_t bytes) override {
        if (!windows_) return nullptr;
        const auto made =
            std::make_shared<window<std::uint8_t>>(comm_.allocate<std::uint8_t>(static_cast<std::size_t>(bytes)));
        return {made, reinterpret_cast<std::byte*>(made->data())};
    }

private:
    request start(const call& c) {
        switch (of_.what) {
            case collective::allreduce: return comm_.allreduce_async(c.send, c.recv, c.count, of_.type, of_.op);
            case collective::reduce_scatter:
                return comm_.reduce_scatter_async(c.send, c.recv, c.count, of_.type, of_.op);
            case collective::allgather: return comm_.allgather_async(c.send, c.recv, c.count, of_.type);
            case collective::alltoall: return comm_.alltoall_async(c.send, c.recv, c.count, of_.type);
            case collective::gather: return comm_.gather_async(c.send, c.recv, c.count, of_.type, of_.root);
            case collective::scatter: return comm_.scatter_async(c.send, c.recv, c.count, of_.type, of_.root);
            case collective::broadcast: return comm_.broadcast_async(c.recv, c.count, of_.type, of_.root);
            case collective::reduce: break;
        }
        return comm_.reduce_async(c.send, c.recv, c.count, of_.type, of_.root, of_.op);
    }

    // Calls the function with lengths. All blocks have `count` elements, but each rank knows only its own lengths.
    void run_with_lengths(const call& c) {
        sent_.assign(static_cast<std::size_t>(comm_.size()), c.count);
        received_.resize(sent_.size());
        const std::int64_t all = c.count * comm_.size();
        if (of_.what == collective::gather) comm_.gatherv(c.send, c.count, c.recv, all, received_, of_.type, of_.root);
        else if (of_.what == collective::scatter) comm_.scatterv(c.send, sent_, c.recv, c.count, of_.type, of_.root);
        else comm_.alltoallv(c.send, sent_, c.recv, all, received_, c.count, of_.type);
    }

    plan plan_;
    communicator comm_;
    bool windows_, rounds_;
    std::vector<std::int64_t> sent_, received_;  // lengths of blocks
    std::vector<request> started_;
};

std::unique_ptr<backend> make_planned(const setting& s, std::string_view name) {
    plan p = plan_of(name, s.chosen, s.of.what);
    if (s.device != nullptr) return make_planned_on_device(s, std::move(p));
    return std::make_unique<planned>(s, std::move(p));
}

std::unique_ptr<backend> make_library(const setting& s, std::string_view) { return make_mpi_backend(s); }
std::unique_ptr<backend> make_nccl(const setting& s, std::string_view) { return make_nccl_backend(s); }

constexpr std::array<backend_kind, 11> kinds{{
    {"hierarchical", "what the plan says", true, true, make_planned},
    {"sequential", "the same in one piece: each stage begins when the one before is complete", true, true,
     make_planned},
    {"staged", "the best plan of reduce-scatters and allgathers alone", true, true, make_planned},
    {"flat-ring", "one ring over all ranks; with a root a chain", true, true, make_planned},
    {"flat-rings", "a ring for each rank of a node, so that all NICs are in use", true, true, make_planned},
    {"two-level", "reduce to one rank per node, a ring among those, broadcast", true, true, make_planned},
    {"two-level-nics", "the same with a ring for each rank of a node", true, true, make_planned},
    {"central", "reduce to one rank, broadcast", true, true, make_planned},
    {"direct", "of alltoall, gather and scatter: each block goes straight to its rank", true, true, make_planned},
    {"mpi", "MPI's own, out of place; of host buffers", true, false, make_library},
    {"nccl", "NCCL's own among all ranks; of device buffers", false, true, make_nccl},
}};

}  // namespace

plan plan_of(std::string_view name, const plan& chosen, collective what) {
    if (name == "hierarchical") return chosen;
    plan_data r;
    if (name == "sequential") {
        r = data_of(chosen);
        for (rule& each : r.rules.at(what)) each.lanes = 1, each.chunk = 0;
    } else {
        r.name = chosen.name();
        r.made_by = version();
        r.machine = data_of(chosen).machine;
        r.rules[what] = rules_for(r.machine, name, what);
    }
    return to_plan(finished(std::move(r)));
}

plan plan_with(std::string_view name, const plan& chosen, collective what) {
    plan_data r = data_of(chosen);
    r.rules[what] = data_of(plan_of(name, chosen, what)).rules.at(what);
    return to_plan(finished(std::move(r)));
}

description describe(const plan& p, collective what, std::int64_t bytes) {
    const plan_data& r = data_of(p);
    const rule& chosen = r.choose(what, bytes);
    const bool cut = chosen.chunk > 0 && chosen.chunk < bytes;
    return {terrace::detail::describe(r.machine, chosen.stages), cut ? chosen.lanes : 1, cut ? chosen.chunk : 0};
}

std::span<const backend_kind> backend_kinds() noexcept { return kinds; }

std::unique_ptr<backend> make_backend(const setting& s, std::string_view name) {
    return std::ranges::find(kinds, name, &backend_kind::name)->make(s, name);
}

}  // namespace terrace::detail::bench
