// Run under mpirun with any number of ranks, all on one machine. Every rank checks; exit code 1 if any found something.

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <mpi.h>

#include <terrace/mpi.hpp>

#include "base/document.hpp"
#include "support/plans.hpp"
#include "support/shapes.hpp"

namespace {

using namespace terrace;
using namespace terrace::test;

int failures = 0;

void check(bool ok, const std::string& what) {
    if (ok) return;
    ++failures;
    std::fprintf(stderr, "FAILED: %s\n", what.c_str());
}

options anywhere() {
    options o;
    o.place = options::placement::anywhere;
    return o;
}

// The message of the plan_error that creating throws; empty if it does not.
std::string refusal(MPI_Comm world, const plan& p, const options& o) {
    try {
        mpi::create(world, p, o);
    } catch (const plan_error& e) {
        return e.what();
    }
    return {};
}

void results_are_exact(int ranks) {
    for (const hierarchy& machine : uniform_machines(ranks)) {
        for (const std::vector<stage>& bare : stagings(machine)) {
            for (std::size_t choice = 0; choice < choices(bare.size()); choice += bare.size() * bare.size()) {
                const std::vector<stage> stages = with_choice(bare, choice);
                if (!fits(machine, stages)) continue;
                communicator comm = mpi::create(MPI_COMM_WORLD, plan_of(machine, stages, 2, 65536), anywhere());
                for (std::int64_t count :
                     {std::int64_t{0}, std::int64_t{1}, std::int64_t{2 * ranks + 3}, std::int64_t{70001}})
                    check(wrong_elements<float>(comm, count, 1) == 0 && wrong_elements<double>(comm, count, 2) == 0,
                          fmt::format("{} of {}", describe(machine, stages), count));
            }
        }
    }
}

void nodes_are_checked(int ranks, int rank) {
    // All ranks share this machine, so one node of all of them fits, and nodes of one rank each do not.
    const hierarchy one_node = machine_of(tree::uniform(std::vector{ranks, 1}));
    const std::vector<stage> ring{{{0, 1}, ranks, mode::scatter, "ring"}};
    communicator fits = mpi::create(MPI_COMM_WORLD, plan_of(one_node, ring));
    check(fits.rank() == rank && fits.size() == ranks, "rank and size");
    check(wrong_elements<float>(fits, 12345, 3) == 0, "placed by node");
    if (ranks == 1) return;
    hierarchy separate = machine_of(tree::uniform(std::vector{1, ranks}));
    separate.levels[1].medium = fabric::ethernet;
    const std::string why = refusal(MPI_COMM_WORLD, plan_of(separate, ring), {});
    check(why.find("1 in the plan") != std::string::npos &&
              why.find(fmt::format("MPI finds {};", ranks)) != std::string::npos,
          "wrong nodes are refused on every rank: " + why);
}

void misfits_are_refused(int ranks, int rank) {
    const hierarchy larger = machine_of(tree::uniform(std::vector{ranks + 1}));
    const std::string size =
        refusal(MPI_COMM_WORLD, plan_of(larger, {{{0}, ranks + 1, mode::scatter, "ring"}}), anywhere());
    check(size.find(fmt::format("{} ranks", ranks + 1)) != std::string::npos,
          "a plan for more ranks is refused: " + size);
    if (ranks < 3) return;
    const hierarchy machine = machine_of(tree::uniform(std::vector{ranks}));
    const plan mine = plan_of(machine, {{{0}, ranks, mode::scatter, rank == 1 ? "halving" : "ring"}});
    const std::string differs = refusal(MPI_COMM_WORLD, mine, anywhere());
    check(differs.find("rank 1 has") != std::string::npos, "the rank with another plan is named: " + differs);
    // A plan of another shape on one rank must not leave the others waiting.
    const hierarchy wider = machine_of(tree::uniform(std::vector{ranks * (rank == 2 ? 2 : 1)}));
    const plan theirs = plan_of(wider, {{{0}, wider.ranks(), mode::scatter, "ring"}});
    const std::string shape = refusal(MPI_COMM_WORLD, theirs, {});
    check(shape.find("rank 2 has") != std::string::npos, "the rank with a plan of another shape is named: " + shape);
}

// Every rank reads the plan that the options name; one that cannot must not leave the others waiting.
void plans_are_taken_from_the_options(int ranks, int rank) {
    const hierarchy machine = machine_of(tree::uniform(std::vector{ranks}));
    const std::string file = fmt::format("mpi_test.{}.plan.yaml", ranks);
    if (rank == 0) write_atomically(file, plan_of(machine, {{{0}, ranks, mode::scatter, "ring"}}).get().text);
    MPI_Barrier(MPI_COMM_WORLD);
    options o = anywhere();
    o.plan_file = file;
    communicator comm = mpi::create(MPI_COMM_WORLD, o);
    check(wrong_elements<float>(comm, 1000, 4) == 0, "a plan from a file");
    const int culprit = ranks - 1;
    if (rank == culprit) o.plan_file = "no such plan.yaml";
    std::string why;
    try {
        mpi::create(MPI_COMM_WORLD, o);
    } catch (const input_error& e) {
        why = rank == culprit ? e.what() : "";
    } catch (const plan_error& e) {
        why = rank == culprit ? "" : e.what();
    }
    check(why.find("no such plan.yaml") != std::string::npos, "a rank without a plan is told, and named: " + why);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) std::filesystem::remove(file);
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int ranks = 0, rank = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    results_are_exact(ranks);
    nodes_are_checked(ranks, rank);
    misfits_are_refused(ranks, rank);
    plans_are_taken_from_the_options(ranks, rank);
    int total = 0;
    MPI_Allreduce(&failures, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) std::printf("mpi: %d ranks, %d failures\n", ranks, total);
    MPI_Finalize();
    return total > 0;
}
