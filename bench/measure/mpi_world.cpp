#include "bench/measure/mpi_world.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include <terrace/error.hpp>
#include <terrace/mpi.hpp>

#include "api/creation/over_mpi.hpp"

namespace terrace::detail::bench {

namespace {

int lowest_on_host(int rank) {
    MPI_Comm host = MPI_COMM_NULL;
    check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host), "MPI_Comm_split_type");
    int lowest = rank;
    check(MPI_Bcast(&lowest, 1, MPI_INT, 0, host), "MPI_Bcast");
    check(MPI_Comm_free(&host), "MPI_Comm_free");
    return lowest;
}

class mpi_ranks final : public world {
public:
    mpi_ranks(int& argc, char**& argv) {
        const auto asks_for = [&](std::string_view what) {
            return std::any_of(argv, argv + argc, [&](std::string_view a) { return a.starts_with(what); });
        };
        // Lets MPI_Finalize of Open MPI wait for no killed rank. Terrace does the same, but not over UCX.
        const bool over_ucx = asks_for("ucx") || asks_for("--transport=ucx");
        if (asks_for("--chaos") && over_ucx) ::setenv("OMPI_MCA_async_mpi_finalize", "1", 0);
        const bool devices = asks_for("--device");  // MPI stages between devices run in a thread of their own
        int provided = 0;
        check(MPI_Init_thread(&argc, &argv, devices ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED, &provided),
              "MPI_Init_thread");
        check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
        check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
        check(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
        library_ = name_in(version_of_mpi());
        hosts_ = gather(lowest_on_host(rank_));
    }
    ~mpi_ranks() override { MPI_Finalize(); }

    void barrier() const override { check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier"); }

    void maximum(std::span<double> mine) const override {
        const auto count = static_cast<int>(mine.size());
        check(MPI_Allreduce(MPI_IN_PLACE, mine.data(), count, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD), "MPI_Allreduce");
    }

    std::int64_t sum(std::int64_t mine) const override {
        check(MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD), "MPI_Allreduce");
        return mine;
    }

    std::string trouble_of_launch(int launched) const override {
        if (launched <= size_) return {};
        return lone_processes(launched, size_, world_of(MPI_COMM_WORLD).library, library_);
    }

    std::string error_lines(const std::string& what) const override {
        return error_lines_of("terrace-bench", what, MPI_COMM_WORLD);
    }

    void abort(int code) const override {
        MPI_Abort(MPI_COMM_WORLD, code);
        std::abort();
    }

protected:
    std::string text_from(int source, std::string text) const override {
        int length = static_cast<int>(text.size());
        check(MPI_Bcast(&length, 1, MPI_INT, source, MPI_COMM_WORLD), "MPI_Bcast");
        text.resize(static_cast<std::size_t>(length));
        check(MPI_Bcast(text.data(), length, MPI_CHAR, source, MPI_COMM_WORLD), "MPI_Bcast");
        return text;
    }

    std::vector<int> gather(int mine) const override {
        std::vector<int> all(static_cast<std::size_t>(size_));
        check(MPI_Allgather(&mine, 1, MPI_INT, all.data(), 1, MPI_INT, MPI_COMM_WORLD), "MPI_Allgather");
        return all;
    }
};

}  // namespace

void check(int code, const char* call) {
    if (code == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING] = "unknown error";
    int length = 0;
    MPI_Error_string(code, text, &length);
    throw transport_error("mpi", call, code, text);
}

MPI_Comm comm_of(const world& w) {
    if (!w.has_mpi()) throw usage_error("needs MPI: start it by mpirun, without TERRACE_BOOTSTRAP");
    return MPI_COMM_WORLD;
}

std::unique_ptr<world> world_over_mpi(int& argc, char**& argv) { return std::make_unique<mpi_ranks>(argc, argv); }

}  // namespace terrace::detail::bench
