#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <terrace/error.hpp>
#include <terrace/mpi.hpp>

#include "executor/transport.hpp"

// What communicators over MPI, with and without a device, are made from.
namespace terrace::mpi {

/// Messages among the ranks of a plan, in its order.
struct planned {
    plan by;
    std::unique_ptr<transport> net;
};

/// The ranks of `world`. Collective. @param also what all must have in common besides, in words, with a comma before it
/// @throws as create
planned connect(MPI_Comm world, const plan& p, const options& o, std::string_view also = {});
planned connect(MPI_Comm world, const options& o, std::string_view also = {});

/// Lets the ranks that are in connect() fail, since this one will not get there.
void tell_others(MPI_Comm world, const std::string& why) noexcept;

/// What this rank alone would do: the others must learn of it rather than wait, since nobody agrees with it.
template <class Action>
decltype(auto) or_tell_others(MPI_Comm world, std::string_view what, Action action) {
    try {
        return action();
    } catch (const std::exception& e) {
        tell_others(world, std::string(what) + " (" + e.what() + ")");
        throw;
    }
}

}  // namespace terrace::mpi
