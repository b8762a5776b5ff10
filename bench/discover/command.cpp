#include "bench/modes.hpp"

#include <chrono>
#include <map>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <terrace/error.hpp>
#include <terrace/ucx.hpp>
#include <terrace/version.hpp>

#include "base/hosts.hpp"
#include "base/index.hpp"
#include "base/text_parts.hpp"
#include "base/wire.hpp"
#include "bench/discover/contradictions.hpp"
#include "bench/discover/discover.hpp"
#include "bench/discover/prober.hpp"
#include "bench/measure/mpi_backend.hpp"
#include "bench/measure/processors.hpp"
#include "machine/hierarchy_yaml.hpp"
#include "tools/common/import_child.hpp"
#include "tools/common/output_file.hpp"
#include "tools/common/progress.hpp"
#include "topology/formats/cluster.hpp"

namespace terrace::detail::bench {

namespace {

constexpr int contradicted = 1, cannot_tell = 3;
constexpr double time_of_any = 45, time_of_rank = 1;  // [s], the usual time limit

// Returns, by place of the found machine, the place in the file: by host names if the file has those of all ranks, else
// rank r is at place r.
std::vector<int> places_in(const hierarchy& file, const std::vector<int>& ranks,
                           const std::vector<std::string>& hosts) {
    std::map<std::string, int> next;
    for (std::size_t n = 0; n < file.hosts.size(); ++n)
        next[file.hosts[n]] = file.shape.first_rank(file.node_levels() - 1, static_cast<int>(n));
    std::vector<int> place_of(ranks.size());
    for (std::size_t r = 0; r < ranks.size(); ++r) {
        const auto node = next.find(hosts[r]);
        if (node == next.end()) return ranks;
        place_of[r] = node->second++;
    }
    std::vector<int> places;
    for (const int r : ranks) places.push_back(place_of[at(r)]);
    return places;
}

std::optional<topology> load(const world& w, const discover_settings& s) {
    return w.together([&]() -> std::optional<topology> {
        if (w.first()) expect_replaceable(s.output_file, {s.compare_file}, s.force);
        if (w.size() < 2) throw usage_error("--discover: one rank has nothing to measure; start several");
        if (s.compare_file.empty()) return {};
        topology stated = read_cluster(s.compare_file, read_node_in_child);
        if (stated.machine.ranks() != w.size())
            throw input_error(
                s.compare_file.string(), 0, 0,
                fmt::format("{} ranks, but {} run; start one for each place", stated.machine.ranks(), w.size()));
        return stated;
    });
}

bool over_ucx(const world& w, const discover_settings& s) { return s.ucx || !w.has_mpi(); }

communicator connect(const world& w, const discover_settings& s) {
    options o = options::from_environment();
    o.plan_file.clear();  // that plan may be for another machine
    return over_ucx(w, s) ? ucx::create(o) : create_over_mpi(w, o);
}

std::string commented(const std::string& text) {
    std::string lines;
    for_each_line(text, [&](std::string_view line, int) { lines += fmt::format("# {}\n", line); });
    return lines;
}

std::string sentences(const std::vector<std::string>& all, std::string_view indent) {
    std::string text;
    for (const std::string& each : all) text += fmt::format("{}{}\n", indent, each);
    return text;
}

// Returns the contradictions to the file, and the levels that are not sure.
std::string comparison_text(const discovery& d, const hierarchy& found, const std::vector<std::string>& differences,
                            const std::string& file) {
    std::vector<std::string> unsure;
    for (std::size_t l = at(d.sure_levels()); l < found.levels.size(); ++l)
        unsure.push_back(fmt::format("level \"{}\"", found.levels[l].name));
    std::string text;
    if (!differences.empty()) text += fmt::format("Contradictions to {}:\n{}", file, sentences(differences, "  "));
    if (!unsure.empty())
        text += fmt::format("Cannot tell whether {} is right about {}.\n", file, fmt::join(unsure, ", "));
    return text.empty() ? fmt::format("Nothing contradicts {}.\n", file) : text;
}

struct result {
    int status = success;
    std::string text, file;  ///< `file` is empty if time ran out before all of the machine was found
};

result describe(const world& w, const discover_settings& s, const discovery& d, const std::vector<std::string>& hosts,
                const processors& computing, const std::optional<topology>& stated, double seconds) {
    const std::string probed = fmt::format("{} probes of {} ranks in {:.1f} s\n", d.questions, w.size(), seconds),
                      compared = s.compare_file.string();
    result r{d.sure() ? success : cannot_tell, {}, {}};
    if (d.complete) {
        discovered_machine found = machine_of(d, hosts);
        found.machine.processors = computing;
        r.file = fmt::format("# Found by terrace-bench {} --discover, {}, {}, ranks: {}.\n", version(), now_text(),
                             over_ucx(w, s) ? "UCX" : w.library(), w.size()) +
                 write_cluster({s.name.empty() ? "discovered" : s.name, found.machine});
        r.text = discovery_text(d, found.machine) + probed;
        if (stated) {
            const std::vector<std::string> differences = contradictions(
                found.machine, places_in(stated->machine, found.ranks, hosts), stated->machine, d.sure_levels());
            if (!differences.empty()) r.status = contradicted;
            r.text += comparison_text(d, found.machine, differences, compared);
        }
    } else {
        r.text = sentences(d.notes, "") + probed;
        if (stated) r.text += fmt::format("Cannot tell whether {} is right.\n", compared);
    }
    if (!d.sure())
        r.text += fmt::format("Measure again when nothing else runs on these machines and their network{}.\n",
                              d.complete ? "" : ", or with a longer --time-limit");
    return r;
}

}  // namespace

int discover_machine(const world& w, const discover_settings& s) {
    const std::optional<topology> stated = load(w, s);
    progress shown(w.first(), s.progress);
    shown.now("connecting");
    communicator comm = connect(w, s);
    const std::vector<std::string> hosts = prober::names(comm, host_name());
    processors computing{.reduction = as_printed(shared_reduction_rate(w))};
    if (over_ucx(w, s)) computing.segment = ucx_segment;
    prober net(comm);
    result r;
    if (w.first()) {
        const auto begin = std::chrono::steady_clock::now();
        const auto seconds = [&] {
            return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        };
        discover_options o{.hosts = hosts, .trust_hosts = s.trust_hosts, .seed = s.seed};
        const double limit = s.time_limit > 0 ? s.time_limit : time_of_any + time_of_rank * w.size();
        o.may_ask = [&](const std::string& step, int asked) {
            shown.show([&] {
                return fmt::format("{:.0f} of at most {:.0f} s: {}, {} probes", seconds(), limit, step, asked);
            });
            return seconds() < limit;
        };
        const discovery d = discover(net, o);
        shown.clear();
        r = describe(w, s, d, hosts, computing, stated, seconds());
        net.finish();
    } else {
        net.answer();
    }
    w.on_first([&] {
        if (!s.output_file.empty() && !r.file.empty()) write_output(s.output_file, r.file);
    });
    // Printed output must remain a valid file, so the report becomes comments.
    if (s.output_file.empty()) say(w, s.compare_file.empty() ? commented(r.text) + r.file : r.text);
    else if (is_printed(s.output_file)) say(w, r.text);
    else say(w, r.text + fmt::format("{}: {}\n", r.file.empty() ? "not written" : "written", s.output_file.string()));
    return std::stoi(w.from_first(fmt::to_string(r.status)));
}

}  // namespace terrace::detail::bench
