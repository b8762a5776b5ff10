#include "bench/measure/mpi_backend.hpp"

#include <string>
#include <vector>

#include <fmt/format.h>

#include <terrace/error.hpp>
#include <terrace/mpi.hpp>

#include "bench/measure/mpi_world.hpp"

namespace terrace::detail::bench {

namespace {

MPI_Datatype mpi_type(element_type t) {
    const MPI_Datatype types[] = {
#define TERRACE_ELEMENT_TYPE(name, element, accumulator, mpi, nccl) mpi,
#include <terrace/element_types.def>
    };
    return types[static_cast<std::size_t>(t)];
}

MPI_Op mpi_op(reduce_op o) {
    const MPI_Op ops[] = {
#define TERRACE_REDUCE_OP(name, kinds, mpi, nccl) mpi,
#include <terrace/reduce_ops.def>
    };
    return ops[static_cast<std::size_t>(o)];
}

class mpi_library final : public backend {
public:
    explicit mpi_library(const setting& s) : backend(s.of), type_(mpi_type(of_.type)), op_(mpi_op(of_.op)) {
        if (type_ == MPI_DATATYPE_NULL) throw usage_error(fmt::format("MPI has no type {}", to_string(of_.type)));
        if (op_ == MPI_OP_NULL && row_of(of_.what).up)
            throw usage_error(fmt::format("MPI has no operation {}", to_string(of_.op)));
        check(MPI_Comm_dup(comm_of(s.ranks), &comm_), "MPI_Comm_dup");
        MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    }
    ~mpi_library() override { MPI_Comm_free(&comm_); }

    // Some of Open MPI's components (HAN without adapt) crash in place above 64 KiB.
    bool in_place() const noexcept override { return of_.what == collective::broadcast; }

    bench::description describe(std::int64_t) const override { return {name()}; }

    void run(std::span<const call> calls) override {
        for (const call& c : calls) {
            const int count = static_cast<int>(c.count);
            check(of_.own_lengths ? start_v(c, count) : start(c, count), name().c_str());
        }
    }

private:
    int start(const call& c, int count) const {
        switch (of_.what) {
            case collective::allreduce: return MPI_Allreduce(c.send, c.recv, count, type_, op_, comm_);
            case collective::reduce_scatter: return MPI_Reduce_scatter_block(c.send, c.recv, count, type_, op_, comm_);
            case collective::allgather: return MPI_Allgather(c.send, count, type_, c.recv, count, type_, comm_);
            case collective::alltoall: return MPI_Alltoall(c.send, count, type_, c.recv, count, type_, comm_);
            case collective::gather: return MPI_Gather(c.send, count, type_, c.recv, count, type_, of_.root, comm_);
            case collective::scatter: return MPI_Scatter(c.send, count, type_, c.recv, count, type_, of_.root, comm_);
            case collective::broadcast: return MPI_Bcast(c.recv, count, type_, of_.root, comm_);
            case collective::reduce: break;
        }
        return MPI_Reduce(c.send, c.recv, count, type_, op_, of_.root, comm_);
    }

    std::string name() const { return std::string(row_of(of_.what).mpi) + (of_.own_lengths ? "v" : ""); }

    // MPI requires that receivers know all lengths, so exchanging lengths is no part of its time.
    int start_v(const call& c, int count) {
        int ranks = 0;
        MPI_Comm_size(comm_, &ranks);
        counts_.assign(static_cast<std::size_t>(ranks), count);
        begins_.resize(counts_.size());
        for (int r = 0; r < ranks; ++r) begins_[static_cast<std::size_t>(r)] = r * count;
        const int *counts = counts_.data(), *begins = begins_.data();
        if (of_.what == collective::gather)
            return MPI_Gatherv(c.send, count, type_, c.recv, counts, begins, type_, of_.root, comm_);
        if (of_.what == collective::scatter)
            return MPI_Scatterv(c.send, counts, begins, type_, c.recv, count, type_, of_.root, comm_);
        return MPI_Alltoallv(c.send, counts, begins, type_, c.recv, counts, begins, type_, comm_);
    }

    std::vector<int> counts_, begins_;  // of blocks [elements]
    MPI_Datatype type_;
    MPI_Op op_;
    MPI_Comm comm_ = MPI_COMM_NULL;
};

}  // namespace

communicator create_over_mpi(const world& w, const options& o) { return mpi::create(comm_of(w), o); }
communicator create_over_mpi(const setting& s, const plan& p) { return mpi::create(comm_of(s.ranks), p, s.how); }

std::unique_ptr<backend> make_mpi_backend(const setting& s) { return std::make_unique<mpi_library>(s); }

}  // namespace terrace::detail::bench
