// Four ranks, in nodes of two; the last one fails while the others make collectives of device buffers.
//
// usage: gpu_failures absent|killed|graph|split [host]
//
//   absent  the last rank stops making calls
//   killed  it ends while the others make calls
//   graph   it ends while all ranks have a graph of a call
//   split   it takes no part in a split
//
// Starts the ranks, and waits up to 15 s for them. The others must throw, and destroy their communicator. With `host`
// the ranks use host buffers, and no GPU is needed. A rank that hangs prints its stack.

#include <execinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <terrace/device.hpp>
#include <terrace/ucx.hpp>

#include "gpu/device.hpp"

namespace terrace::detail::test {

namespace {

constexpr int ranks = 4;
constexpr int hung = 15;  // [s]

void print_where(int) {
    std::array<void*, 64> frames{};
    backtrace_symbols_fd(frames.data(), backtrace(frames.data(), frames.size()), STDERR_FILENO);
    _exit(2);
}

class calls {
public:
    calls(communicator& comm, const gpu_runtime* gpu, int rank) : comm_(comm) {
        if (gpu == nullptr) return;
        int devices = 1;
        gpu->device_count(&devices);
        on_.emplace(*gpu, rank % devices);
        nccl::use_device(comm_, on_->number());
        data_.emplace(*on_, count);
        data_->put(std::vector<float>(count, 1));
    }
    calls(const calls&) = delete;
    calls& operator=(const calls&) = delete;
    ~calls() {
        if (graph_ != nullptr) on_->gpu().drop_graph(graph_);
    }

    void make() {
        if (!on_) return comm_.allreduce(std::span(host_));
        nccl::allreduce(comm_, device_span<float>(data_->data(), count), reduce_op::sum, on_->stream());
        nccl::synchronize(comm_);
    }

    void capture() {
        on_->check(on_->gpu().begin_capture(on_->stream()));
        nccl::allreduce(comm_, device_span<float>(data_->data(), count), reduce_op::sum, on_->stream());
        on_->check(on_->gpu().end_capture(on_->stream(), &graph_));
        on_->check(on_->gpu().launch(graph_, on_->stream()));
        on_->wait();
    }

private:
    static constexpr std::size_t count = 1 << 18;
    communicator& comm_;
    std::optional<device> on_;
    std::optional<device_vector<float>> data_;
    std::vector<float> host_ = std::vector<float>(count, 1);
    gpu_graph graph_ = nullptr;
};

// Runs a rank. Returns its exit status: 0 if it throws, or 0 if it is the last rank and does not throw.
int be(int rank, std::string_view how, const gpu_runtime* gpu, const std::filesystem::path& folder) {
    std::signal(SIGALRM, print_where);
    alarm(hung - 1);
    setenv("NCCL_HOSTID", std::to_string(rank).c_str(), 1);  // ranks may share one GPU
    options o;
    o.bootstrap = "file:" + folder.string();
    o.rank = rank;
    o.size = ranks;
    o.place = options::placement::anywhere;
    o.timeout = gpu != nullptr ? std::chrono::seconds(5) : std::chrono::seconds(1);
    const bool fails = rank == ranks - 1;
    try {
        communicator comm = ucx::create(o);
        calls all(comm, gpu, rank);
        all.make();
        if (how == "graph") all.capture();
        if (fails && how != "absent" && how != "split") _exit(0);
        if (fails) std::this_thread::sleep_for(1.6 * o.timeout);
        else if (how == "split") comm.split(0);
        else
            while (true) all.make();
    } catch (const error& e) {
        std::printf("rank %d: %s\n", rank, e.what());
        return fails ? 1 : 0;
    }
    return fails ? 0 : 1;
}

int run(std::string_view how, bool on_host) {
    std::string name = (std::filesystem::temp_directory_path() / "terrace-gpu-failures-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) return 1;
    std::array<pid_t, ranks> all{};
    for (int rank = 0; rank < ranks; ++rank)
        if ((all[static_cast<std::size_t>(rank)] = fork()) == 0) {
            const gpu_module module = on_host ? gpu_module{} : module_of_tests();
            const std::string why = on_host ? "" : no_device(module);
            if (!why.empty()) std::printf("skipped: %s\n", why.c_str());
            const int status = !why.empty() ? 77 : be(rank, how, module.runtime, name);
            std::fflush(stdout);
            _exit(status);
        }
    int worst = 0;
    for (const pid_t pid : all) {
        int status = 0;
        waitpid(pid, &status, 0);
        worst = std::max(worst, WIFEXITED(status) ? WEXITSTATUS(status) : 1);
    }
    std::filesystem::remove_all(name);
    if (worst == 0) std::puts("all ranks ended as they should");
    return worst;
}

}  // namespace

}  // namespace terrace::detail::test

int main(int argc, char** argv) {
    const std::string_view how = argc > 1 ? argv[1] : "", where = argc > 2 ? argv[2] : "";
    for (const std::string_view known : {"absent", "killed", "graph", "split"})
        if (how == known && (where.empty() || where == "host")) return terrace::detail::test::run(how, where == "host");
    std::fputs("usage: gpu_failures absent|killed|graph|split [host]\n", stderr);
    return 2;
}
