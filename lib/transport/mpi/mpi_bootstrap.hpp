#pragma once

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "transport/bootstrap.hpp"
#include "transport/mpi/owned.hpp"

namespace terrace::detail {

/// Ranks of a communicator that exchange values by messages. Each carries its key, since threads of a rank find one
/// another's.
class mpi_bootstrap final : public bootstrap {
public:
    /// @param world_ranks those of `bootstrap`
    mpi_bootstrap(std::shared_ptr<owned_comm> world, std::vector<int> world_ranks);
    ~mpi_bootstrap() override;

    std::vector<std::string> exchange(std::span<const int> ranks, std::string_view key, std::string_view value,
                                      const wait_hook& look) override;

private:
    struct receive {
        int from;
        std::string bytes;
        MPI_Request request;
    };

    std::string swap(std::string_view key, int to, std::string_view bytes, int from, const wait_hook& look);
    std::optional<std::string> take(std::string_view key, int from);

    const std::shared_ptr<owned_comm> world_;
    const int rank_;
    std::mutex guard_;  // of all below
    std::list<receive> receives_;
    std::map<std::string, std::map<int, std::string>, std::less<>> arrived_;  // by key and sender
};

}  // namespace terrace::detail
