#include "bench/contender.hpp"

#include <algorithm>
#include <array>

#include <terrace/mpi.hpp>
#include <terrace/version.hpp>

#include "plan/plan_yaml.hpp"
#include "planner/planner.hpp"

namespace terrace::bench {

namespace {

class planned final : public contender {
public:
    planned(const setting& s, plan p) : plan_(std::move(p)), comm_(mpi::create(s.ranks.comm(), plan_, s.how)) {}

    bool in_place() const noexcept override { return true; }

    bench::description describe(std::int64_t bytes) const override {
        const rule& r = plan_.get().choose(collective::allreduce, bytes);
        const bool cut = r.chunk > 0 && r.chunk < bytes;
        return {comm_.shape(bytes), cut ? r.lanes : 1, cut ? r.chunk : 0};
    }

    void run(const call& c) override { comm_.allreduce(c.recv, c.recv, c.count, c.type, c.op); }

private:
    plan plan_;
    communicator comm_;
};

class library final : public contender {
public:
    explicit library(const setting& s) {
        check(MPI_Comm_dup(s.ranks.comm(), &comm_), "MPI_Comm_dup");
        MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    }
    library(const library&) = delete;
    library& operator=(const library&) = delete;
    ~library() override { MPI_Comm_free(&comm_); }

    // Some of Open MPI's components (HAN without adapt) crash in place above 64 KiB.
    bool in_place() const noexcept override { return false; }

    bench::description describe(std::int64_t) const override { return {"MPI_Allreduce"}; }

    void run(const call& c) override {
        const MPI_Datatype type = c.type == element_type::float32 ? MPI_FLOAT : MPI_DOUBLE;
        check(MPI_Allreduce(c.send, c.recv, static_cast<int>(c.count), type, MPI_SUM, comm_), "MPI_Allreduce");
    }

private:
    MPI_Comm comm_ = MPI_COMM_NULL;
};

std::unique_ptr<contender> make_planned(const setting& s, std::string_view) {
    return std::make_unique<planned>(s, s.chosen);
}

// A baseline is a plan as well, made by the planner for the same machine with the same rules for lanes and chunks: what
// differs is the algorithm and nothing else.
std::unique_ptr<contender> make_baseline(const setting& s, std::string_view origin) {
    recipe r;
    r.name = s.chosen.name();
    r.made_by = version();
    r.machine = s.chosen.get().machine;
    r.rules[collective::allreduce] = rules_for(r.machine, origin);
    return std::make_unique<planned>(s, plan(std::make_shared<const recipe>(finished(std::move(r)))));
}

std::unique_ptr<contender> make_library(const setting& s, std::string_view) { return std::make_unique<library>(s); }

constexpr std::array<contender_kind, 6> kinds{{
    {"hierarchical", "what the plan says", make_planned},
    {"staged", "the best plan of reduce-scatters and allgathers alone", make_baseline},
    {"flat-ring", "one ring over all ranks", make_baseline},
    {"two-level", "reduce to one rank per node, a ring among those, broadcast", make_baseline},
    {"central", "reduce to one rank, broadcast", make_baseline},
    {"mpi", "MPI_Allreduce, out of place", make_library},
}};

}  // namespace

std::span<const contender_kind> contender_kinds() noexcept { return kinds; }

std::unique_ptr<contender> make_contender(const setting& s, std::string_view name) {
    const auto named = [&](const contender_kind& kind) { return kind.name == name; };
    return std::find_if(kinds.begin(), kinds.end(), named)->make(s, name);
}

}  // namespace terrace::bench
