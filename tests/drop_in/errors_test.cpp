// Terrace's errors under the drop-in, and arguments that are wrong on only one rank.

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "drop_in/ranks.hpp"

namespace drop_in {

namespace {

MPI_Comm with_handler(MPI_Errhandler handler) {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, handler);
    int one = 1;
    EXPECT_EQ(MPI_Allreduce(MPI_IN_PLACE, &one, 1, MPI_INT, MPI_SUM, comm), MPI_SUCCESS);
    return comm;
}

std::string text_of(int code) {
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    MPI_Error_string(code, text, &length);
    return {text, static_cast<std::size_t>(length)};
}

// Returns true in runs with a timeout of a second.
bool has_deadline() {
    const char* seconds = std::getenv("TERRACE_TIMEOUT");
    return seconds != nullptr && std::string(seconds) == "1" && size_of() > 1;
}

int handled = MPI_SUCCESS, calls_of_handler = 0;

void keep_code(MPI_Comm*, int* code, ...) {
    handled = *code;
    ++calls_of_handler;
}

void expect_timeout(int code) {
    int kind = MPI_SUCCESS;
    MPI_Error_class(code, &kind);
    EXPECT_GT(kind, MPI_ERR_LASTCODE);
    EXPECT_EQ(text_of(kind), "Terrace");
    EXPECT_NE(text_of(code).find("Terrace: "), std::string::npos) << text_of(code);
    EXPECT_NE(text_of(code).find("1 s"), std::string::npos) << text_of(code);
}

}  // namespace

TEST(deadline, is_an_error_that_is_returned) {
    if (!has_deadline()) GTEST_SKIP();
    MPI_Comm comm = with_handler(MPI_ERRORS_RETURN);
    std::vector<int> data(1000, 1);
    if (rank_in() != 0) expect_timeout(MPI_Allreduce(MPI_IN_PLACE, data.data(), 1000, MPI_INT, MPI_SUM, comm));
    else std::this_thread::sleep_for(std::chrono::seconds(3));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Comm_free(&comm);
}

TEST(deadline, is_told_to_the_communicators_handler) {
    if (!has_deadline()) GTEST_SKIP();
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    MPI_Comm_create_errhandler(&keep_code, &handler);
    MPI_Comm comm = with_handler(handler);
    std::vector<int> data(1000, 1);
    if (rank_in() != 0) {
        const int code = MPI_Allreduce(MPI_IN_PLACE, data.data(), 1000, MPI_INT, MPI_SUM, comm);
        EXPECT_EQ(calls_of_handler, 1);
        EXPECT_EQ(code, handled);
        expect_timeout(code);
    } else std::this_thread::sleep_for(std::chrono::seconds(3));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Comm_free(&comm);
    MPI_Errhandler_free(&handler);
}

// One rank's invalid call fails. The other ranks wait, as under MPI, until it repeats the call with valid arguments.
TEST(invalid_arguments, of_one_rank_keep_nobody_from_the_next_call) {
#ifndef OMPI_MAJOR_VERSION
    GTEST_SKIP() << "MPICH of Debian and of PyPI is built without checks, and crashes";
#endif
    MPI_Comm comm = with_handler(MPI_ERRORS_RETURN);
    std::vector<int> data(1000, 1);
    if (rank_in() == size_of() - 1) {
        EXPECT_NE(MPI_Allreduce(MPI_IN_PLACE, data.data(), -1, MPI_INT, MPI_SUM, comm), MPI_SUCCESS);
    }
    EXPECT_EQ(MPI_Allreduce(MPI_IN_PLACE, data.data(), 1000, MPI_INT, MPI_SUM, comm), MPI_SUCCESS);
    EXPECT_EQ(data.front(), size_of());
    MPI_Comm_free(&comm);
}

}  // namespace drop_in
