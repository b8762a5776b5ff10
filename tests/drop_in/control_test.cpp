// Reports that are written while the program runs.

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "drop_in/ranks.hpp"

namespace drop_in {

namespace {

std::string text_of(const char* file) {
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), {}};
}

void make_a_call() {
    int one = 1;
    MPI_Allreduce(MPI_IN_PLACE, &one, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

}  // namespace

TEST(control, mpi_answers_all_levels) {
    for (const int level : {0, 1, 7}) EXPECT_EQ(MPI_Pcontrol(level), MPI_SUCCESS);
}

TEST(control, a_report_is_written_on_request) {
    const char* file = std::getenv("TERRACE_PMPI_REPORT");
    if (file == nullptr) GTEST_SKIP();
    make_a_call();
    if (rank_in() != 0) {
        make_a_call();
        return;
    }
    EXPECT_EQ(text_of(file), "");
    MPI_Pcontrol(2);
    EXPECT_NE(text_of(file).find("\"allreduce\""), std::string::npos);
    std::remove(file);
    std::raise(SIGUSR2);
    EXPECT_EQ(text_of(file), "");
    make_a_call();
    EXPECT_NE(text_of(file).find("\"allreduce\""), std::string::npos);
}

}  // namespace drop_in
