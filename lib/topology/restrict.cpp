#include "topology/restrict.hpp"

#include <algorithm>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/hosts.hpp"
#include "base/text_check.hpp"
#include "base/text_parts.hpp"
#include "machine/hierarchy_yaml.hpp"
#include "topology/words.hpp"

namespace terrace::detail {

namespace {

// Adds up the slots of a host's lines. If there are several lines, one without slots counts as one, as in Open MPI.
void add(std::vector<job_host>& hosts, std::unordered_map<std::string, std::size_t>& index, job_host h) {
    const auto [found, is_new] = index.emplace(h.name, hosts.size());
    if (is_new) return hosts.push_back(std::move(h));
    std::optional<int>& slots = hosts[found->second].slots;
    slots = std::min(slots.value_or(1) + h.slots.value_or(1), max_ranks);
}

}  // namespace

std::vector<job_host> parse_hostfile(std::string_view text, const std::string& file) {
    check_text(text, file);
    std::vector<job_host> hosts;
    std::unordered_map<std::string, std::size_t> index;
    for_each_line(text, [&](std::string_view content, int line) {
        const std::vector<word> words = words_of(content.substr(0, content.find('#')), line);
        if (words.empty()) return;
        int column = words.front().column;
        const auto fail = [&](const std::string& message) { throw input_error(file, line, column, message); };
        std::optional<int> slots;
        const auto set_slots = [&](std::string_view number) {
            slots = as_number<int>(number);
            if (!slots || *slots < 1 || *slots > max_ranks)
                fail(fmt::format("\"{}\" is not a number of slots from 1 to {}", number, max_ranks));
        };
        std::string_view list = words.front().key;
        if (words.front().value) fail("the line begins with no host; write one, and if need be slots=N behind it");
        if (const std::size_t colon = list.find(':'); colon != list.npos) {
            set_slots(list.substr(colon + 1));
            list = list.substr(0, colon);
        }
        for (const word& w : std::span(words).subspan(1)) {
            column = w.column;
            if (w.key == "slots" && w.value) set_slots(*w.value);
            else if (!w.value || (w.key != "max_slots" && w.key != "max-slots"))
                fail(fmt::format("\"{}\" is not read; write a host and, if need be, slots=N", w.key));
        }
        column = words.front().column;
        try {
            for (std::string& name : expand_hosts(list, max_hosts - hosts.size()))
                add(hosts, index, {std::move(name), slots});
        } catch (const usage_error& e) {
            fail(e.what());
        }
    });
    if (hosts.empty()) throw input_error(file, 0, 0, "names no hosts");
    return hosts;
}

std::vector<job_host> parse_hostlist(std::string_view list) {
    std::vector<job_host> hosts;
    std::unordered_set<std::string> seen;
    for (std::string& name : expand_hosts(list))
        if (seen.insert(name).second) hosts.push_back({std::move(name), {}});
    return hosts;
}

hierarchy restricted(const hierarchy& machine, const std::vector<job_host>& hosts) {
    if (machine.hosts.empty())
        throw usage_error("the machine's nodes have no names; give a level `hosts:`, or a Slurm topology.conf");
    const host_index nodes(machine.hosts, "the machine's");
    const std::vector<int> sizes = machine.node_sizes();
    std::vector<int> used(sizes.size(), 0);
    for (const job_host& h : hosts) {
        const std::size_t n = nodes.find(h.name);
        if (used[n] > 0)
            throw usage_error(
                fmt::format("host \"{}\" is the machine's \"{}\", as another one before it is; name it "
                            "once",
                            h.name, machine.hosts[n]));
        used[n] = std::min(h.slots.value_or(sizes[n]), sizes[n]);
    }
    std::vector<int> ranks;
    int first = 0;
    for (std::size_t n = 0; n < sizes.size(); first += sizes[n++])
        for (int r = 0; r < used[n]; ++r) ranks.push_back(first + r);
    return without_idle_levels(part_of(machine, ranks));
}

topology restricted(topology whole, const std::vector<job_host>& hosts) {
    std::unordered_map<std::string_view, int> types;
    for (std::size_t n = 0; n < whole.machine.hosts.size() && !whole.types.empty(); ++n)
        types.emplace(whole.machine.hosts[n], whole.type_of_node[n]);
    hierarchy part = restricted(whole.machine, hosts);
    whole.type_of_node.clear();
    if (!whole.types.empty())
        for (const std::string& host : part.hosts) whole.type_of_node.push_back(types.at(host));
    whole.machine = std::move(part);
    return whole;
}

}  // namespace terrace::detail
