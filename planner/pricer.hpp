#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/index.hpp"
#include "planner/price.hpp"
#include "planner/samples.hpp"
#include "planner/stage_load.hpp"
#include "schedule/block_layout.hpp"

namespace terrace::detail {

/// Returns "0-1:8:scatter:ring:messages:0:;", the same text for equal stages and for no other stages.
std::string key_of(std::span<const stage> stages);

/// A way to run a stage: an algorithm and the provider of its messages, or a provider's own collective.
struct stage_option {
    const algorithm* by;
    detail::provider provider;
    std::shared_ptr<const stage_price> cost;

    void apply_to(stage& s) const {
        s.algorithm = by->sends() ? by->name : "";
        s.provider = provider;
    }
};

/// Prices stages on one machine, for any grouping of its levels. The composition of the stages gives the groups that
/// meet and their parts of the vector, and the programs of the algorithms give the messages. A stage's price does not
/// depend on the algorithms of inner stages and, except with unequal blocks, not on outer stages. So each stage is
/// priced once.
class pricer {
public:
    /// @param all_up_to as in samples
    explicit pricer(const hierarchy& machine, int all_up_to = policy.told_apart);

    const hierarchy& machine() const noexcept { return machine_; }
    const link_rows& rows() const noexcept { return rows_; }

    /// @throws plan_error as compose
    price price_stages(std::span<const stage> stages, collective what);
    /// Returns all algorithms and collectives that can run a stage, whatever its own algorithm is (planner/available).
    std::span<const stage_option> options_of(std::span<const stage> stages, std::size_t number, collective what) {
        const auto [known, is_new] = options_.try_emplace({what, key_of_groups(stages, number, what)});
        if (is_new) known->second = price_options(stages, number, what);
        return known->second;
    }
    /// Returns the price of stages from their known costs.
    price price_together(collective what, std::span<const stage> stages,
                         std::span<const std::shared_ptr<const stage_price>> costs);

private:
    // The data that the groups divide: a vector; the vector of a call from or to rank 0; or blocks.
    enum class division_by { vector, root, blocks };
    struct layout {
        std::vector<stage> stages;
        std::optional<route_view> seen;  // has a level for each stage
        group_composer composer;
        block_layout of_blocks;

        const tree& shape() const { return seen->shape(); }
        const composition& groups() const { return of_blocks.c.count > 0 ? of_blocks.c : composer.groups(); }
        // Returns data that rank 0 has at the end.
        range first_block() const { return of_blocks.blocks.empty() ? range{0, 1} : of_blocks.blocks.front(); }
    };
    // A stage with one of its options.
    struct running_stage {
        std::span<const stage> stages;
        std::size_t number;
        const algorithm& by;
        detail::provider provider;
        collective what;

        const stage& itself() const { return stages[number]; }
    };

    // Blocks of equal domains divide as a vector does.
    division_by divided_by(collective what) const {
        if (row_of(what).blocks && !machine_.shape.uniform() && machine_.ranks() <= policy.most_exchanges_at_once)
            return division_by::blocks;
        return row_of(what).has_root() && !row_of(what).exchange ? division_by::root : division_by::vector;
    }
    bool has_all_groups(collective what) const {
        return ranks_.count() == at(machine_.ranks()) || divided_by(what) == division_by::blocks;
    }
    std::string key_of_groups(std::span<const stage> stages, std::size_t number, collective what) const;
    const layout& lay_out(std::span<const stage> stages, collective what);
    std::shared_ptr<const stage_price> price_stage(const running_stage& s);
    std::shared_ptr<const phase_load> price_phase(const running_stage& s, bool down);
    // Function that returns the movement of a group in one direction of a stage, if any. It is one of the three below.
    using movement = std::optional<moving_group> (pricer::*)(const running_stage& s, const layout& l, const group& g,
                                                             bool down);
    std::optional<moving_group> moved(const running_stage& s, const layout& l, const group& g, bool down);
    std::optional<moving_group> exchanged(const running_stage& s, const layout& l, const group& g, bool down);
    std::optional<moving_group> forwarding_moves(const running_stage& s, const layout& l, const group& g, bool down);
    moving_group moving(const running_stage& s, group who, algorithm::generator emit, double part, bool root_adds);
    std::vector<moving_domain> domains_of(const running_stage& s, bool down, movement of_group);
    std::shared_ptr<const phase_load> load(const running_stage& s, bool down, movement of_group);
    std::vector<stage_option> price_options(std::span<const stage> stages, std::size_t number, collective what);
    std::vector<stage_pass> passes_of(std::span<const stage> stages,
                                      std::span<const std::shared_ptr<const stage_price>> costs) const;
    stage_pass copies(double by_root, double by_others) const;

    const hierarchy& machine_;
    link_rows rows_;
    samples ranks_;
    link_sums sums_;
    std::vector<layout> layouts_;          // the last layout for each division_by
    std::map<collective, double> limits_;  // by collective: lower bound of the time per byte [s]
    std::map<std::string, std::shared_ptr<const phase_load>> phases_;
    std::map<std::pair<collective, std::string>, std::vector<stage_option>> options_;
};

}  // namespace terrace::detail
