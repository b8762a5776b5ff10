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

/// Bootstrap over a key-value store. The ranks meet first: all of them learn the name of the meeting, the prefix of
/// their keys, so keys of earlier communicators and jobs do not collide with theirs. In each exchange, the first rank
/// gathers the values and publishes all of them as one.
class store_bootstrap final : public bootstrap {
public:
    /// Meets the other ranks. Collective over all ranks of the store. @throws timeout_error that names missing ranks
    /// @param where description of the store, for messages   @param world_ranks as for `bootstrap`
    /// @param timeout longest wait in any function [s]; 0: no limit
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
    std::mutex store_lock_;  // guards all below; one thread at a time uses the store, and releases it while waiting
    const store in_;
    std::chrono::duration<double> timeout_;
    std::string meeting_;
    std::map<std::string, std::vector<std::string>, std::less<>> last_;  // keys of the last exchange, by team
};

/// Returns a store in a directory that all ranks can access; creates the directory. Each value is a file that only its
/// owner may read. Files are renamed into place, so no rank reads half a value. @throws transport_error
store file_store(const std::filesystem::path& directory, int rank, int size);

/// Returns a random number. @throws transport_error
std::uint64_t random_number();

}  // namespace terrace::detail
