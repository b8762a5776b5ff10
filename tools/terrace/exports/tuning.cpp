// Files that tell an MPI library which of its own algorithms to use for which message size.

#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <terrace/error.hpp>

#include "tools/terrace/exports/formats.hpp"
#include "tools/terrace/exports/library_algorithms.hpp"

namespace terrace::detail {

namespace {

constexpr std::int64_t smallest = 64, largest = std::int64_t{1} << 28;  // sizes at which algorithms are priced [bytes]

// The machine as it is priced: each step at twice what was measured between two ranks, since with all of them at work
// it waits for the last one. So an algorithm of more steps must save more than they cost at worst.
hierarchy with_late_ranks(hierarchy machine) {
    for (level& l : machine.levels) {
        l.latency *= 2;
        l.overhead *= 2;
    }
    return machine;
}

// Returns the fastest algorithm of a library by message size: at powers of two, a change in the middle between two.
// @param number the library's number of an algorithm; 0: it has none
std::vector<library_choice> choices(const hierarchy& machine, collective what, int library_algorithm::*number) {
    std::vector<library_choice> made;
    for (std::int64_t bytes = smallest; bytes <= largest; bytes *= 2) {
        const library_algorithm* best = nullptr;
        double shortest = std::numeric_limits<double>::infinity();
        for (const library_algorithm& a : library_algorithms()) {
            if (a.what != what || a.*number == 0) continue;
            const double time = library_time(machine, a, bytes);
            if (time >= shortest) continue;
            best = &a;
            shortest = time;
        }
        if (best != nullptr && (made.empty() || made.back().how != best))
            made.push_back({made.empty() ? 0 : bytes * 3 / 4, best});
    }
    return made;
}

void check(const hierarchy& machine, const char* format) {
    if (machine.torus_level() < machine.depth())
        throw usage_error(
            fmt::format("terrace export --to {}: a torus has several ways between two ranks, which "
                        "cannot be priced for other libraries",
                        format));
    if (machine.ranks() < 2) throw usage_error(fmt::format("terrace export --to {}: there is one rank", format));
}

struct tuned_collective {
    collective what;
    int openmpi;             // its number in Open MPI's file
    std::string_view upper;  // its name in variables
    std::string_view mpich;  // in MPICH's file
};
constexpr tuned_collective tuned_collectives[]{{collective::allgather, 0, "ALLGATHER", "Allgather"},
                                               {collective::allreduce, 2, "ALLREDUCE", "Allreduce"},
                                               {collective::broadcast, 7, "BCAST", "Bcast"},
                                               {collective::reduce, 11, "REDUCE", "Reduce"}};

library_choices all_choices(const hierarchy& machine, int library_algorithm::*number) {
    const hierarchy late = with_late_ranks(machine);
    library_choices made;
    for (const tuned_collective& c : tuned_collectives) made[c.what] = choices(late, c.what, number);
    return made;
}

}  // namespace

std::string openmpi_rules_text(int ranks, const library_choices& choices) {
    std::string out = fmt::format("{} # collectives\n", choices.size());
    for (const tuned_collective& c : tuned_collectives) {
        const auto of = choices.find(c.what);
        if (of == choices.end()) continue;
        // Algorithm 0 is Open MPI's own choice.
        out += fmt::format("{} # {}\n3 # sizes of communicators\n1 1\n0 0 0 0\n{} # ranks\n{} # message sizes\n",
                           c.openmpi, to_string(c.what), ranks, of->second.size());
        for (const library_choice& one : of->second)
            out += fmt::format("{} {} 0 {} # {}\n", one.from, one.how->openmpi, one.how->segment, one.how->name);
        out += fmt::format("{} 1\n0 0 0 0\n", ranks + 1);
    }
    return out;
}

std::string openmpi_rules(const plan_data& plan, const export_options&) {
    check(plan.machine, "openmpi-rules");
    return fmt::format(
        "# made by terrace export --to openmpi-rules: {}, communicators of {} ranks\n"
        "# mpirun --mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_dynamic_rules_filename FILE ...\n{}",
        plan.name, plan.machine.ranks(),
        openmpi_rules_text(plan.machine.ranks(), all_choices(plan.machine, &library_algorithm::openmpi)));
}

std::string intel_variables(const plan_data& plan, const export_options&) {
    check(plan.machine, "intel-mpi");
    const int ranks = plan.machine.ranks();
    const library_choices found = all_choices(plan.machine, &library_algorithm::intel);
    std::string out = fmt::format("# made by terrace export --to intel-mpi: {}; source it before mpirun\n", plan.name);
    for (const tuned_collective& c : tuned_collectives) {
        const std::vector<library_choice>& all = found.at(c.what);
        out += fmt::format("export I_MPI_ADJUST_{}='", c.upper);
        for (std::size_t n = 0; n < all.size(); ++n)
            out += fmt::format("{}{}:{}-{}@{}-{}", n == 0 ? "" : ";", all[n].how->intel, all[n].from,
                               n + 1 < all.size() ? all[n + 1].from - 1 : std::int64_t{2147483647}, ranks, ranks);
        out += "'\n";
    }
    return out;
}

std::string mpich_compositions(const plan_data& plan, const export_options&) {
    check(plan.machine, "mpich");
    using json = nlohmann::ordered_json;
    const int ranks = plan.machine.ranks();
    const library_choices found = all_choices(plan.machine, &library_algorithm::mpich);
    json all = json::object();
    for (const tuned_collective& c : tuned_collectives) {
        const std::vector<library_choice>& choices = found.at(c.what);
        if (choices.empty()) continue;
        std::string name(c.mpich);
        name[0] = static_cast<char>(name[0] - 'A' + 'a');
        const auto composition = [&](int number) {
            constexpr std::string_view letters[]{"alpha", "beta", "gamma"};
            const std::string_view letter = letters[number - 1];
            return json{{fmt::format("composition=MPIDI_{}_intra_composition_{}", c.mpich, letter), json::object()}};
        };
        const json flat = composition(c.what == collective::allreduce ? 2 : 3), by_nodes = composition(1);
        json by_size = json::object();
        for (std::size_t n = 0; n < choices.size(); ++n) {
            const std::string size =
                n + 1 < choices.size() ? fmt::format("<={}", choices[n + 1].from - 1) : std::string("=any");
            by_size["avg_msg_size" + size] = composition(choices[n].how->mpich);
        }
        json by_ranks{{fmt::format("comm_size<{}", ranks), by_nodes},
                      {fmt::format("comm_size<={}", ranks), by_size},
                      {"comm_size=any", by_nodes}};
        if (c.what != collective::broadcast)
            by_ranks = json{{"is_commutative=yes", by_ranks}, {"is_commutative=no", flat}};
        all["collective=" + name] = {
            {"comm_type=intra", {{"comm_hierarchy=parent", by_ranks}, {"comm_hierarchy=any", flat}}}};
    }
    return all.dump(1) + "\n";
}

}  // namespace terrace::detail
