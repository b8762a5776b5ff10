// The plan file: a written plan reads back equal, and an error is reported with its line and column.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <terrace/error.hpp>

#include "machine/hierarchy_yaml.hpp"
#include "plan/plan_yaml.hpp"
#include "support/refusal.hpp"

namespace terrace::detail::plan_yaml_test {
namespace {

hierarchy machine(tree shape) {
    hierarchy h;
    h.shape = std::move(shape);
    for (const auto& [name, medium] : {std::pair{"node", fabric::shm}, {"core", fabric::ethernet}}) {
        level l;
        l.name = name;
        l.medium = medium;
        l.bandwidth = 1.25e8;
        l.latency = 30e-6;
        l.overhead = default_rates(medium).overhead;
        h.levels.push_back(l);
    }
    return h;
}

plan_data example(tree shape, int inner_group) {
    const stage inner{{0}, inner_group, mode::root, "tree"};
    plan_data r;
    r.name = "two nodes";
    r.made_by = "terrace 0.1.0";
    r.verified = "all rules: counts 0, 1";
    r.machine = machine(std::move(shape));
    r.rules[collective::allreduce] = {{.up_to = 32 << 10,
                                       .at = 32 << 10,
                                       .predicted = 90.04e-6,
                                       .limit = 70e-6,
                                       .stages = {inner, {{1}, 2, mode::replicate, "doubling"}}},
                                      {.lanes = 3,
                                       .chunk = 192 << 10,
                                       .at = 1 << 30,
                                       .predicted = 8.5912,
                                       .simulated = 8.702,
                                       .limit = 8.5,
                                       .stages = {inner, {{1}, 2, mode::scatter, "ring"}}}};
    return finished(std::move(r));
}

plan_data even() { return example(tree::uniform(std::vector{3, 2}), 3); }
plan_data uneven() { return example(tree({{4, 2}, {2}}), 0); }

// Returns the file with one text replaced.
std::string changed(std::string text, std::string_view from, std::string_view to) {
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
}

std::string refusal(const std::string& text) {
    return refusal_of<input_error>([&] { parse_plan(text, "p.yaml"); });
}

#define EXPECT_REFUSED(text, part) EXPECT_NE(refusal(text).find(part), std::string::npos) << refusal(text)

TEST(plan_yaml, is_as_documented) {
    const std::string& text = even().text;
    EXPECT_NE(text.find("  rules:\n"
                        "    - {up_to: 32 KiB, predicted: 90 us, limit: 70 us, stages: [\n"
                        "        {levels: [node], group: 3, mode: root, algorithm: tree},\n"
                        "        {levels: [core], group: 2, mode: replicate, algorithm: doubling}]}\n"
                        "    - {up_to: max, at: 1 GiB, predicted: 8.59 s, simulated: 8.7 s, limit: 8.5 s, lanes: 3, "
                        "chunk: 192 KiB, stages: [\n"),
              std::string::npos)
        << text;
    EXPECT_NE(uneven().text.find("  tree: [4, 2]\n"), std::string::npos) << uneven().text;
    EXPECT_NE(uneven().text.find("group: 2..4, "), std::string::npos) << uneven().text;
}

TEST(plan_yaml, reads_back_equal) {
    for (const plan_data& r : {even(), uneven()}) {
        const plan_data again = parse_plan(r.text, "p.yaml");
        EXPECT_EQ(again.text, r.text);
        EXPECT_EQ(again.id, r.id);
        EXPECT_EQ(again.name, r.name);
        EXPECT_EQ(again.verified, r.verified);
        EXPECT_EQ(again.machine.shape, r.machine.shape);
        const auto& rules = again.rules.at(collective::allreduce);
        ASSERT_EQ(rules.size(), 2U);
        EXPECT_EQ(rules[0].stages, r.rules.at(collective::allreduce)[0].stages);
        EXPECT_EQ(rules[0].lanes, 1);
        EXPECT_EQ(rules[0].chunk, 0);
        EXPECT_EQ(rules[0].at, 32 << 10);
        EXPECT_EQ(rules[1].stages, r.rules.at(collective::allreduce)[1].stages);
        EXPECT_EQ(rules[1].up_to, rule::no_bound);
        EXPECT_EQ(rules[1].lanes, 3);
        EXPECT_EQ(rules[1].chunk, 192 << 10);
    }
    EXPECT_NE(even().id, uneven().id);
}

TEST(plan_yaml, holds_every_collective) {
    plan_data r = even();
    const auto one_rule = [](mode how, const char* by) {
        return std::vector<rule>{{.at = 1 << 30, .predicted = 1, .limit = 1, .stages = {{{0, 1}, 6, how, by}}}};
    };
    r.rules[collective::reduce_scatter] = r.rules[collective::allgather] = one_rule(mode::scatter, "ring");
    r.rules[collective::broadcast] = r.rules[collective::reduce] = one_rule(mode::root, "chain");
    for (const collective c : {collective::alltoall, collective::gather, collective::scatter})
        r.rules[c] = one_rule(mode::scatter, "direct");
    const std::string text = write_plan(r);
    const plan_data again = parse_plan(text, "p.yaml");
    for (const collective c : all_collectives) EXPECT_EQ(again.rules.at(c).back().stages, r.rules.at(c).back().stages);
    EXPECT_EQ(parse_plan(text, "p.yaml").text, text);
    EXPECT_REFUSED(changed(text, "mode: root, algorithm: chain", "mode: replicate, algorithm: doubling"),
                   "mode is replicate, but stages of broadcast have mode scatter or root");
    EXPECT_REFUSED(changed(text, "6, mode: scatter, algorithm: ring", "6, mode: replicate, algorithm: doubling"),
                   "mode is replicate, but stages of reduce_scatter have mode scatter or root");
}

TEST(plan_yaml, says_who_runs_a_stage) {
    plan_data r = even();
    std::vector<stage>& stages = r.rules[collective::allreduce].back().stages;
    const auto written = [&](provider by, const char* algorithm, const std::string& keys, const std::string& words) {
        stages.back().provider = by;
        stages.back().algorithm = algorithm;
        std::string text = write_plan(r);
        EXPECT_TRUE(text.ends_with(fmt::format("mode: scatter, {}}}]}}\n", keys))) << text;
        const plan_data again = parse_plan(text, "p.yaml");
        EXPECT_EQ(again.text, text);
        EXPECT_EQ(again.rules.at(collective::allreduce).back().stages, stages);
        EXPECT_TRUE(describe(again.machine, stages).ends_with(" scatter " + words)) << describe(again.machine, stages);
        return text;
    };
    written(provider::shared_memory, "", "provider: shared_memory", "shared_memory");
    written(provider::nccl, "", "provider: nccl", "nccl");
    written(provider::mpi, "", "provider: mpi", "mpi");
    const std::string over = written(provider::mpi, "ring", "provider: mpi, algorithm: ring", "ring over mpi");
    const std::string ring = written(provider::messages, "ring", "algorithm: ring", "ring");
    EXPECT_EQ(parse_plan(changed(over, "provider: mpi", "provider: messages"), "p.yaml").text, ring);
    EXPECT_REFUSED(changed(over, "provider: mpi", "provider: tcp"),
                   "unknown provider \"tcp\"; the providers are messages, shared_memory, nccl, mpi");
    for (const char* by : {"shared_memory", "nccl"})
        EXPECT_REFUSED(changed(over, "provider: mpi", fmt::format("provider: {}", by)),
                       fmt::format("p.yaml:17:9: stages[1]: provider {} carries no messages of algorithm ring", by));
    EXPECT_REFUSED(changed(ring, ", algorithm: ring", ""),
                   "neither an algorithm nor a provider that runs it (shared_memory, nccl or mpi)");
    EXPECT_REFUSED(changed(ring, "algorithm: ring", "algorithm: \"\""), "name of an algorithm is missing");
    EXPECT_REFUSED(changed(ring, "algorithm: ring", "algorithm: mpi"),
                   "mpi is a provider, not an algorithm; write \"provider: mpi\" instead");
}

// A rounded time does not change if the plan is read and written again.
TEST(plan_yaml, rounded_times_are_stable) {
    for (double time = 1e-9; time < 1e4; time *= 1.037) {
        plan_data r = even();
        r.rules[collective::allreduce][0].predicted = time;
        const std::string text = write_plan(r);
        ASSERT_EQ(parse_plan(text, "p.yaml").text, text) << time;
    }
}

TEST(plan_yaml, refuses_other_formats_and_says_what_to_do) {
    const auto with_format = [](const char* format) {
        return changed(even().text, "terrace_plan: 2", fmt::format("terrace_plan: {}", format));
    };
    EXPECT_REFUSED(with_format("3"), "p.yaml:1:15: format 3 of a newer version; Terrace ");
    EXPECT_REFUSED(with_format("99999999999999"), "reads formats up to 2: update Terrace, or plan again");
    EXPECT_REFUSED(with_format("one"), "not an integer");
    EXPECT_REFUSED(with_format("1"),
                   "p.yaml:1:15: format 1 is no longer read, only format 2; plan again: terrace plan "
                   "CLUSTER -o p.yaml");
}

TEST(plan_yaml, sees_that_the_topology_was_changed) {
    EXPECT_REFUSED(changed(even().text, "latency: 30 us", "latency: 31 us"), "changed by hand");
    EXPECT_REFUSED(changed(even().text, "name: two nodes", "name: 2 nodes"), "plan again");
}

TEST(plan_yaml, refuses_what_is_missing_or_unknown) {
    const std::string text = even().text;
    EXPECT_REFUSED(changed(text, "made_by", "made_bye"), "made_bye");
    EXPECT_REFUSED(changed(text, ", limit: 70 us", ""), "limit");
    EXPECT_REFUSED(changed(text, "at: 1 GiB, ", ""), "at");
    EXPECT_REFUSED(changed(text, "up_to: 32 KiB", "up_to: 32 KiB, at: 1 KiB"), "up_to: max");
    EXPECT_REFUSED(changed(text, "lanes: 3", "lines: 3"), "lines");
    EXPECT_REFUSED(changed(text, ", mode: root", ""), "mode");
    EXPECT_REFUSED(changed(text, "allreduce:", "allredduce:"), "allredduce");
    EXPECT_REFUSED(text.substr(0, text.find("allreduce:")), "no collective");
    EXPECT_REFUSED("", "empty");
}

TEST(plan_yaml, refuses_values_that_make_no_sense) {
    const std::string text = even().text;
    EXPECT_REFUSED(changed(text, "lanes: 3", "lanes: 0"), "from 1 to 64");
    EXPECT_REFUSED(changed(text, "lanes: 3", "lanes: 65"), "from 1 to 64");
    EXPECT_REFUSED(changed(text, "chunk: 192 KiB", "chunk: 0 B"), "at least 1 B");
    EXPECT_REFUSED(changed(text, "up_to: max, at: 1 GiB", "up_to: 16 KiB"), "must ascend");
    EXPECT_REFUSED(changed(text, "up_to: max, at: 1 GiB", "up_to: 64 KiB"), "last rule must have up_to: max");
    EXPECT_REFUSED(changed(text, "up_to: 32 KiB", "up_to: max, at: 1 B"), "after the one with up_to: max");
    EXPECT_REFUSED(changed(text, "mode: root", "mode: rood"), "scatter, root, replicate");
    EXPECT_REFUSED(changed(text, "levels: [node]", "levels: [nude]"), "the levels are node, core");
    EXPECT_REFUSED(changed(text, "predicted: 90 us", "predicted: 90"), "90");
}

TEST(plan_yaml, refuses_stages_that_do_not_fit) {
    EXPECT_REFUSED(changed(even().text, "group: 3", "group: 6"), "p.yaml:13:9: stages[0] (node)");
    EXPECT_REFUSED(changed(even().text, "levels: [core]", "levels: [node]"), "p.yaml:14:9: stages[1]");
    EXPECT_REFUSED(changed(even().text, "group: 3", "group: 3..3"), "all groups have the same size; write group: 3");
    EXPECT_REFUSED(changed(uneven().text, "group: 2..4", "group: 2..5"),
                   "group is 2..5, but the topology makes groups of 2..4");
    EXPECT_REFUSED(changed(uneven().text, "group: 2..4", "group: 4"), "write 2..4");
}

TEST(plan_yaml, every_prefix_is_refused) {
    const std::string text = even().text;
    for (std::size_t length = 0; length + 2 < text.size(); length += 7)
        EXPECT_NE(refusal(text.substr(0, length)), "accepted") << length;
}

}  // namespace
}  // namespace terrace::detail::plan_yaml_test
