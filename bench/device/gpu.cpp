#include "bench/device/gpu.hpp"

#include <sched.h>

#include <algorithm>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "tools/common/gpu_info.hpp"
#include "transport/nccl/module.hpp"

namespace terrace::detail::bench {

namespace {

const gpu_runtime& need_runtime(const options& o, std::string& description) {
    const gpu_info found = look_for_gpus(o.gpu_module);
    for (const gpu_part& part : {found.cuda, found.nccl})
        if (!part.usable)
            throw usage_error(
                fmt::format("--device cuda: {}. `terrace info` says what of GPUs is here; "
                            "buffers of the host need none: leave out --device",
                            part.detail));
    description = found.cuda.detail + "; " + found.nccl.detail;
    return *load_gpu_module(o.gpu_module).runtime;
}

class on_device final : public memory {
public:
    explicit on_device(const gpu& on) : gpu_(on), watch_(on, on.stream()) {}

    std::shared_ptr<std::byte> allocate(std::int64_t bytes) override {
        return gpu_.allocate(static_cast<std::size_t>(bytes));
    }

    void put(std::byte* to, std::int64_t bytes, const std::function<void(std::byte*)>& make) override {
        std::byte* here = of_host(bytes);
        make(here);
        copy(to, here, bytes);
    }

    const std::byte* get(const std::byte* from, std::int64_t bytes) override {
        std::byte* here = of_host(bytes);
        copy(here, from, bytes);
        return here;
    }

    double time(backend& what, std::span<const call> calls) override {
        watch_.start();
        what.run(calls);
        watch_.stop();
        what.settle();
        gpu_.wait();
        return watch_.seconds();
    }

private:
    void copy(void* to, const void* from, std::int64_t bytes) {
        gpu_.check(gpu_.runtime().copy(to, from, static_cast<std::size_t>(bytes), gpu_.stream()), "cudaMemcpyAsync");
        gpu_.wait();
    }

    // Returns pinned host memory of at least this size, which never shrinks.
    std::byte* of_host(std::int64_t bytes) {
        if (bytes > room_) {
            host_ = nullptr;
            host_ = gpu_.allocate_pinned(static_cast<std::size_t>(bytes));
            room_ = bytes;
        }
        return host_.get();
    }

    const gpu& gpu_;
    stopwatch watch_;
    std::shared_ptr<std::byte> host_;
    std::int64_t room_ = 0;
};

}  // namespace

gpu::gpu(const world& w, const options& o) : runtime_(need_runtime(o, description_)) {
    int devices = 0;
    check(runtime_.device_count(&devices), "cudaGetDeviceCount");
    const std::vector<int>& hosts = w.hosts();
    const auto me = hosts.begin() + w.rank();
    number_ = static_cast<int>(std::count(hosts.begin(), me, *me)) % devices;
    const auto here = static_cast<int>(std::count(hosts.begin(), hosts.end(), *me));
    sharers_ = (here + devices - 1) / devices;
    check(runtime_.use_device(number_), "cudaSetDevice");
    stream_ = make_stream();
}

void gpu::check(int code, const char* call) const {
    if (code != 0) throw transport_error("cuda", call, code, runtime_.cuda_error(code));
}

void gpu::wait() const {
    for (bool done = false;; sched_yield()) {
        check(runtime_.stream_done(stream_.get(), &done), "cudaStreamQuery");
        if (done) return;
    }
}

std::unique_ptr<memory> device_memory(const gpu& on) { return std::make_unique<on_device>(on); }

}  // namespace terrace::detail::bench
