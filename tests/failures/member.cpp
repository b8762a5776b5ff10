// A member of an elastic training job. Each iteration averages gradients of 1, and adds the result to the state.
//
// usage: member DIRECTORY begin FOUNDERS | member DIRECTORY join
//
// Reads TERRACE_BOOTSTRAP, TERRACE_RANK (its number), TERRACE_SIZE (the most members). Writes events (event_log.hpp):
//   members NUMBER SIZE GENERATION ITERATIONS DESCRIPTORS THREADS MAPPINGS    after each change
//   left ITERATIONS     after SIGUSR1, which asks it to leave
//   partitioned; error WORDS; wrong WORDS
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <span>
#include <thread>

#include <terrace/elastic.hpp>
#include <terrace/gradients.hpp>

#include "tests/failures/event_log.hpp"

namespace terrace::detail::test {

namespace {

volatile std::sig_atomic_t asked_to_leave = 0;

constexpr std::int64_t parameters = 3000;

class trainer {
public:
    trainer(elastic job, event_log& log) : job_(std::move(job)), log_(log), fresh_(job_.iterations() > 0) {
        job_.on_change([this](communicator& comm) { meet(comm); });
    }

    void train() {
        while (job_.is_member()) {
            if (asked_to_leave != 0) job_.leave();
            if (!job_.iterate([this](communicator&) { reduce(); })) continue;
            apply();
        }
        log_.write("left", std::to_string(job_.iterations()));
    }

private:
    // Checks that the state counts the iterations, on old members before and on all after the broadcast.
    void meet(communicator& comm) {
        if (!fresh_ && state_[0] != static_cast<double>(job_.iterations()))
            log_.write("wrong", fmt::format("{} steps made, {} iterations count", state_[0], job_.iterations()));
        comm.broadcast(state_, 0);
        fresh_ = false;
        if (state_[0] != static_cast<double>(job_.iterations()))
            log_.write("wrong", fmt::format("{} steps sent, {} iterations count", state_[0], job_.iterations()));
        if (reducer_) reducer_->move_to(job_);
        else
            reducer_.emplace(comm, std::vector<gradient_parameter>{{.name = "large", .count = parameters},
                                                                   {.name = "small", .count = 1}});
        log_.write("members", fmt::format("{} {} {} {} {}", job_.members()[static_cast<std::size_t>(comm.rank())],
                                          comm.size(), job_.generation(), job_.iterations(), kept()));
    }

    void reduce() {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        for (int p = 1; p >= 0; --p) {
            for (float& g : reducer_->gradient<float>(p)) g = 1;
            reducer_->ready(p);
        }
        reducer_->finish();
    }

    void apply() {
        for (int p = 0; p < 2; ++p)
            for (const float g : reducer_->gradient<float>(p))
                if (g != 1) return log_.write("wrong", fmt::format("a gradient is {}", g));
        state_[0] += static_cast<double>(reducer_->gradient<float>(1)[0]);
    }

    elastic job_;
    event_log& log_;
    bool fresh_;  // joined later, without state
    std::array<double, 100> state_{};
    std::optional<gradient_reducer> reducer_;
};

}  // namespace

}  // namespace terrace::detail::test

int main(int argc, char** argv) {
    using namespace terrace::detail::test;
    if (argc < 3) return 2;
    std::signal(SIGUSR1, [](int) { asked_to_leave = 1; });
    event_log log(argv[1]);
    try {
        const terrace::options o = terrace::options::from_environment();
        trainer(argc > 3 ? terrace::elastic::begin(std::atoi(argv[3]), o) : terrace::elastic::join(o), log).train();
    } catch (const terrace::partitioned_error&) {
        log.write("partitioned");
    } catch (const std::exception& e) {
        log.write("error", e.what());
        return 1;
    }
}
