#include "bench/device/device_links.hpp"

#include <sched.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>

#include <fmt/format.h>

#include <terrace/error.hpp>
#include <terrace/mpi.hpp>

#include "api/creation/over_mpi.hpp"
#include "api/environment.hpp"
#include "base/index.hpp"
#include "base/units.hpp"
#include "bench/measure/flow.hpp"
#include "bench/measure/mpi_world.hpp"
#include "bench/measure/partners.hpp"
#include "bench/report/figures.hpp"
#include "machine/hierarchy_yaml.hpp"
#include "tools/common/table.hpp"
#include "transport/nccl/nccl_transport.hpp"

namespace terrace::detail::bench {

namespace {

constexpr std::size_t small_message = 8;                       // [bytes]
constexpr std::size_t stream_message = std::size_t{32} << 20;  // [bytes], over NCCL, one at a time
constexpr int lanes = 4;                                       // over MPI: one message is copied while another travels
constexpr std::size_t lane_message = std::size_t{4} << 20;
constexpr int batches = 5;
constexpr double time_of_batch = 0.03;    // [s]
constexpr double fewest = 4, most = 200;  // operations in a batch
constexpr double least_time = 1e-9;       // [s], least time in a cluster file

// Measures messages and stages in the queues of calls, as the executor uses them, on the device's stream.
class device_meter {
public:
    device_meter(const world& w, const gpu& on)
        : world_(w),
          gpu_(on),
          watch_(on, on.stream()),
          all_(over_mpi(world_of(comm_of(w)), {})),
          net_(make_nccl_transport(on.runtime(), all_,
                                   {.device = on.number(),
                                    .rounds = {},
                                    .queues = lanes,
                                    .mpi = true,
                                    .host = std::string(value_in(process_environment(), "NCCL_HOSTID"))})),
          out_(net_->allocate(stream_message)),
          in_(net_->allocate(stream_message)),
          host_(net_->allocate_host(2 * lane_message * lanes)) {}

    std::string name() const { return std::string(net_->name()); }

    device_rates by_nccl(const partners& p, const std::vector<double>& rates) {
        const auto message = [&](std::size_t bytes) {
            return [this, &p, bytes](int) {
                net_->over_nccl().open(0, {}, "", nullptr);
                exchange(net_->over_nccl(), p, 0, bytes);
            };
        };
        return figures(p, rates, 1, message(small_message), message(stream_message), stream_message);
    }

    device_rates by_mpi(const partners& p, const std::vector<double>& rates) {
        const auto message = [&](std::size_t bytes, int queues) {
            return [this, &p, bytes, queues](int i) {
                const int queue = i % queues;
                const std::size_t lane = at(queue) * lane_message;
                net_->over_mpi().open(queue, {}, "of the bench", host_ ? host_.get() + 2 * lane : nullptr);
                exchange(net_->over_mpi(), p, lane, bytes);
            };
        };
        return figures(p, rates, lanes, message(small_message, 1), message(lane_message, lanes), lane_message);
    }

    // Returns the time of one NCCL collective [s]: half of a reduce-scatter and an allgather of 8 bytes per member.
    double stage(const std::vector<std::vector<int>>& groups) {
        constexpr std::int64_t count = small_message / sizeof(float);
        net_->prepare(std::span(&groups, 1));
        check();
        std::optional<group> mine;
        for (const std::vector<int>& members : groups) {
            if (std::find(members.begin(), members.end(), world_.rank()) == members.end()) continue;
            std::vector<range> shards;
            for (std::int64_t i = 0; i < static_cast<std::int64_t>(members.size()); ++i)
                shards.push_back({i * count, (i + 1) * count});
            mine = group(members, std::move(shards)).seen_by(world_.rank());
        }
        const auto both = [&](int) {
            for (const action what : {action::stage_reduce_scatter, action::stage_allgather})
                net_->stage(0, {},
                            {.what = what,
                             .group = &*mine,
                             .src = out_.get(),
                             .own = out_.get(),
                             .dst = out_.get(),
                             .element = sizeof(float)});
        };
        return world_.maximum(median_time(mine.has_value(), 1, both)) / 2;
    }

private:
    template <class Small, class Large>
    device_rates figures(const partners& p, const std::vector<double>& rates, int queues, Small small, Large large,
                         std::size_t bytes) {
        const bool receives = p.from[at(world_.rank())] != no_rank;
        const bool takes_part = receives || p.to[at(world_.rank())] != no_rank;
        device_rates found;
        found.step = world_.maximum(median_time(takes_part, 1, small));
        const double time = median_time(takes_part, queues, large);
        found.bandwidth = largest_part(world_, p, rates, receives ? static_cast<double>(bytes) / time : 0);
        return found;
    }

    // Exchanges one message in each direction at once, at offset `place` of the buffers.
    void exchange(stream_messages& net, const partners& p, std::size_t place, std::size_t bytes) {
        const int to = p.to[at(world_.rank())], from = p.from[at(world_.rank())];
        if (to != no_rank) net.send(to, out_.get() + place, bytes);
        if (from != no_rank) net.recv(from, in_.get() + place, bytes);
        net.close();
    }

    // Returns the median over batches of the time of one put() [s]; 0 on a rank that takes no part.
    template <class Put>
    double median_time(bool takes_part, int queues, Put put) {
        batch(takes_part, queues, lanes, put);  // connects
        const double guess = std::max(world_.maximum(batch(takes_part, queues, lanes, put)), least_time);
        const int n = static_cast<int>(std::clamp(time_of_batch / guess, fewest, most));
        std::array<double, batches> times;
        for (double& t : times) t = batch(takes_part, queues, n, put);
        return quantile(times, 0.5);
    }

    template <class Put>
    double batch(bool takes_part, int queues, int n, Put put) {
        world_.barrier();
        double time = 0;
        if (takes_part) {
            const auto call = [&](int times) {
                net_->begin(gpu_.stream(), queues);
                for (int i = 0; i < times; ++i) put(i);
                net_->end();
            };
            call(queues);  // not timed: ranks do not begin at the same time
            watch_.start();
            call(n);
            watch_.stop();
            wait();
            time = std::max(watch_.seconds() / n, least_time);
        }
        wait_asleep(world_);
        return time;
    }

    void wait() const {
        for (bool done = false; !done; sched_yield()) {
            check();
            gpu_.check(gpu_.runtime().stream_done(gpu_.stream(), &done), "cudaStreamQuery");
        }
        check();
    }

    void check() const {
        if (const auto f = net_->fault()) throw transport_error(f->library, f->call, f->code, f->message);
    }

    const world& world_;
    const gpu& gpu_;
    stopwatch watch_;
    connection all_;
    std::unique_ptr<stream_transport> net_;
    std::shared_ptr<std::byte> out_, in_, host_;
};

struct rate_row {
    std::string_view name;
    device_rates device_figures::*by;
    std::optional<device_rates> level::*given;
    device_rates (*resolved)(const level& l) noexcept;
    double device_rates::*value;
    std::string (*format)(double);
};

constexpr std::array<rate_row, 5> rows{{
    {"nccl stage", &device_figures::nccl, &level::nccl, nccl_rates, &device_rates::stage, format_duration},
    {"nccl step", &device_figures::nccl, &level::nccl, nccl_rates, &device_rates::step, format_duration},
    {"nccl bandwidth", &device_figures::nccl, &level::nccl, nccl_rates, &device_rates::bandwidth, format_bandwidth},
    {"mpi step", &device_figures::mpi, &level::mpi, mpi_rates, &device_rates::step, format_duration},
    {"mpi bandwidth", &device_figures::mpi, &level::mpi, mpi_rates, &device_rates::bandwidth, format_bandwidth},
}};

}  // namespace

measured_devices measure_devices(const world& w, const hierarchy& machine, const std::vector<int>& ranks, const gpu& on,
                                 progress& shown) {
    device_meter meter(w, on);
    measured_devices m{{}, meter.name()};
    for (int l = 0; l < machine.depth(); ++l) {
        const double bandwidth = machine.levels[at(l)].bandwidth;
        auto& found = m.levels.emplace_back();
        const partners pair = one_pair(machine.shape, l, ranks), all = all_pairs(machine.shape, l, ranks);
        if (!pair.any) continue;
        const std::vector<double> rates = rates_of(machine, l);
        const auto measured = [&](const partners& p, std::string_view who) {
            const auto step = [&](std::string_view what) {
                shown.now(fmt::format("{}: {}, {}", name_of(machine, l), what, who));
            };
            device_figures f;
            step("messages over NCCL");
            f.nccl = meter.by_nccl(p, rates);
            step("messages over MPI");
            f.mpi = meter.by_mpi(p, rates);
            for (device_rates* r : {&f.nccl, &f.mpi}) r->bandwidth *= bandwidth;
            return f;
        };
        found = measured_device_level{measured(pair, "one pair"), measured(all, "all pairs")};
        shown.now(fmt::format("{}: NCCL's own collectives", name_of(machine, l)));
        found->all.nccl.stage = meter.stage(fellows(machine.shape, l, ranks));
    }
    shown.clear();
    return m;
}

hierarchy calibrated(hierarchy machine, const measured_devices& m) {
    for (int l = 0; l < machine.depth(); ++l) {
        if (!m.levels[at(l)]) continue;
        level& link = machine.levels[at(l)];
        link.nccl = m.levels[at(l)]->all.nccl;
        link.mpi = m.levels[at(l)]->all.mpi;
        for (auto* rates : {&link.nccl, &link.mpi})
            (*rates)->step = std::max((*rates)->step - link.overhead, least_time);
        link = normalised(std::move(link));
    }
    return machine;
}

std::string links_text(const hierarchy& before, const measured_devices& m, const hierarchy& after) {
    table text("<<>>>>");
    text.add({"level", "", "file", "one pair", "all pairs", "new"});
    for (int l = 0; l < before.depth(); ++l) {
        const level &old = before.levels[at(l)], &now = after.levels[at(l)];
        for (const rate_row& r : rows) {
            const auto in_file = [&](const level& of) {
                const bool assumed = !(of.*r.given) || (*(of.*r.given)).*r.value == 0;
                return r.format(r.resolved(of).*r.value) + (assumed ? " (assumed)" : "");
            };
            const auto found = [&](device_figures measured_device_level::*of) -> std::string {
                const double value = m.levels[at(l)] ? (*m.levels[at(l)]).*of.*r.by.*r.value : 0;
                return value > 0 ? r.format(value) : "-";
            };
            text.add({&r == &rows.front() ? old.name : "", std::string(r.name), in_file(old),
                      found(&measured_device_level::pair), found(&measured_device_level::all), in_file(now)});
        }
    }
    return text.text() +
           "step: measured is an exchange of 8 bytes in a group; new is what a message's overhead leaves of it.\n"
           "stage: of all groups at once, half a small reduce-scatter and allgather of NCCL's own.\n";
}

}  // namespace terrace::detail::bench
