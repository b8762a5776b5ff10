#include "api/dump.hpp"

#include <signal.h>

#include <atomic>
#include <fstream>

#include <fmt/format.h>

#include <terrace/error.hpp>

namespace terrace::detail {

namespace {

std::atomic<unsigned> asked_for{0};

void ask(int) { asked_for.fetch_add(1, std::memory_order_relaxed); }

}  // namespace

unsigned watch_for_dumps() {
    struct sigaction now {};
    if (sigaction(SIGUSR1, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) {
        struct sigaction ours {};
        ours.sa_handler = ask;
        ours.sa_flags = SA_RESTART;
        sigaction(SIGUSR1, &ours, nullptr);
    }
    return dumps_asked_for();
}

unsigned dumps_asked_for() noexcept { return asked_for.load(std::memory_order_relaxed); }

void write_dump(const std::filesystem::path& file, int rank, const std::string& json) {
    const std::string name = fmt::format("{}.{}.json", file.string(), rank);
    std::ofstream out(name);
    if (!(out << json << std::flush)) throw input_error(name, 0, 0, "cannot be written; name another file");
}

}  // namespace terrace::detail
