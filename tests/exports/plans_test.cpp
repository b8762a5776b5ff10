// Formats of plans: an exported file reads back. A damaged file is refused, differs from the plan, or means the same;
// the last is judged without the reader.

#include <algorithm>
#include <map>
#include <regex>

#include <gtest/gtest.h>
#include <pugixml.hpp>

#include "exports/damage.hpp"
#include "exports/random_calls.hpp"
#include "plan/plan_yaml.hpp"
#include "support/effort.hpp"
#include "support/planner_machines.hpp"
#include "support/refusal.hpp"
#include "tools/terrace/exports/formats.hpp"

namespace terrace::detail::test {
namespace {

// Returns a random plan with all data that the format needs.
plan_data make_plan(const export_format& format, dice& d) {
    plan_data plan;
    if ((format.name == "json" || format.name == "simgrid") && d.coin()) plan = make_call(d, all_collectives).plan;
    else if (format.name == "nics") plan.machine = with_nics(two_racks(), d.coin() ? "{count: 2}" : "{count: 3}");
    else do
            plan.machine = random_racks(d);
        while (plan.machine.ranks() < 2);
    if (plan.rules.empty())
        plan.rules[collective::allreduce] = {rule_of(random_stages(plan.machine, collective::allreduce, d))};
    for (auto& [what, rules] : plan.rules) rules.back().at = 1 << 20;
    plan.name = "drawn";
    for (std::size_t n = 0; n < plan.machine.node_sizes().size(); ++n)
        plan.machine.hosts.push_back(fmt::format("tux{}", n + d.below(2) * 100));
    return parse_plan(write_plan(plan), "drawn");  // rounds numbers as files do
}

std::string meaning(const pugi::xml_node& node) {
    std::vector<std::string> parts;
    for (const pugi::xml_attribute& a : node.attributes()) parts.push_back(fmt::format("{}={}", a.name(), a.value()));
    for (const pugi::xml_node& inner : node.children()) parts.push_back(meaning(inner));
    if (std::string_view(node.name()) != "zoneRoute") std::ranges::sort(parts);  // links of a route have an order
    return fmt::format("{}{}", node.name(), parts);
}

// Returns a file's text in a normal form, without its reader. Equal forms mean the same; unequal ones may, too.
std::string meaning(std::string_view format, const std::string& text) {
    if (format == "json") return nlohmann::json::parse(text, nullptr, false).dump();
    if (format == "mpich") return nlohmann::ordered_json::parse(text, nullptr, false).dump();
    if (format == "simgrid") {
        pugi::xml_document all;
        return all.load_string(text.c_str()) ? meaning(all.child("platform")) : "no XML";
    }
    std::vector<std::string> lines;
    std::map<std::string, std::string> nics;
    for (std::string line : lines_in(text)) {
        if (format.starts_with("openmpi-")) line = line.substr(0, line.find('#'));
        if (const std::size_t from = line.find_first_not_of(" \t"); from == line.npos || line[from] == '#') continue;
        line = std::regex_replace(line, std::regex(R"(\b0+(?=\d))"), "");
        if (format == "torchrun") line = std::regex_replace(line, std::regex("(--master-addr=\\S+ )\\S.*"), "$1...");
        if (std::smatch nic; format == "nics" && std::regex_search(line, nic, std::regex("nic=(\\S+) ;;"))) {
            const std::string name = nics.emplace(nic[1], fmt::format("nic{}", nics.size())).first->second;
            line = fmt::format("{}{}{}", nic.prefix().str(), name, nic.suffix().str());
        }
        std::istringstream words(line);
        std::vector<std::string> of_line;
        for (std::string word; words >> word;) of_line.push_back(word);
        lines.push_back(fmt::format("{}", fmt::join(of_line, " ")));
    }
    if (format == "rankfile" || format == "intel-mpi") std::ranges::sort(lines);
    return fmt::format("{}", fmt::join(lines, format.starts_with("openmpi-") ? " " : "\n"));
}

TEST(plan_formats, a_file_that_means_something_else_is_refused_or_differs) {
    constexpr int mutants = 200;
    for (const export_format& format : export_formats()) {
        if (format.read == nullptr) continue;
        dice d(seed());
        int refused = 0, differ = 0, same = 0;
        while (refused + differ < mutants) {
            const plan_data plan = make_plan(format, d);
            const std::string before = format.write(plan, {});
            const plan_facts due = format.read({"plan", before});
            std::string text = before;
            if (text.starts_with('{') && d.coin()) damage_json(text, d);
            else damage_text(text, d);
            plan_facts read;
            const std::string refusal = refusal_of([&] { read = format.read({"mutant", text}); });
            if (meaning(format.name, text) == meaning(format.name, before)) {  // a comment, or an equivalent text
                ++same;
                continue;
            }
            ++(refusal == "accepted" ? differ : refused);
            if (refusal != "accepted") EXPECT_TRUE(refusal.starts_with("mutant")) << refusal;
            else ASSERT_TRUE(find_difference(read, due)) << format.name << " passes: " << text;
        }
        fmt::print("{}: {} mutants, {} refused, {} differ from the plan; {} more mean the same\n", format.name, mutants,
                   refused, differ, same);
        EXPECT_GT(refused, 0);
    }
}

TEST(plan_formats, orders_have_the_ranks_of_the_plan) {
    dice d(seed());
    for (int n = share("machines", 100, 30); n > 0; --n)
        for (const std::string_view name : {"rankfile", "hostfile", "machinefile", "slurm", "torchrun"}) {
            const export_format& format = export_format_of(name);
            const plan_data plan = make_plan(format, d);
            const std::vector<int> sizes = plan.machine.node_sizes();
            std::vector<std::string> due;
            for (std::size_t node = 0; node < sizes.size(); ++node)
                due.push_back(fmt::format("{} {}", plan.machine.hosts[node], sizes[node]));
            EXPECT_EQ(format.read({"file", format.write(plan, {})}).lines, due) << name;
        }
}

}  // namespace
}  // namespace terrace::detail::test
