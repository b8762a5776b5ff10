// What it costs to make a communicator without MPI, beside ucp_init, and, where ranks share no memory, as on nodes of
// their own, how many connections it has, and with a plan for 2 ranks how fast its messages are. Starts the plan's
// ranks on this machine; medians, of the slowest rank.
//
//   without-mpi PLAN

#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <ucp/api/ucp.h>
#include <unistd.h>

#include <terrace/plan.hpp>
#include <terrace/ucx.hpp>

namespace {

constexpr int turns = 5;

// Returns the largest of all ranks.
double maximum(terrace::communicator& all, double value) {
    all.allreduce(std::span(&value, 1), terrace::reduce_op::max);
    return value;
}

// Returns the slowest rank's time [s]; all begin together.
template <class Action>
double time_of(terrace::communicator& all, Action what) {
    maximum(all, 0);
    const auto begin = std::chrono::steady_clock::now();
    what();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    return maximum(all, took.count());
}

void open_ucx_alone() {
    ucp_config_t* config = nullptr;
    ucp_context_h context = nullptr;
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_TAG;
    if (ucp_config_read(nullptr, nullptr, &config) != UCS_OK || ucp_init(&params, config, &context) != UCS_OK)
        throw terrace::transport_error("ucx", "ucp_init", 1, "refused");
    ucp_config_release(config);
    ucp_cleanup(context);
}

// Sockets of this process that are connected by TCP.
int connections() {
    int found = 0;
    for (int fd = 0; fd < 4096; ++fd) {
        sockaddr_storage peer{};
        socklen_t bytes = sizeof peer;
        if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &bytes) != 0) continue;
        found += peer.ss_family == AF_INET || peer.ss_family == AF_INET6;
    }
    return found;
}

double median(std::vector<double> of) {
    std::sort(of.begin(), of.end());
    return of[of.size() / 2];
}

// Returns what passes from rank 0 to rank 1 [bytes/s].
double bandwidth(terrace::communicator& all) {
    std::vector<float> data(std::size_t{16} << 20);
    std::vector<double> seconds;
    for (int turn = 0; turn < 2 * turns; ++turn) seconds.push_back(time_of(all, [&] { all.broadcast(data, 0); }));
    return static_cast<double>(data.size() * sizeof(float)) / median(seconds);
}

terrace::communicator create(const char* plan_file, bool shared_memory) {
    terrace::options o = terrace::options::from_environment();
    o.place = terrace::options::placement::anywhere;
    o.shared_memory = shared_memory;
    return terrace::ucx::create(terrace::plan::load(plan_file), o);
}

void run_rank(const char* plan_file) {
    terrace::communicator all = create(plan_file, true);
    std::vector<double> made_in, init;
    for (int turn = 0; turn < turns; ++turn) {
        init.push_back(time_of(all, open_ucx_alone));
        std::optional<terrace::communicator> made;
        made_in.push_back(time_of(all, [&] { made.emplace(create(plan_file, true)); }));
        maximum(all, 0);
    }
    const int before = connections();
    terrace::communicator apart = create(plan_file, false);
    const double fresh = maximum(all, connections() - before);
    for (const std::size_t count : {2, 1 << 20}) {
        std::vector<float> data(count);
        apart.allreduce(data);
    }
    const double used = maximum(all, connections() - before);
    const double speed = all.size() == 2 ? bandwidth(apart) : 0;
    if (all.rank() != 0) return;
    std::printf("%d ranks, ms, the slowest rank's: median of %d\n", all.size(), turns);
    std::printf("%-36s %8.1f\n", "plan file to communicator", median(made_in) * 1e3);
    std::printf("%-36s %8.1f\n", "ucp_init alone, all ranks at once", median(init) * 1e3);
    std::printf("%-36s %8.1f\n", "beyond ucp_init", (median(made_in) - median(init)) * 1e3);
    std::printf("most connections of a rank: %g when made, %g after allreduces of 8 B and of 4 MiB\n", fresh, used);
    if (speed > 0) std::printf("broadcast of 64 MiB: %.2f GB/s\n", speed / 1e9);
}

int start_ranks(const char* program, const char* plan_file) {
    std::string directory = (std::filesystem::temp_directory_path() / "terrace-XXXXXX").string();
    if (mkdtemp(directory.data()) == nullptr) throw terrace::usage_error("no directory for temporary files");
    const std::string ranks = std::to_string(terrace::plan::load(plan_file).ranks());
    setenv("TERRACE_BOOTSTRAP", ("file:" + directory).c_str(), 1);
    setenv("TERRACE_SIZE", ranks.c_str(), 1);
    for (int rank = 0; rank < std::stoi(ranks); ++rank) {
        setenv("TERRACE_RANK", std::to_string(rank).c_str(), 1);
        if (fork() != 0) continue;
        execl(program, program, plan_file, "rank", nullptr);
        _exit(127);
    }
    int failed = 0;
    for (int status = 0; wait(&status) > 0;) failed |= status != 0;
    std::filesystem::remove_all(directory);
    return failed;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2) {
        std::fprintf(stderr, "usage: without-mpi PLAN\n");
        return 2;
    }
    try {
        if (argc == 2) return start_ranks(std::filesystem::read_symlink("/proc/self/exe").c_str(), argv[1]);
        run_rank(argv[1]);
    } catch (const terrace::error& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
}
