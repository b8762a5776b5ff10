#include "transport/store_bootstrap.hpp"

#include <fcntl.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/descriptor.hpp"
#include "transport/packed.hpp"
#include "transport/team.hpp"

namespace terrace::detail {

namespace {

std::string hello_of(int rank) { return fmt::format("hello/{}", rank); }
std::string seen_by(std::string_view meeting, int rank) { return fmt::format("seen/{}/{}", meeting, rank); }
std::string open_of(std::string_view meeting) { return fmt::format("open/{}", meeting); }
constexpr const char* list_key = "list";
std::string random_text() { return fmt::format("{:016x}{:016x}", random_number(), random_number()); }

namespace fs = std::filesystem;

[[noreturn]] void fail(const char* call, const fs::path& file) {
    const int code = errno;
    throw transport_error("bootstrap", call, code, fmt::format("{}: {}", file.string(), std::strerror(code)));
}

fs::path file_of(const fs::path& directory, std::string key) {
    std::replace(key.begin(), key.end(), '/', '.');
    return directory / key;
}

descriptor open(const fs::path& file, int flags) {
    return descriptor(uninterrupted([&] { return ::open(file.c_str(), flags | O_CLOEXEC, 0600); }));
}

void write(const fs::path& file, std::string_view value) {
    const fs::path part = fmt::format("{}.{}.part", file.string(), ::getpid());
    descriptor to = open(part, O_CREAT | O_TRUNC | O_WRONLY);
    if (!to) fail("open", part);
    if (!write_whole(to.get(), value)) fail("write", part);
    if (!to.close()) fail("close", part);
    if (::rename(part.c_str(), file.c_str()) != 0) fail("rename", file);
}

std::optional<std::string> read(const fs::path& file) {
    const descriptor from = open(file, O_RDONLY);
    if (!from && errno != ENOENT && errno != ESTALE) fail("open", file);
    if (!from) {
        // NFS caches for a while that a file is missing, unless a process opens the directory.
        open(file.parent_path(), O_RDONLY | O_DIRECTORY);
        return {};
    }
    std::string value;
    std::array<char, 4096> piece{};
    ssize_t got = 0;
    while ((got = uninterrupted([&] { return ::read(from.get(), piece.data(), piece.size()); })) > 0)
        value.append(piece.data(), static_cast<std::size_t>(got));
    if (got < 0) fail("read", file);
    return value;
}

}  // namespace

std::uint64_t random_number() {
    std::uint64_t number = 0;
    if (::getrandom(&number, sizeof number, 0) != sizeof number)
        throw transport_error("bootstrap", "getrandom", errno, "no random numbers");
    return number;
}

store_bootstrap::store_bootstrap(store in, std::string where, std::chrono::duration<double> timeout,
                                 const wait_hook& look, std::vector<int> world_ranks)
    : bootstrap(this_node(), std::move(world_ranks)), where_(std::move(where)), in_(std::move(in)), timeout_(timeout) {
    if (in_.rank < 0 || in_.rank >= in_.size)
        throw usage_error(fmt::format("rank {} of {}: ranks are numbered 0 ... size - 1 (store::rank, TERRACE_RANK)",
                                      in_.rank, in_.size));
    lock held(store_lock_);
    if (in_.rank == 0) welcome_all(held, look);
    else publish_hello(held, look);
}

// Each rank publishes a random number in a hello; rank 0's is only for errors that name missing ranks. Rank 0 lists all
// numbers under the name of the meeting. A rank confirms a list with its number; when all have, the meeting is open. No
// rank confirms a number of a former run: rank 0 finds the new number later, and publishes a new list.
void store_bootstrap::welcome_all(lock& held, const wait_hook& look) {
    std::vector<std::string> hello(at(in_.size));
    std::vector<int> others = numbers_below(in_.size);
    others.erase(others.begin());
    std::vector<int> missing = others;
    in_.put(hello_of(0), random_text());
    const bool all_here = wait(held, look, [&] {
        bool changed = meeting_.empty();
        for (const int r : missing) {
            const std::optional<std::string> value = in_.get(hello_of(r));
            changed |= value && *value != hello[at(r)];
            hello[at(r)] = value.value_or("");
        }
        if (std::any_of(hello.begin() + 1, hello.end(), [](const std::string& h) { return h.empty(); })) return false;
        if (changed) {
            meeting_ = random_text();
            missing = others;
            packed list{meeting_};
            for (const std::string& h : hello) list.add(h);
            in_.put(list_key, list.bytes());
        }
        std::erase_if(missing, [&](int r) { return in_.get(seen_by(meeting_, r)).has_value(); });
        return missing.empty();
    });
    if (!all_here) {
        const auto has_come = [&](int r) { return !hello[at(r)].empty(); };
        if (!std::ranges::all_of(missing, has_come)) std::erase_if(missing, has_come);
        time_out(missing);
    }
    in_.put(open_of(meeting_), "");
}

// Rank 0 may have begun a later meeting when this rank looks. The meeting of this rank is then open already.
void store_bootstrap::publish_hello(lock& held, const wait_hook& look) {
    const std::string number = random_text();
    in_.put(hello_of(in_.rank), number);
    const bool is_open = wait(held, look, [&] {
        const packed list(in_.get(list_key).value_or(""));
        if (!meeting_.empty() && in_.get(open_of(meeting_))) return true;
        if (list.size() != in_.size + 1 || list.value(in_.rank + 1) != number || list.value(0) == meeting_)
            return false;
        meeting_ = list.value(0);
        in_.put(seen_by(meeting_, in_.rank), "");
        return false;
    });
    if (is_open) return;
    std::vector<int> missing = numbers_below(in_.size);
    std::erase_if(missing, [&](int r) { return in_.get(hello_of(r)).has_value(); });
    time_out(missing.empty() ? std::vector{0} : missing);
}

// A rank with all values of an exchange knows that all ranks have read the values of the previous exchange.
std::vector<std::string> store_bootstrap::exchange(std::span<const int> ranks, std::string_view key,
                                                   std::string_view value, const wait_hook& look) {
    if (ranks.size() == 1) return {std::string(value)};
    lock held(store_lock_);
    const std::string prefix = fmt::format("{}{}", meeting_, key), everything = prefix + "/all";
    const auto key_of = [&](int rank) { return fmt::format("{}/{}", prefix, rank); };
    std::map<int, std::optional<std::string>> got{{in_.rank, std::string(value)}};
    std::vector<int> missing(ranks.begin() + 1, ranks.end());
    const auto is_whole = [&] {
        std::erase_if(missing, [&](int r) { return (got[r] = in_.get(key_of(r))).has_value(); });
        return missing.empty();
    };
    if (ranks.front() != in_.rank) {
        in_.put(key_of(in_.rank), std::string(value));
        std::optional<std::string> whole;
        if (!wait(held, look, [&] { return (whole = in_.get(everything)).has_value(); }))
            time_out(is_whole() ? std::vector{ranks.front()} : missing);
        return packed(*whole).values();
    }
    if (!wait(held, look, is_whole)) time_out(missing);
    packed all;
    for (const int r : ranks) all.add(*got[r]);
    in_.put(everything, all.bytes());
    std::vector<std::string>& before = last_[std::string(key.substr(0, key.rfind('/')))];
    if (in_.remove)
        for (const std::string& old : before) in_.remove(old);
    before = {everything};
    for (const int r : ranks.subspan(1)) before.push_back(key_of(r));
    return all.values();
}

bool store_bootstrap::wait(lock& held, const wait_hook& look, const found& done) const {
    using namespace std::chrono_literals;
    const auto begin = std::chrono::steady_clock::now();
    for (auto pause = 50us; !done(); pause = std::min<std::chrono::microseconds>(2 * pause, 5ms)) {
        if (timeout_.count() > 0 && std::chrono::steady_clock::now() - begin > timeout_) return false;
        call_unlocked(held, [&] {
            if (look) look();
            std::this_thread::sleep_for(pause);
        });
    }
    return true;
}

void store_bootstrap::time_out(const std::vector<int>& missing) const {
    throw timeout_error(fmt::format(
        "timed out after {:g} s (options::timeout), waiting for {} in {}: start all {} ranks, each with its own rank; "
        "all of them must see {}",
        timeout_.count(), ranks_named(missing, world_ranks()), where_, in_.size, where_));
}

store file_store(const fs::path& directory, int rank, int size) {
    std::error_code problem;
    fs::create_directories(directory, problem);
    if (problem)
        throw transport_error("bootstrap", "mkdir", problem.value(),
                              fmt::format("{}: {}", directory.string(), problem.message()));
    return {
        .rank = rank,
        .size = size,
        .put = [directory](const std::string& key, const std::string& value) { write(file_of(directory, key), value); },
        .get = [directory](const std::string& key) { return read(file_of(directory, key)); },
        .remove = [directory](const std::string& key) { ::unlink(file_of(directory, key).c_str()); }};
}

}  // namespace terrace::detail
