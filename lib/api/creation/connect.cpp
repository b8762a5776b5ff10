#include "api/creation/connect.hpp"

#include <array>
#include <utility>

#include <fmt/format.h>

#include <terrace/version.hpp>

#include "api/creation/auto_plan.hpp"
#include "api/creation/placement.hpp"
#include "api/environment.hpp"
#include "plan/plan_access.hpp"
#include "plan/plan_data.hpp"
#include "transport/liveness/job_watch.hpp"
#include "transport/team.hpp"

namespace terrace::detail {

namespace {

void expect_threads(const options& o, const network_traits& traits) {
    const bool any = o.threads == options::threading::any;
    if ((o.progress_thread || any) && !traits.one_thread.empty())
        throw usage_error(fmt::format("options::{}: {}, or leave the option out", any ? "threads" : "progress_thread",
                                      traits.one_thread));
}

void agree(connection& all, const std::string& plan_id, const options& o, std::string_view also) {
    or_tell_others(all.ranks, "one thread", [&] { expect_threads(o, all.net->traits()); });
    constexpr std::array adapts{"", ", names links", ", adapts"};
    const bool by_node = o.place == options::placement::by_node;
    require_same(all.ranks,
                 fmt::format("terrace {}, plan {}, placed {}, check {}, failure timeout {:g}{}{}{}{}{}{}", version(),
                             plan_id, by_node ? "by node" : "anywhere", to_string(o.check), o.failure_timeout.count(),
                             o.shared_memory ? "" : ", no shared memory", o.progress_thread ? ", progress thread" : "",
                             o.reproducible ? ", reproducible" : "", o.rounds_on_wire ? ", rounds on the wire" : "",
                             adapts[static_cast<std::size_t>(o.adapt)], also));
    all.interfaces = interfaces_between(all.ranks, value_in(process_environment(), "UCX_NET_DEVICES"));
    all.watch = watch_ranks(all, o);
}

planned_ranks connect_by(connection all, const plan& p, const options& o, std::string_view also) {
    agree(all, p.id(), o, also);
    const int rank = all.ranks.rank();
    try {
        all.ranks = in_places(std::move(all.ranks), data_of(p).machine, o.place);
        return {p, std::move(all), rank};
    } catch (const plan_error& e) {
        if (data_of(p).file.empty()) throw;
        throw plan_error(fmt::format("{}: {}", data_of(p).file, e.what()));
    }
}

}  // namespace

std::shared_ptr<liveness> watch_ranks(connection& all, const options& o) {
    if (o.failure_timeout.count() <= 0 || all.ranks.size() == 1) return nullptr;
    std::shared_ptr<liveness> made = watch_job(all, o.failure_timeout, o.ports);
    if (const std::vector<int> out = made->unreached(); o.log && !out.empty())
        o.log(log_level::warn,
              fmt::format("no lifeline to rank {} on {} can be made, {}. Without one a cut link is found at "
                          "options::timeout",
                          out.front(), made->host(out.front()), made->way(out.front())));
    return made;
}

std::shared_ptr<region_source> memory_of_processes(const options& o) {
    if (!o.log) return std::make_shared<posix_regions>();
    return std::make_shared<posix_regions>([log = o.log](std::string_view why) { log(log_level::warn, why); });
}

planned_ranks connect(connection all, const plan* p, const options& o, std::string_view also, kept_plans* kept) {
    if (p != nullptr) return connect_by(std::move(all), *p, o, also);
    if (!o.plan_file.empty()) {
        const plan named = or_tell_others(all.ranks, "no plan", [&] { return load_plan(o); });
        return connect_by(std::move(all), named, o, also);
    }
    agree(all, "of its own", o, also);
    const int rank = all.ranks.rank();
    const job found = describe_job(all.ranks, o);
    all.ranks = *all.ranks.split(0, found.place);
    plan made = plan_job(found, all.ranks, o, kept);
    return {std::move(made), std::move(all), rank};
}

}  // namespace terrace::detail
