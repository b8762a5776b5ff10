#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <terrace/store.hpp>

#include "transport/bootstrap.hpp"

namespace terrace::detail {

/// Ranks that find one another in a store. They meet first: all learn the name of this meeting, the prefix of their
/// keys, so that neither an earlier communicator nor a former job is in the way. Then each exchange is by the first of
/// its ranks, which gathers the values and publishes all of them as one.
class store_bootstrap final : public bootstrap {
public:
    /// Meets. Collective over all ranks of the store. @param where the store is, in words, for messages
    /// @param timeout longest wait in any function [s]; 0: no limit   @param world_ranks those of `bootstrap`
    /// @throws timeout_error naming missing ranks
    store_bootstrap(store in, std::string where, std::chrono::duration<double> timeout, const wait_hook& look = {},
                    std::vector<int> world_ranks = {});
    /// Changes the longest wait from now on.
    void set_timeout(std::chrono::duration<double> timeout) {
        const lock held(store_lock_);
        timeout_ = timeout;
    }

    std::vector<std::string> exchange(std::span<const int> ranks, std::string_view key, std::string_view value,
                                      const wait_hook& look) override;

private:
    using lock = std::unique_lock<std::mutex>;
    using found = std::function<bool()>;

    void welcome_all(lock& held, const wait_hook& look);
    void publish_hello(lock& held, const wait_hook& look);
    bool wait(lock& held, const wait_hook& look, const found& done) const;
    [[noreturn]] void time_out(const std::vector<int>& missing) const;

    const std::string where_;
    std::mutex store_lock_;  // of all below: one thread at a time uses the store, and none while it waits
    const store in_;
    std::chrono::duration<double> timeout_;
    std::string meeting_;
    std::map<std::string, std::vector<std::string>, std::less<>> last_;  // by team: keys of its last exchange
};

/// Returns the store in a directory that all ranks see, which it makes: a file a value, which only its owner may read.
/// Files are renamed into place, so that nobody reads half a value. @throws transport_error
store file_store(const std::filesystem::path& directory, int rank, int size);

/// Returns a random number. @throws transport_error
std::uint64_t random_number();

}  // namespace terrace::detail
