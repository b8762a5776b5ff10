#include "pmpi/attached.hpp"

#include <memory>
#include <mutex>
#include <vector>

#include <terrace/mpi.hpp>

#include "base/at_end.hpp"
#include "pmpi/errors.hpp"
#include "pmpi/real.hpp"
#include "pmpi/report.hpp"
#include "pmpi/requests.hpp"
#include "pmpi/settings.hpp"

namespace terrace::detail::pmpi {

namespace {

struct registry {
    std::mutex lock;
    std::vector<std::unique_ptr<attached>> all;  // in the order of first calls
    std::vector<attached*> made;                 // with a communicator of Terrace, in the order of creation
    int key = MPI_KEYVAL_INVALID;
    bool over = false;
};

registry& known() {
    static auto& all = *new registry;  // never destroyed: MPI may free communicators after destructors have run
    return all;
}

// Number of communicators freed so far. The last lookup of a thread is valid if the number is still the same.
std::atomic<std::uint64_t> freed{0};
struct lookup {
    MPI_Comm comm = MPI_COMM_NULL;
    attached* found = nullptr;
    std::uint64_t freed = 0;
};
thread_local lookup last __attribute__((tls_model("initial-exec")));

void forget_lookups() noexcept { freed.fetch_add(1, std::memory_order_release); }

// Called by MPI when a communicator is freed, which is collective.
int detach(MPI_Comm, int, void* value, void*) {
    registry& r = known();
    auto* const gone = static_cast<attached*>(value);
    forget_lookups();
    if (r.over) return MPI_SUCCESS;
    const own_calls inside;
    complete_started(*gone);
    or_warn("the report leaves out a communicator", [&] { close_rows(*gone); });
    gone->by.reset();
    const std::lock_guard held(r.lock);
    std::erase(r.made, gone);
    std::erase_if(r.all, [&](const auto& a) { return a.get() == gone; });
    return MPI_SUCCESS;
}

// Called when MPI_Finalize deletes the attribute of MPI_COMM_SELF, while MPI still works. Later calls pass to MPI.
int end(MPI_Comm, int, void*, void*) {
    registry& r = known();
    const own_calls inside;
    for (const auto& a : r.all) complete_started(*a);
    or_warn("there is no report", [] { write_report(rows_of::all_ranks); });
    for (attached* const a : r.made) a->by.reset();
    r.over = true;
    forget_lookups();
    return MPI_SUCCESS;
}

// Called once, in the first call of the program.
void begin(registry& r) {
    int ends = MPI_KEYVAL_INVALID;
    PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, &detach, &r.key, nullptr);
    PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, &end, &ends, nullptr);
    PMPI_Comm_set_attr(MPI_COMM_SELF, ends, nullptr);
    PMPI_Comm_free_keyval(&ends);  // lives until the attribute is deleted
    current_settings();
}

std::unique_ptr<attached> describe(MPI_Comm comm) {
    auto made = std::make_unique<attached>();
    made->comm = comm;
    int inter = 0, same = MPI_UNEQUAL;
    PMPI_Comm_rank(comm, &made->rank);
    PMPI_Comm_size(comm, &made->size);
    PMPI_Comm_test_inter(comm, &inter);
    made->is_inter = inter != 0;
    if (!made->is_inter) PMPI_Comm_compare(comm, MPI_COMM_WORLD, &same);
    made->is_world = same == MPI_IDENT;
    made->has_all_ranks = same != MPI_UNEQUAL;
    if (current_settings().times()) made->label = label_of(*made);
    return made;
}

attached* find_or_attach(MPI_Comm comm) {
    registry& r = known();
    if (comm == MPI_COMM_NULL || r.over || !mpi_is_up()) return nullptr;
    const std::lock_guard held(r.lock);
    if (r.key == MPI_KEYVAL_INVALID) begin(r);
    void* value = nullptr;
    int found = 0;
    if (PMPI_Comm_get_attr(comm, r.key, &value, &found) != MPI_SUCCESS) return nullptr;
    if (found != 0) return static_cast<attached*>(value);
    r.all.push_back(describe(comm));
    PMPI_Comm_set_attr(comm, r.key, r.all.back().get());
    return r.all.back().get();
}

// Returns options with a log that shows lines as TERRACE_LOG sets, and keeps the algorithm of a debug line.
options options_for(attached& on) {
    options o = current_settings().of_communicators;
    if (!on.has_all_ranks) o.plan_file.clear();
    o.log = [&on, shown = std::move(o.log)](log_level level, std::string_view line) {
        if (level == log_level::debug)
            if (const std::size_t colon = line.find(": "); colon != line.npos)
                on.last_algorithm = line.substr(colon + 2);
        if (shown) shown(level, line);
    };
    return o;
}

// Returns true on all ranks if the static objects of libraries exist on all: the creation of a communicator needs those
// of yaml-cpp. A static object of the program may call MPI after their destruction.
std::atomic<bool> libraries_end{false};
bool libraries_are_there(MPI_Comm on) {
    int there = libraries_end ? 0 : 1;
    real.allreduce(MPI_IN_PLACE, &there, 1, MPI_INT, MPI_MIN, on);
    return there != 0;
}

}  // namespace

attached* attached_to(MPI_Comm comm) {
    const std::uint64_t now = freed.load(std::memory_order_acquire);
    if (comm == last.comm && now == last.freed && last.found != nullptr) return last.found;
    const own_calls inside;
    last = {comm, find_or_attach(comm), now};
    return last.found;
}

bool make_communicator(attached& on) {
    if (on.tried) return on.by.has_value();
    const own_calls inside;
    on.tried = true;
    try {
        if (libraries_are_there(on.comm)) on.by.emplace(mpi::create(on.comm, options_for(on)));
        else on.trouble = "the program ends";
        static const at_end made_after_theirs([] { libraries_end = true; });
    } catch (const std::exception& e) {
        on.trouble = e.what();
    }
    int all[] = {on.by.has_value() ? 1 : 0, can_start() ? 1 : 0};
    real.allreduce(MPI_IN_PLACE, all, 2, MPI_INT, MPI_MIN, on.comm);
    on.can_start = all[1] != 0;
    if (all[0] == 0) {
        on.by.reset();
        if (on.trouble.empty()) on.trouble = "another rank cannot make a communicator";
        const options& o = current_settings().of_communicators;
        if (on.rank == 0 && o.log)
            o.log(log_level::warn, "the drop-in passes all calls of a communicator to MPI: " + on.trouble);
        return false;
    }
    registry& r = known();
    const std::lock_guard held(r.lock);
    r.made.push_back(&on);
    return true;
}

void each_attached(const std::function<void(const attached&)>& visit) {
    for (const auto& a : known().all) visit(*a);
}

}  // namespace terrace::detail::pmpi
