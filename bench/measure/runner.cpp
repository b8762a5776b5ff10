#include "bench/measure/runner.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <new>

#include "base/units.hpp"
#include "bench/measure/processors.hpp"

namespace terrace::detail::bench {

namespace {

class on_host final : public memory {
public:
    std::shared_ptr<std::byte> allocate(std::int64_t bytes) override {
        constexpr std::align_val_t page{4096};
        return {static_cast<std::byte*>(::operator new(static_cast<std::size_t>(bytes), page)),
                [](std::byte* m) { ::operator delete(m, page); }};
    }

    void put(std::byte* to, std::int64_t, const std::function<void(std::byte*)>& make) override { make(to); }
    const std::byte* get(const std::byte* from, std::int64_t) override { return from; }

    double time(backend& what, std::span<const call> calls) override {
        const auto begin = std::chrono::steady_clock::now();
        what.run(calls);
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    }
};

constexpr double time_of_row = 1;  // [s]

int iterations_that_fit(double slowest, int fewest) {
    const double fit = time_of_row / std::max(slowest, 1e-9);
    return std::max(fewest, static_cast<int>(std::min(fit, double{most_iterations})));
}

}  // namespace

std::unique_ptr<memory> host_memory() { return std::make_unique<on_host>(); }

runner::runner(const world& w, const settings& s, memory& where, collective what, std::vector<named_backend> backends)
    : world_(w),
      settings_(s),
      where_(where),
      what_(what),
      element_(size_of(s.type)),
      backends_(std::move(backends)),
      data_(s.type, s.op, w.rank(), w.size()),
      calls_(static_cast<std::size_t>(s.async)) {
    const std::int64_t bytes = s.async * s.end;
    const buffers shared{where_.allocate(bytes), where_.allocate(bytes)};
    for (const named_backend& e : backends_) {
        const buffers own{e.what->allocate(bytes), e.what->allocate(bytes)};
        memory_.push_back(own.input ? own : shared);
    }
}

// Writes the input of each call: collectives in place destroy it, and for others it is then equally warm in the cache.
// In place, the rank's own block of an allgather or reduce_scatter lies at its place among all blocks.
call runner::prepare(std::size_t which, int number, std::int64_t count, bool spoiled) {
    const bool in_place = backends_[which].what->in_place();
    const auto begin = static_cast<std::ptrdiff_t>(number * settings_.end);
    std::byte* send = memory_[which].input.get() + begin;
    std::byte* recv = in_place ? send : memory_[which].output.get() + begin;
    const std::int64_t all = row_of(what_).blocks ? count * world_.size() : count;
    const auto size = static_cast<std::int64_t>(element_);
    if (spoiled) where_.put(recv, all * size, [&](std::byte* to) { data_.spoil(to, all); });
    const auto own = static_cast<std::ptrdiff_t>(world_.rank() * count * size);
    if (in_place && what_ == collective::allgather) send += own;
    if (in_place && what_ == collective::reduce_scatter) recv += own;
    const std::int64_t given = row_of(what_).gives_own_block() ? count : all;
    if (!row_of(what_).gives_nothing(is_root()))
        where_.put(send, given * size, [&](std::byte* to) { data_.fill(to, given); });
    return {send, recv, count};
}

std::int64_t runner::wrong_elements(const call& c, double rounding) {
    const collective_row& of = row_of(what_);
    const int blocks = of.blocks_got(is_root(), world_.size());
    if (blocks == 0) return 0;
    const std::int64_t block_bytes = c.count * static_cast<std::int64_t>(element_);
    const std::byte* got = where_.get(static_cast<const std::byte*>(c.recv), blocks * block_bytes);
    const bool of_own_place = of.gets_own_block() || what_ == collective::alltoall;
    const std::int64_t first = of_own_place ? world_.rank() * c.count : 0;
    if (of.up) return data_.wrong_results(got, first, c.count, rounding);
    if (of.root == side::send) return data_.wrong_inputs(settings_.root, got, c.count, first);
    std::int64_t wrong = 0;
    for (int r = 0; r < blocks; ++r, got += block_bytes) wrong += data_.wrong_inputs(r, got, c.count, first);
    return wrong;
}

double runner::time_call(std::size_t which, std::int64_t count, std::int64_t* wrong) {
    int number = 0;
    for (call& c : calls_) c = prepare(which, number++, count, wrong != nullptr);
    world_.barrier();
    const double before = own_processor_seconds();
    const std::size_t at_once = settings_.in_turn ? 1 : calls_.size();
    double seconds = 0;
    for (std::size_t i = 0; i < calls_.size(); i += at_once)
        seconds += where_.time(*backends_[which].what, std::span(calls_).subspan(i, at_once));
    in_last_call_ = own_processor_seconds() - before;
    world_.barrier();  // the next work would take cores from ranks that are still in the call

    if (wrong)
        for (const call& c : calls_)
            *wrong += wrong_elements(c, backends_[which].what->rounding(bytes_of(
                                            what_, count, static_cast<std::int64_t>(element_), world_.size())));
    return seconds / static_cast<double>(calls_.size());
}

std::vector<row> runner::measure(std::int64_t count, progress& shown) {
    const std::int64_t bytes = bytes_of(what_, count, element_, world_.size());
    std::vector<row> rows;
    for (const named_backend& e : backends_)
        rows.push_back({.algorithm = e.name,
                        .what = what_,
                        .in_place = e.what->in_place(),
                        .how = e.what->describe(bytes),
                        .count = count,
                        .bytes = bytes});
    std::vector<std::int64_t> wrong(backends_.size());
    std::vector<double> processor(backends_.size());

    // Makes one call of each back end.
    const auto round = [&](bool checked, std::string_view stage, int number, int of, auto&& take) {
        for (const std::size_t i : order_of_round(backends_.size(), number)) {
            shown.show([&] {
                return fmt::format("{} of {}: {} {} of {}, {}", settings_.function_of(what_), format_bytes(bytes),
                                   stage, number + 1, of, backends_[i].name);
            });
            take(i, time_call(i, count, checked && settings_.check ? &wrong[i] : nullptr));
        }
    };

    double slowest = 0;
    for (int i = 0; i < settings_.warmup; ++i) {
        slowest = 0;  // the first calls also make programs and connections
        round(i == 0, "warm-up", i, settings_.warmup, [&](std::size_t, double t) { slowest = std::max(slowest, t); });
    }
    const int iterations =
        settings_.iterations ? *settings_.iterations : iterations_that_fit(world_.maximum(slowest), settings_.fewest);
    const auto before = processor_time_now();
    for (int i = 0; i < iterations; ++i) {
        const bool checked = i == iterations - 1 || (i == 0 && settings_.warmup == 0);
        round(checked, "iteration", i, iterations, [&](std::size_t e, double t) {
            rows[e].times.push_back(t);
            processor[e] += in_last_call_;
        });
    }
    const double steal = world_.maximum(steal_time_part(before, processor_time_now()).value_or(-1));

    for (std::size_t i = 0; i < rows.size(); ++i) {
        if (steal >= 0) rows[i].percent_steal_time = 100 * steal;
        world_.maximum(rows[i].times);
        double all = 0;
        for (const double t : rows[i].times) all += t * static_cast<double>(calls_.size());
        rows[i].cores = static_cast<double>(world_.sum(std::llround(processor[i] * 1e6))) / 1e6 / all;
        if (settings_.check) rows[i].wrong = world_.sum(wrong[i]);
    }
    const auto reference = std::ranges::find(rows, settings_.reference, &row::algorithm);
    if (reference != rows.end())
        for (row& r : rows) r.ratios = paired_ratios(r.times, reference->times);
    return rows;
}

}  // namespace terrace::detail::bench
