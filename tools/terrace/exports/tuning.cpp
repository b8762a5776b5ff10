// Files that set the algorithms of an MPI library by message size.

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <terrace/error.hpp>

#include "base/index.hpp"
#include "base/letters.hpp"
#include "base/text_parts.hpp"
#include "machine/level_yaml.hpp"
#include "tools/terrace/exports/formats.hpp"
#include "tools/terrace/exports/library_algorithms.hpp"
#include "topology/formats/json_file.hpp"

namespace terrace::detail {

namespace {

constexpr std::int64_t smallest = 64, largest = std::int64_t{1} << 28;   // sizes at which algorithms are priced [bytes]
constexpr std::int64_t largest_intel = std::numeric_limits<int>::max();  // of a message [bytes]
constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr double clearly = 1.25;  // factor by which Open MPI's own algorithm must be slower to be replaced

// Returns the fastest algorithm of a library by message size. Between two powers of two, times are nearly linear in the
// bytes, and Open MPI changes its choice at most once. So an algorithm better at both ends is better between them.
// @param number the library's number of an algorithm; 0: the library has none
std::vector<library_choice> choices(const hierarchy& machine, collective what, int library_algorithm::*number) {
    const bool knows_own = number == &library_algorithm::openmpi || number == &library_algorithm::han;
    std::vector<library_choice> made;
    for (std::int64_t bytes = smallest; bytes <= largest; bytes *= 2) {
        const std::array ends{bytes, 2 * bytes - 1};
        const auto times = [&](const library_algorithm& a) {
            return std::array{library_time(machine, a, ends[0]), library_time(machine, a, ends[1])};
        };
        std::array most{infinite, infinite};  // upper bounds for a replacement
        for (const std::int64_t end : ends) {
            if (!knows_own) break;
            const library_algorithm* own = openmpi_choice(what, machine.ranks(), static_cast<double>(end));
            const std::array own_times = own == nullptr ? std::array<double, 2>{} : times(*own);
            for (std::size_t n = 0; n < most.size(); ++n) most[n] = std::min(most[n], own_times[n] / clearly);
        }
        const library_algorithm* best = nullptr;
        double shortest = infinite;
        for (const library_algorithm& a : library_algorithms()) {
            if (a.what != what || a.*number == 0) continue;
            const std::array found = times(a);
            if (found[0] + found[1] >= shortest || found[0] > most[0] || found[1] > most[1]) continue;
            best = &a;
            shortest = found[0] + found[1];
        }
        if (best == nullptr && !knows_own) continue;
        if (made.empty()) made.push_back({0, knows_own ? nullptr : best});
        if (made.back().how != best) made.push_back({bytes, best});
    }
    return made;
}

// @throws usage_error if the machine cannot be priced
library_choices all_choices(const hierarchy& machine, const char* format, int library_algorithm::*number) {
    if (machine.has_torus())
        throw usage_error(
            fmt::format("terrace export --to {}: a torus has several ways between two ranks, which "
                        "cannot be priced for other libraries",
                        format));
    if (machine.ranks() < 2) throw usage_error(fmt::format("terrace export --to {}: there is one rank", format));
    // Each step counts twice the time measured between two ranks, since it waits for the slowest of all ranks. So an
    // algorithm with more steps must save more than their worst-case cost.
    hierarchy late = machine;
    for (level& l : late.levels) {
        l.latency *= 2;
        l.overhead *= 2;
    }
    library_choices made;
    for (const library_collective& c : library_collectives()) {
        std::vector<library_choice> of = choices(late, c.what, number);
        if (!of.empty()) made[c.what] = std::move(of);
    }
    return made;
}

constexpr std::array<std::string_view, 3> greek{"alpha", "beta", "gamma"};  // suffixes of MPICH's compositions

constexpr std::string_view mpich_names =
    " allgather allgatherv allreduce alltoall alltoallv alltoallw barrier bcast exscan gather gatherv reduce"
    " reduce_scatter reduce_scatter_block scan scatter scatterv ";

// A selector in MPICH's file, and the words allowed after "="; bounds follow "<" or "<=".
struct selector {
    std::string_view name, words;
    bool bounds = false;
};
constexpr selector selectors[]{{"collective", mpich_names},
                               {"comm_type", " intra inter any "},
                               {"comm_hierarchy", " parent node_roots node flat any "},
                               {"comm_size", " pow2 node_comm_size any ", true},
                               {"comm_avg_ppn", " any ", true},
                               {"count", " any ", true},
                               {"avg_msg_size", " any ", true},
                               {"total_msg_size", " any ", true},
                               {"is_multi_threaded", " yes no any "},
                               {"is_commutative", " yes no any "},
                               {"is_sendbuf_inplace", " yes no any "},
                               {"is_op_built_in", " yes no any "},
                               {"is_block_regular", " yes no any "},
                               {"is_node_consecutive", " yes no any "}};

bool is_one_of(std::string_view words, std::string_view word) {
    return word.find(' ') == word.npos && words.find(fmt::format(" {} ", word)) != words.npos;
}

// Returns true for compositions of this collective in MPICH 4.0.
bool is_composition(std::string_view key, std::string_view collective) {
    constexpr std::string_view begin = "composition=MPIDI_", middle = "_intra_composition_";
    const std::size_t there = key.find(middle);
    if (!key.starts_with(begin) || there == key.npos) return false;
    std::string name(key.substr(begin.size(), there - begin.size()));
    if (!name.empty()) name[0] = in_lower_case(name[0]);
    const int known = is_one_of(" allreduce bcast reduce ", name) ? 3 : is_one_of(" barrier scan ", name) ? 2 : 1;
    return name == collective &&
           std::ranges::count(greek.begin(), greek.begin() + known, key.substr(there + middle.size())) > 0;
}

bool is_selector(std::string_view key) {
    const std::size_t end = key.find_first_of("=<");
    const auto found = std::ranges::find(selectors, key.substr(0, std::min(end, key.size())), &selector::name);
    if (end == key.npos || found == std::end(selectors)) return false;
    const std::string_view value = key.substr(std::min(key.size(), key.find_first_not_of("=<", end)));
    if (key[end] == '=') return is_one_of(found->words, value);
    // MPICH reads an int.
    return found->bounds && value.find_first_not_of("0123456789") == value.npos && as_number<int>(value);
}

// Returns true if some choice applies to every call. MPICH has its own choices for collectives that a file lacks.
bool has_last_choice(const json_value& choices) {
    const auto has = [&](const std::string& key) {
        return std::ranges::any_of(choices.entries, [&](const auto& entry) { return entry.first == key; });
    };
    return std::ranges::any_of(choices.entries, [&](const auto& entry) {
        const std::string& key = entry.first;
        return key.starts_with("composition=") || key.starts_with("collective=") || key == "comm_type=intra" ||
               key.ends_with("=any") || (key.ends_with("=yes") && has(key.substr(0, key.size() - 3) + "no"));
    });
}

// Adds keys in their order: MPICH uses the first that applies.
void add_lines(const json_value& choices, const std::string& before, std::vector<std::string>& lines) {
    for (const auto& [key, inner] : choices.entries) {
        lines.push_back(fmt::format("{}{}", before, key));
        add_lines(inner, lines.back() + " ", lines);
    }
}

// Counts rules. MPICH aborts on unknown keys, on compositions of another collective, and on calls without a choice.
int mpich_rules(const json_file& file, const json_value& choices, std::string_view collective) {
    if (choices.what != json_value::kind::map || choices.entries.empty()) file.fail(choices, "choices expected here");
    int rules = 0;
    for (const auto& [key, inner] : choices.entries) {
        if (key.starts_with("algorithm=")) file.fail(inner, fmt::format("{:?}: only compositions are read", key));
        const bool ends = is_composition(key, collective);
        if (!ends && !is_selector(key))
            file.fail(inner,
                      fmt::format("MPICH knows no {:?}{}{}", key, collective.empty() ? "" : " for ", collective));
        if (ends && choices.entries.size() > 1) file.fail(inner, fmt::format("{:?} is one of several choices", key));
        constexpr std::string_view begin = "collective=";
        rules += ends ? 1
                      : mpich_rules(file, inner,
                                    key.starts_with(begin) ? std::string_view(key).substr(begin.size()) : collective);
    }
    if (!has_last_choice(choices)) file.fail(choices, "none of these choices holds for all other calls");
    return rules;
}

// Reads the ranges of a variable, algorithm:from-to@ranks-ranks. @throws input_error if they do not cover each size
// exactly once
void read_ranges(const file_line& line, const library_collective& of, std::string_view ranges, std::int64_t& ranks,
                 std::vector<std::string>& lines) {
    const std::regex form(R"((\d+):(\d+)-(\d+)@(\d+)-(\d+))");
    std::int64_t next = 0;
    for (const std::string_view range : split_at(';', ranges)) {
        const std::vector<std::string> parts = file_line{range, line.number, line.file}.parts(form, "2:0-4095@8-8");
        if (!std::ranges::any_of(library_algorithms(), [&](const library_algorithm& a) {
                return a.what == of.what && a.intel != 0 && parts[1] == fmt::format("{}", a.intel);
            }))
            line.fail(fmt::format("algorithm {} of {} is not known", parts[1], to_string(of.what)));
        if (line.integer(parts[2], 0, largest_intel) != next)
            line.fail(fmt::format("sizes from {}, but the next one is {}", parts[2], next));
        next = line.integer(parts[3], next, largest_intel) + 1;
        const std::int64_t same = line.integer(parts[4], 2, max_ranks);
        if (ranks == 0) ranks = same;
        if (same != ranks || parts[5] != parts[4])
            line.fail(fmt::format("for {} to {} ranks, the first one for {}", parts[4], parts[5], ranks));
        lines.push_back(fmt::format("{} {}", to_string(of.what), range));
    }
    if (next <= largest_intel) line.fail(fmt::format("no sizes from {} on", next));
}

}  // namespace

std::string openmpi_rules(const plan_data& plan, const export_options&) {
    return fmt::format(
        "# made by terrace export --to openmpi-rules: {}, communicators of {} ranks\n"
        "# mpirun --mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_dynamic_rules_filename FILE ...\n{}",
        plan.name, plan.machine.ranks(),
        openmpi_rules_text(plan.machine.ranks(),
                           all_choices(plan.machine, "openmpi-rules", &library_algorithm::openmpi)));
}

plan_facts read_intel_variables(const named_text& file) {
    std::map<collective, std::vector<std::string>> found;
    std::int64_t ranks = 0;
    for (const file_line& line : lines_of(file)) {
        constexpr std::string_view begin = "export I_MPI_ADJUST_";
        const std::size_t end = line.text.find("='");
        const auto of = std::ranges::find_if(library_collectives(), [&](const library_collective& c) {
            return line.text.substr(0, end) == fmt::format("{}{}", begin, c.upper);
        });
        if (of == library_collectives().end() || end == line.text.npos || !line.text.ends_with('\''))
            line.fail(fmt::format("no line as {}ALLREDUCE='2:0-2147483647@8-8'", begin));
        if (found.contains(of->what)) line.fail(fmt::format("{} again", of->upper));
        read_ranges(line, *of, line.text.substr(end + 2, line.text.size() - end - 3), ranks, found[of->what]);
    }
    if (found.empty()) throw input_error(file.name, 0, 0, "no variables");
    plan_facts made{
        fmt::format("variables for Intel MPI on {} ranks: {} collectives, all sizes", ranks, found.size()), {}, {}};
    for (const auto& [what, lines] : found) made.lines.insert(made.lines.end(), lines.begin(), lines.end());
    return made;
}

// Writes rules of the component `han`, which Open MPI 5 asks first: node by node, or by the component `tuned`. Other
// numbers of ranks, and collectives without prices, stay with `han`.
std::string openmpi_han(const plan_data& plan, const export_options&) {
    const int ranks = plan.machine.ranks();
    library_choices found = all_choices(plan.machine, "openmpi-han", &library_algorithm::han);
    found.erase(collective::allgather);
    std::string out = fmt::format(
        "# made by terrace export --to openmpi-han: {}, communicators of {} ranks\n"
        "# mpirun --mca coll_han_use_dynamic_file_rules 1 --mca coll_han_dynamic_rules_filename FILE ...\n"
        "{} # collectives\n",
        plan.name, ranks, found.size());
    for (const library_collective& c : library_collectives()) {
        const auto of = found.find(c.what);
        if (of == found.end()) continue;
        out += fmt::format(
            "{} # {}\n1 # topological level\n2 # all ranks\n3 # sizes of communicators\n1 1\n0 han\n{} {}\n", c.openmpi,
            to_string(c.what), ranks, of->second.size());
        for (const auto& [from, how] : of->second)
            out += fmt::format("{} {}\n", from, how == nullptr ? "tuned" : "han");
        out += fmt::format("{} 1\n0 han\n", ranks + 1);
    }
    return out;
}

std::string intel_variables(const plan_data& plan, const export_options&) {
    const int ranks = plan.machine.ranks();
    const library_choices found = all_choices(plan.machine, "intel-mpi", &library_algorithm::intel);
    std::string out = fmt::format("# made by terrace export --to intel-mpi: {}; source it before mpirun\n", plan.name);
    for (const library_collective& c : library_collectives()) {
        const auto of = found.find(c.what);
        if (of == found.end()) continue;
        const std::vector<library_choice>& all = of->second;
        out += fmt::format("export I_MPI_ADJUST_{}='", c.upper);
        for (std::size_t n = 0; n < all.size(); ++n)
            out += fmt::format("{}{}:{}-{}@{}-{}", n == 0 ? "" : ";", all[n].how->intel, all[n].from,
                               n + 1 < all.size() ? all[n + 1].from - 1 : largest_intel, ranks, ranks);
        out += "'\n";
    }
    return out;
}

plan_facts read_mpich_compositions(const named_text& file) {
    const json_file all(file.name, file.text, nullptr, 100'000);
    plan_facts made{fmt::format("{} rules for MPICH", mpich_rules(all, all.root(), "")), {}, {}};
    add_lines(all.root(), "", made.lines);
    return made;
}

std::string mpich_compositions(const plan_data& plan, const export_options&) {
    return mpich_compositions_text(plan.machine.ranks(), all_choices(plan.machine, "mpich", &library_algorithm::mpich));
}

std::string mpich_compositions_text(int ranks, const library_choices& of_collectives) {
    using json = nlohmann::ordered_json;
    json all = json::object();
    for (const library_collective& c : library_collectives()) {
        const auto of = of_collectives.find(c.what);
        if (of == of_collectives.end()) continue;
        const std::vector<library_choice>& choices = of->second;
        std::string name(c.mpich);
        name[0] = in_lower_case(name[0]);
        const auto composition = [&](int number) {
            return json{{fmt::format("composition=MPIDI_{}_intra_composition_{}", c.mpich, greek[at(number - 1)]),
                         json::object()}};
        };
        const json flat = composition(c.what == collective::allreduce ? 2 : 3), by_nodes = composition(1);
        json by_size = json::object();
        for (std::size_t n = 0; n < choices.size(); ++n) {
            const std::string size =
                n + 1 < choices.size() ? fmt::format("<={}", choices[n + 1].from - 1) : std::string("=any");
            by_size["avg_msg_size" + size] = composition(choices[n].how->mpich);
        }
        // In MPICH 4.0, "comm_size<" below "is_commutative" also includes equality.
        json by_ranks{{fmt::format("comm_size<={}", ranks - 1), by_nodes},
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
