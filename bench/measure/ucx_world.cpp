#include <unistd.h>

#include <algorithm>
#include <functional>

#include <terrace/ucx.hpp>

#include <terrace/mpi_world.hpp>

#include "bench/measure/world.hpp"
#include "transport/bootstrap.hpp"

namespace terrace::detail::bench {

namespace {

options for_any_machine() {
    options o = options::from_environment();
    o.plan_file.clear();  // the bench's own plan may be for another machine
    return o;
}

// The ranks of a run over UCX. The operations of world use a communicator of their own.
class ucx_ranks final : public world {
public:
    ucx_ranks() : all_(ucx::create(for_any_machine())) {
        rank_ = all_.rank();
        size_ = all_.size();
        const auto own = static_cast<std::uint64_t>(std::hash<std::string>{}(this_node()));
        std::vector<std::uint64_t> names(static_cast<std::size_t>(size_));
        all_.allgather(std::span(&own, 1), names);
        for (const std::uint64_t name : names)
            hosts_.push_back(static_cast<int>(std::find(names.begin(), names.end(), name) - names.begin()));
    }

    void barrier() const override { sum(0); }
    void maximum(std::span<double> mine) const override { all_.allreduce(mine, reduce_op::max); }
    std::int64_t sum(std::int64_t mine) const override {
        all_.allreduce(std::span(&mine, 1));
        return mine;
    }

    std::string error_lines(const std::string& what) const override {
        return detail::error_lines("terrace-bench", {{rank_, what}}, size_);
    }
    // The other ranks detect that this rank has failed.
    void abort(int code) const override { _exit(code); }

protected:
    std::string text_from(int source, std::string text) const override {
        auto length = static_cast<std::int64_t>(text.size());
        all_.broadcast(std::span(&length, 1), source);
        text.resize(static_cast<std::size_t>(length));
        all_.broadcast(std::span(text), source);
        return text;
    }

    std::vector<int> gather(int mine) const override {
        std::vector<int> all(static_cast<std::size_t>(size_));
        all_.allgather(std::span(&mine, 1), all);
        return all;
    }

private:
    mutable communicator all_;
};

}  // namespace

std::unique_ptr<world> world_over_ucx() { return std::make_unique<ucx_ranks>(); }

}  // namespace terrace::detail::bench
