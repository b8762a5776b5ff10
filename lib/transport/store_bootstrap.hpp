#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
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
    /// @param timeout longest wait in any function [s]; 0: no limit   @param look bootstrap::while_waiting
    /// @throws timeout_error naming missing ranks
    store_bootstrap(store in, std::string where, std::chrono::duration<double> timeout,
                    std::function<void()> look = nullptr);
    /// Changes the longest wait from now on.
    void set_timeout(std::chrono::duration<double> timeout) noexcept { timeout_ = timeout; }

    void put(std::span<const int> ranks, std::string_view key, std::string_view value) override;
    std::string get(int rank, std::string_view key) override;
    void forget(std::string_view key) noexcept override;

private:
    using found = std::function<bool()>;

    void welcome_all();
    void say_hello();
    bool wait(const found& done) const;
    [[noreturn]] void time_out(const std::vector<int>& missing) const;

    const store in_;
    const std::string where_;
    std::chrono::duration<double> timeout_;
    std::string meeting_;
    std::map<std::string, std::map<int, std::string>, std::less<>> values_;  // by key and rank
    std::map<std::string, std::vector<std::string>, std::less<>> last_;      // by team: keys of its last exchange
};

/// Returns the store in a directory that all ranks see, which it makes: a file a value, which only its owner may read.
/// Files are renamed into place, so that nobody reads half a value. @throws transport_error
store file_store(const std::filesystem::path& directory, int rank, int size);

/// Returns a random number. @throws transport_error
std::uint64_t random_number();
/// Returns random numbers in hexadecimal digits. @throws transport_error
std::string random_text();

}  // namespace terrace::detail
