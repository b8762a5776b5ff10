#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "transport/bootstrap.hpp"
#include "transport/mpi/owned.hpp"

namespace terrace::detail {

/// MPI has no store of keys: put() carries values between the ranks of its list, by messages of its own.
class mpi_bootstrap final : public bootstrap {
public:
    explicit mpi_bootstrap(std::shared_ptr<owned_comm> world);

    void put(std::span<const int> ranks, std::string_view key, std::string_view value) override;
    std::string get(int rank, std::string_view key) override;
    void forget(std::string_view key) noexcept override;

private:
    std::string exchange(int tag, int to, std::string_view bytes, int from) const;
    template <class Test>
    void wait(Test test) const;

    const std::shared_ptr<owned_comm> world_;
    const int rank_;
    std::map<std::string, std::map<int, std::string>, std::less<>> values_;  // by key and rank
};

}  // namespace terrace::detail
