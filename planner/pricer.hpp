#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "planner/layout.hpp"
#include "planner/pattern.hpp"
#include "planner/price.hpp"

namespace terrace::detail {

/// Returns "0-1:8:scatter:ring:messages:0:;", the same text for equal stages and for no others.
std::string key_of(std::span<const stage> stages);

/// Something that can run a stage: an algorithm and who carries its messages, or a provider's own collective.
struct stage_option {
    const algorithm* by;
    detail::provider provider;
    std::shared_ptr<const stage_price> cost;

    void apply_to(stage& s) const {
        s.algorithm = by->sends() ? by->name : "";
        s.provider = provider;
    }
};

/// Prices stages on one machine, for any grouping of its levels. A stage has the same price whatever stages are outside
/// it and whatever algorithms are inside it, so that each is priced once.
class pricer {
public:
    /// @param patterns may be those of another pricer, of whatever machine
    explicit pricer(const hierarchy& machine, std::shared_ptr<pattern_book> patterns = std::make_shared<pattern_book>())
        : pricer(machine, sampler(machine), std::move(patterns)) {}
    pricer(const hierarchy& machine, sampler samples,
           std::shared_ptr<pattern_book> patterns = std::make_shared<pattern_book>());

    const hierarchy& machine() const noexcept { return machine_; }

    /// @throws plan_error where compose would
    price price_stages(std::span<const stage> stages, collective what);
    /// Returns for each stage, whatever its algorithm is, all that can run it (planner/available).
    std::vector<std::span<const stage_option>> price_options(std::span<const stage> stages, collective what);
    /// Returns the price of stages whose costs are known.
    price price_together(collective what, std::span<const stage> stages,
                         std::vector<std::shared_ptr<const stage_price>> costs);

private:
    // The price of the last stage for a collective: where it is not `alone`, for all those that share a price.
    std::shared_ptr<const stage_price> price_last_stage(std::span<const stage> up_to_it, const algorithm& a,
                                                        provider by, collective what, bool alone);
    std::shared_ptr<const stage_price> price_stage(std::span<const stage> up_to_it, const algorithm& a, provider by,
                                                   std::optional<collective> only);
    root_price price_at_root(const layout& l, const algorithm& a, provider by, const stage_price& of_all);
    std::shared_ptr<const stage_price> price_exchange(std::span<const stage> up_to_it, const algorithm& a, provider by);
    double vectors_of_one(std::span<const stage> stages);
    phase_load load_of_rooted_exchange(std::span<const stage> up_to_it, const algorithm& a, provider by, bool down);
    const std::shared_ptr<const stage_price>& price_handing(std::span<const stage> up_to_it);
    double part_of_domain(const layout& l) const;
    double exchange_accesses(collective what, std::span<const stage> stages);
    std::vector<stage_option> options_of(std::span<const stage> up_to_it, collective what);
    std::vector<leg> legs_of(std::span<const stage> stages,
                             std::vector<std::shared_ptr<const stage_price>> costs) const;

    const hierarchy& machine_;
    sampler samples_;
    std::shared_ptr<const stage_price> block_copies_;  // of collectives that have blocks, in each phase
    std::shared_ptr<const stage_price> root_copy_;     // of a broadcast's root, to where its peers reach it
    std::map<collective, double> limits_;              // of a byte [s]
    std::shared_ptr<pattern_book> patterns_;
    std::map<std::string, std::shared_ptr<const stage_price>> handing_;  // by the stages up to the one in mode root
    // By the layout of the stages up to the priced one; those of exchanges.
    std::map<std::string, std::vector<stage_option>> options_, exchange_options_, rooted_exchange_options_;
};

}  // namespace terrace::detail
