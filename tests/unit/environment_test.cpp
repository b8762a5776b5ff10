#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <terrace/error.hpp>
#include <terrace/loopback.hpp>

#include "api/environment.hpp"
#include "pmpi/variables.hpp"

namespace terrace::detail::test::environment_test {

namespace {

options parsed(const std::vector<std::string>& environment) {
    std::vector<std::string> warnings;
    options o = options_from(environment, warnings);
    EXPECT_TRUE(warnings.empty());
    return o;
}

std::string refusal(const std::string& entry) {
    try {
        parsed({entry});
    } catch (const input_error& e) {
        return e.what();
    }
    return {};
}

std::vector<std::string> warnings_of(const std::string& entry) {
    std::vector<std::string> warnings;
    options_from(std::vector{entry}, warnings);
    return warnings;
}

bool says(const std::string& text, const std::vector<std::string>& parts) {
    return std::all_of(parts.begin(), parts.end(), [&](const auto& p) { return text.find(p) != std::string::npos; });
}

}  // namespace

TEST(environment, without_variables_it_says_what_options_say_by_themselves) {
    const options plain, empty = parsed({}), unset = parsed({"TERRACE_TIMEOUT=", "TERRACE_CHECK=", "HOME=/"});
    for (const options& o : {empty, unset}) {
        EXPECT_EQ(o.timeout, plain.timeout);
        EXPECT_EQ(o.check, plain.check);
        EXPECT_EQ(o.place, plain.place);
        EXPECT_EQ(o.memory, plain.memory);
        EXPECT_EQ(o.plan_file, plain.plan_file);
        EXPECT_TRUE(o.log);  // to standard error, from warnings up
    }
}

TEST(environment, a_launcher_says_whether_ranks_outlive_others) {
    EXPECT_TRUE(parsed({"OMPI_MCA_orte_enable_recovery=1"}).outlives_deaths);
    EXPECT_TRUE(parsed({"OMPI_MCA_mpi_ft_enable=1"}).outlives_deaths);
    EXPECT_FALSE(parsed({"OMPI_MCA_orte_enable_recovery=0"}).outlives_deaths);
    EXPECT_FALSE(parsed({}).outlives_deaths);
}

TEST(environment, launchers_say_how_many_processes_they_start) {
    const auto processes = [](const std::vector<std::string>& variables) { return launch_of(variables).processes; };
    EXPECT_EQ(processes({"HOME=/", "SLURM_NTASKS=8"}), 0);  // of the job, not of this job step
    EXPECT_EQ(processes({"OMPI_COMM_WORLD_SIZE=4"}), 4);
    EXPECT_EQ(processes({"PMI_SIZE=4", "PMI_RANK=2"}), 4);
    EXPECT_EQ(processes({"SLURM_STEP_NUM_TASKS=6"}), 6);
    // mpirun starts a daemon on each node by srun.
    EXPECT_EQ(processes({"SLURM_STEP_NUM_TASKS=2", "OMPI_COMM_WORLD_SIZE=32"}), 32);
    EXPECT_EQ(processes({"PMI_SIZE=many"}), 0);
}

// Open MPI also sets its variables if MPICH's mpirun has started the program.
TEST(environment, the_first_rank_is_that_of_the_launcher_with_most_processes) {
    for (const int rank : {0, 1}) {
        const std::vector<std::string> variables{"OMPI_COMM_WORLD_SIZE=1", "OMPI_COMM_WORLD_RANK=0", "PMI_SIZE=4",
                                                 fmt::format("PMI_RANK={}", rank)};
        EXPECT_EQ(launch_of(variables).processes, 4);
        EXPECT_EQ(is_first_rank(variables), rank == 0);
    }
}

TEST(environment, values) {
    EXPECT_EQ(parsed({"TERRACE_PLAN=a b.yaml"}).plan_file, "a b.yaml");
    EXPECT_EQ(parsed({"TERRACE_TIMEOUT=2.5"}).timeout, std::chrono::milliseconds(2500));
    EXPECT_EQ(parsed({"TERRACE_TIMEOUT=0"}).timeout, std::chrono::seconds(0));
    EXPECT_EQ(parsed({"TERRACE_MEMORY=3 MiB"}).memory, std::size_t{3} << 20);
    EXPECT_TRUE(says(refusal("TERRACE_MEMORY=-1"), {"TERRACE_MEMORY", "bytes"}));
    EXPECT_EQ(parsed({"TERRACE_CHECK=off"}).check, options::checking::off);
    EXPECT_EQ(parsed({"TERRACE_CHECK=every"}).check, options::checking::every);
    EXPECT_FALSE(parsed({"TERRACE_LOG=off"}).log);
    const options in_directory = parsed({"TERRACE_BOOTSTRAP=file:/shared/x", "TERRACE_RANK=3", "TERRACE_SIZE=12"});
    EXPECT_EQ(in_directory.bootstrap, "file:/shared/x");
    EXPECT_EQ(in_directory.rank, 3);
    EXPECT_EQ(in_directory.size, 12);
    EXPECT_EQ(parsed({"TERRACE_BOOTSTRAP=pmix"}).bootstrap, "pmix");
    for (const char* wrong :
         {"TERRACE_BOOTSTRAP=file:", "TERRACE_BOOTSTRAP=tcp", "TERRACE_RANK=-1", "TERRACE_RANK=two", "TERRACE_SIZE=0"})
        EXPECT_TRUE(says(refusal(wrong), {"allowed:"})) << wrong;
    EXPECT_EQ(parsed({"TERRACE_PLACEMENT=anywhere"}).place, options::placement::anywhere);
    const char *slurm = "SLURM_TOPOLOGY_ADDR=top.a.n0", *pattern = "SLURM_TOPOLOGY_ADDR_PATTERN=switch.switch.node";
    EXPECT_EQ(parsed({}).topology_address, "");
    EXPECT_EQ(parsed({slurm}).topology_address, "top.a.n0");
    EXPECT_EQ(parsed({slurm, pattern}).topology_address, "top.a.n0 switch.switch.node");
    EXPECT_EQ(parsed({slurm, pattern, "TERRACE_TOPOLOGY_ADDR=r7.n0"}).topology_address, "r7.n0");
    EXPECT_EQ(parsed({"TERRACE_PLACEMENT=by-node"}).place, options::placement::by_node);
}

TEST(environment, the_log_has_the_lines_asked_for) {
    for (const auto& [level, lines] : {std::pair{"warn", 1}, {"info", 2}, {"debug", 3}}) {
        const options o = parsed({fmt::format("TERRACE_LOG={}", level)});
        testing::internal::CaptureStderr();
        o.log(log_level::warn, "one");
        o.log(log_level::info, "two");
        o.log(log_level::debug, "three");
        const std::string text = testing::internal::GetCapturedStderr();
        EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), lines) << level;
        EXPECT_EQ(text.find("terrace: warn: one\n"), 0u);
    }
}

TEST(environment, bad_values_are_refused_with_what_is_allowed) {
    for (const std::string value : {"soon", "-1", "nan", "inf", "1e10", "5s", " 5", "0x10", "1,5"})
        EXPECT_TRUE(says(refusal("TERRACE_TIMEOUT=" + value), {"TERRACE_TIMEOUT", '"' + value + '"', "seconds"}))
            << value;
    EXPECT_TRUE(says(refusal("TERRACE_LOG=loud"), {"TERRACE_LOG", "\"loud\"", "off, warn, info or debug"}));
    EXPECT_TRUE(says(refusal("TERRACE_PLACEMENT=any"), {"TERRACE_PLACEMENT", "\"any\"", "by-node or anywhere"}));
    EXPECT_TRUE(says(refusal("TERRACE_CHECK=First"), {"TERRACE_CHECK", "\"First\"", "off, first or every"}));
}

TEST(environment, the_first_rank_of_a_job_is_known_by_its_launcher) {
    const auto first = [](std::vector<std::string> environment) { return is_first_rank(environment); };
    EXPECT_TRUE(first({}));
    EXPECT_TRUE(first({"PATH=/bin", "OMPI_COMM_WORLD_RANK=0"}));
    EXPECT_FALSE(first({"OMPI_COMM_WORLD_RANK=3"}));
    EXPECT_FALSE(first({"PMI_RANK=1", "PATH=/bin"}));
    EXPECT_TRUE(first({"SLURM_PROCID=0"}));
}

TEST(environment, unknown_variables_are_warned_of_with_the_nearest_name) {
    for (const auto& [wrong, right] : {std::pair{"TERRACE_TIMEOUTS", "TERRACE_TIMEOUT"},
                                       {"TERRACE_PLN", "TERRACE_PLAN"},
                                       {"TERRACE_LOGLEVEL", nullptr},
                                       {"TERRACE_CHEKC", "TERRACE_CHECK"}}) {
        const std::vector<std::string> warnings = warnings_of(fmt::format("{}=1", wrong));
        ASSERT_EQ(warnings.size(), 1u) << wrong;
        EXPECT_TRUE(
            says(warnings[0], {wrong, right != nullptr ? fmt::format("did you mean {}?", right) : "terrace info"}))
            << warnings[0];
    }
    EXPECT_TRUE(warnings_of("TERRAIN=1").empty());
    EXPECT_TRUE(warnings_of("TERRACE_PMPI_BCAST=4K").empty());  // the drop-in looks at it
}

TEST(environment, from_environment_reads_this_process) {
    ASSERT_EQ(setenv("TERRACE_CHECK", "every", 1), 0);
    ASSERT_EQ(setenv("TERRACE_CHEK", "every", 1), 0);
    testing::internal::CaptureStderr();
    const options o = options::from_environment();
    const std::string text = testing::internal::GetCapturedStderr();
    unsetenv("TERRACE_CHECK");
    unsetenv("TERRACE_CHEK");
    EXPECT_EQ(o.check, options::checking::every);
    EXPECT_TRUE(says(text, {"warn", "TERRACE_CHEK ", "did you mean TERRACE_CHECK?"})) << text;
}

TEST(environment, a_loopback_communicator_without_a_plan_is_refused) {
    const auto nothing = [](communicator&) {};
    try {
        loopback::run(nothing, options{});
        FAIL();
    } catch (const usage_error& e) {
        EXPECT_TRUE(says(e.what(), {"options::plan_file", "TERRACE_PLAN"})) << e.what();
    }
    options o;
    o.plan_file = "no such file";
    EXPECT_THROW(loopback::run(nothing, o), input_error);
}

TEST(environment, a_communicator_takes_the_plan_from_the_options) {
    options o;
    o.plan_file = TERRACE_SOURCE_ROOT "/tests/golden/two-by-four.plan.yaml";
    std::atomic<int> ranks{0};
    loopback::run([&](communicator& comm) { ranks += comm.size() == 8; }, o);
    EXPECT_EQ(ranks, 8);
}

// docs/reference/environment.md agrees with the tables that the parser uses. The variables of single calls share a row.
TEST(environment, the_documentation_has_every_variable_as_it_is) {
    std::ifstream file(TERRACE_SOURCE_ROOT "/docs/reference/environment.md");
    const std::string page{std::istreambuf_iterator<char>(file), {}};
    const auto has = [&](const std::string& text) { return page.find(text) != std::string::npos; };
    const auto is_of_one_call = [](const variable& v) { return v.meaning == "the same for this call"; };
    std::set<std::string_view> names, sharing;
    std::vector<variable> all(environment_variables().begin(), environment_variables().end());
    all.insert(all.end(), pmpi::drop_in_variables().begin(), pmpi::drop_in_variables().end());
    for (const variable& v : all) {
        const std::string fallback = v.fallback.empty() ? "–" : fmt::format("`{}`", v.fallback);
        const std::string rest = fmt::format(" | {} | {} | {} |\n", fallback, v.allowed, v.meaning);
        EXPECT_TRUE(has(is_of_one_call(v) ? "`" + rest : fmt::format("\n| `{}`{}", v.name, rest)))
            << "docs/reference/environment.md lacks the line\n"
            << v.name << rest;
        names.insert(v.name);
        if (!is_of_one_call(v)) continue;
        sharing.insert(v.name);
        EXPECT_TRUE(has(fmt::format("`{}`", v.name)) || has(fmt::format(", `{}`", v.name.substr(12)))) << v.name;
    }
    EXPECT_EQ(names.size(), all.size());
    const auto rows = [&] {
        std::size_t count = 0;
        for (std::size_t at = 0; (at = page.find("\n| `TERRACE_", at)) != std::string::npos; ++at) ++count;
        return count;
    }();
    EXPECT_EQ(rows, names.size() - sharing.size() + 1)
        << "docs/reference/environment.md has a variable that does not exist";
}

}  // namespace terrace::detail::test::environment_test
