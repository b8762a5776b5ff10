// Measures reductions on the GPU beside the device's own copy, which only moves bytes.

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <cuda_runtime.h>
#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <terrace/version.hpp>

#include "base/element_types.hpp"
#include "kernels/gpu_reduce.hpp"
#include "tools/common/output.hpp"
#include "tools/common/output_file.hpp"

namespace {

using namespace terrace;
using namespace terrace::detail;
using json = nlohmann::ordered_json;

void check(int code, const char* what) {
    if (code == 0) return;
    throw std::runtime_error(fmt::format("{}: {}", what, cudaGetErrorString(static_cast<cudaError_t>(code))));
}
#define CHECK(call) check(call, #call)

struct settings {
    std::int64_t bytes = 256 << 20;  // size of each buffer
    int repeats = 21;
    std::filesystem::path json_file;
};

struct row {
    std::string what, type;
    int k;
    std::int64_t bytes;
    bool aligned;
    double seconds, rate;  // [s], [B/s] of all that is read and written
};

constexpr int most = 8;  // sources

// One allocation: result, then sources, with room to shift each by some bytes.
class buffers {
public:
    explicit buffers(std::int64_t each) : each_(each + 4096) {
        CHECK(cudaMalloc(&memory_, static_cast<std::size_t>((most + 1) * each_)));
        // GPUs move random bits slower than bits that are all alike.
        std::vector<std::uint64_t> bits(piece / sizeof(std::uint64_t));
        std::mt19937_64 random(1);
        std::generate(bits.begin(), bits.end(), random);
        for (std::int64_t at = 0, all = (most + 1) * each_; at < all; at += piece)
            CHECK(cudaMemcpy(static_cast<char*>(memory_) + at, bits.data(),
                             static_cast<std::size_t>(std::min(piece, all - at)), cudaMemcpyHostToDevice));
    }
    ~buffers() { cudaFree(memory_); }
    char* at(int i) const { return static_cast<char*>(memory_) + i * each_; }

private:
    static constexpr std::int64_t piece = 16 << 20;
    std::int64_t each_;
    void* memory_ = nullptr;
};

// Returns the median time of single runs between events [s].
template <class Work>
double seconds_of(int repeats, const Work& work) {
    std::array<cudaEvent_t, 2> ends;
    for (cudaEvent_t& e : ends) CHECK(cudaEventCreate(&e));
    std::vector<float> times;
    for (int i = -3; i < repeats; ++i) {
        CHECK(cudaEventRecord(ends[0]));
        work();
        CHECK(cudaEventRecord(ends[1]));
        CHECK(cudaEventSynchronize(ends[1]));
        float ms = 0;
        CHECK(cudaEventElapsedTime(&ms, ends[0], ends[1]));
        if (i >= 0) times.push_back(ms);
    }
    for (const cudaEvent_t e : ends) CHECK(cudaEventDestroy(e));
    std::nth_element(times.begin(), times.begin() + repeats / 2, times.end());
    return times[static_cast<std::size_t>(repeats / 2)] / 1e3;
}

row copy_row(const settings& s, const buffers& b) {
    const auto bytes = static_cast<std::size_t>(s.bytes);
    const double t =
        seconds_of(s.repeats, [&] { CHECK(cudaMemcpyAsync(b.at(0), b.at(1), bytes, cudaMemcpyDeviceToDevice)); });
    return {"copy", "-", 1, s.bytes, true, t, 2.0 * static_cast<double>(s.bytes) / t};
}

row reduce_row(const settings& s, const buffers& b, element_type type, reduce_op op, int k, bool aligned) {
    std::vector<const void*> sources;
    const auto size = static_cast<std::int64_t>(size_of(type));
    for (int i = 0; i < k; ++i) sources.push_back(b.at(1 + i) + (aligned ? 0 : (i + 1) % (16 / size) * size));
    const std::int64_t count = s.bytes / size;
    const double t = seconds_of(s.repeats, [&] {
        CHECK(reduce_on_gpu(b.at(0), sources.data(), k, count, type, op, op == reduce_op::avg ? k : 1, nullptr));
    });
    return {std::string(to_string(op)),
            std::string(to_string(type)),
            k,
            s.bytes,
            aligned,
            t,
            static_cast<double>((k + 1) * count * size) / t};
}

std::vector<row> measure(const settings& s) {
    const buffers b(s.bytes);
    std::vector<row> rows{copy_row(s, b)};
    for (const element_type type : all_element_types)
        for (const int k : {2, 4, most})
            rows.push_back(
                reduce_row(s, b, type, is_defined(reduce_op::sum, type) ? reduce_op::sum : reduce_op::land, k, true));
    for (const element_type type : {element_type::float32, element_type::bfloat16, element_type::float16}) {
        rows.push_back(reduce_row(s, b, type, reduce_op::sum, 2, false));
        for (const reduce_op op : {reduce_op::max, reduce_op::avg}) rows.push_back(reduce_row(s, b, type, op, 2, true));
    }
    rows.push_back(copy_row(s, b));  // again, to show whether the clocks had settled
    return rows;
}

json device_json() {
    int driver = 0, runtime = 0;
    CHECK(cudaDriverGetVersion(&driver));
    CHECK(cudaRuntimeGetVersion(&runtime));
    cudaDeviceProp of;
    CHECK(cudaGetDeviceProperties(&of, 0));
    return {{"name", of.name},
            {"compute_capability", fmt::format("{}.{}", of.major, of.minor)},
            {"memory", of.totalGlobalMem},
            {"multiprocessors", of.multiProcessorCount},
            {"cuda_driver", driver},
            {"cuda_runtime", runtime}};
}

json as_json(const std::vector<row>& rows) {
    json all{{"terrace", version()}, {"device", device_json()}, {"rows", json::array()}};
    for (const row& r : rows)
        all["rows"].push_back({{"what", r.what},
                               {"type", r.type},
                               {"k", r.k},
                               {"bytes", r.bytes},
                               {"aligned", r.aligned},
                               {"us", r.seconds * 1e6},
                               {"gb_per_s", r.rate / 1e9},
                               {"percent_of_copy", 100 * r.rate / rows.front().rate}});
    return all;
}

int run(int argc, char** argv) {
    settings s;
    CLI::App app(
        "Rates of Terrace's reductions on the GPU beside the device's own copy: bytes read and written in a "
        "second, medians.\nSkipped, with exit code 77, where there is no GPU.");
    app.add_option("-b,--bytes", s.bytes, "Bytes of each buffer; there are nine")->check(CLI::Range(4096, 1 << 30));
    app.add_option("-n,--repeats", s.repeats, "Runs of each")->check(CLI::Range(1, 1000));
    add_output(app, "--json", s.json_file, "Write the figures there, too");
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& e) {
        return app.exit(e) == 0 ? 0 : 2;
    }
    int devices = 0;
    if (const cudaError_t code = cudaGetDeviceCount(&devices); code != cudaSuccess || devices == 0) {
        fmt::print(stderr, "gpu-kernels: skipped: no GPU: {}\n",
                   code != cudaSuccess ? cudaGetErrorString(code) : "none is visible");
        return 77;
    }
    const std::vector<row> rows = measure(s);
    say("{:>5} {:>9} {:>3} {:>12} {:>8} {:>10} {:>9} {:>7}\n", "what", "type", "k", "bytes", "aligned", "us", "GB/s",
        "% copy");
    for (const row& r : rows)
        say("{:>5} {:>9} {:>3} {:>12} {:>8} {:>10.1f} {:>9.1f} {:>7.1f}\n", r.what, r.type, r.k, r.bytes,
            r.aligned ? "yes" : "no", r.seconds * 1e6, r.rate / 1e9, 100 * r.rate / rows.front().rate);
    if (!s.json_file.empty()) write_output(s.json_file, as_json(rows).dump(2) + '\n');
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(argc, argv);
    } catch (const std::exception& e) {
        fmt::print(stderr, "gpu-kernels: {}\n", e.what());
        return 1;
    }
}
