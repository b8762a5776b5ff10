#include "schedule/registry.hpp"

#include <array>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/keep_for_ever.hpp"

// The table. A row names an algorithm; algorithms/NAME.cpp describes it by a function generate_NAME().
#define TERRACE_ALGORITHMS(row) \
    row(ring) row(biring) row(rings) row(halving) row(direct) row(tree) row(trees) row(chain) row(doubling)

namespace terrace::detail {

#define TERRACE_DECLARE(name) algorithm generate_##name();
TERRACE_ALGORITHMS(TERRACE_DECLARE)
#undef TERRACE_DECLARE

int steps_of(algorithm::generator emit, int size) {
    if (emit == nullptr) return 0;
    builder out(0, size, collective::allreduce, size);
    emit(out, group::numbered(size));
    return out.step();
}

int algorithm::startups(int size) const {
    if (rounds != nullptr) return rounds(size);
    return steps_of(reduce_scatter != nullptr ? reduce_scatter : reduce != nullptr ? reduce : allreduce, size);
}

algorithm_table::algorithm_table(std::vector<algorithm> rows) : rows_(std::move(rows)) {
    const auto refuse = [](const algorithm& a, std::string_view why) {
        throw std::logic_error(fmt::format("algorithm \"{}\": {}", a.name, why));
    };
    for (const algorithm& a : rows_) {
        if (a.name.empty()) refuse(a, "a row must have a name");
        if (find(a.name) != &a) refuse(a, "another row has the same name");
        if ((a.reduce_scatter == nullptr) != (a.allgather == nullptr))
            refuse(a, "mode scatter needs both reduce_scatter and allgather");
        if ((a.scatter == nullptr) != (a.gather == nullptr)) refuse(a, "a root needs both scatter and gather");
        if ((a.reduce == nullptr) != (a.broadcast == nullptr)) refuse(a, "mode root needs both reduce and broadcast");
        if (!a.supports(mode::scatter) && !a.supports(mode::root) && !a.supports(mode::replicate))
            refuse(a, "a row must have a generator: reduce_scatter and allgather, reduce and broadcast, or allreduce");
    }
    const algorithm direct = generate_direct();
    for (algorithm& a : rows_)
        if ((a.supports(mode::scatter) || a.supports(mode::root)) && a.scatter == nullptr)
            a.scatter = direct.scatter, a.gather = direct.gather;
}

const algorithm_table& known_algorithms() {
#define TERRACE_ENTRY(name) generate_##name(),
    static const auto& table = kept_for_ever(algorithm_table({TERRACE_ALGORITHMS(TERRACE_ENTRY)}));
#undef TERRACE_ENTRY
    return table;
}

const algorithm* find_algorithm(const stage& s) noexcept {
    if (s.sends()) return find_algorithm(s.algorithm);
    for (const algorithm& a : provider_collectives())
        if (a.provider == s.provider) return &a;
    return nullptr;
}

std::string fault_of(const stage& s) {
    const algorithm* by = find_algorithm(s);
    const std::string_view how = to_string(s.how);
    if (by == nullptr)
        return fmt::format("unknown algorithm \"{}\"; for mode {}: {}", s.algorithm, how, algorithm_names(s.how));
    // Other algorithms would round a contribution again each time that they forward it.
    if (s.wire != wire_type::exact && by->graph != message_graph::all_at_once)
        return fmt::format(
            "wire {} requires an algorithm that sends straight to the owner, as direct does; {} does not",
            to_string(s.wire), by->name);
    if (by->supports(s.how)) return {};
    if (s.sends())
        return fmt::format("algorithm {} does not support mode {}; these do: {}", s.algorithm, how,
                           algorithm_names(s.how));
    return fmt::format("provider {} has no collective of its own for mode {}; add an algorithm for its messages: {}",
                       to_string(s.provider), how, algorithm_names(s.how));
}

namespace {

template <class Predicate>
std::string names_of_those(Predicate able) {
    std::vector<std::string_view> names;
    for (const algorithm& a : algorithms())
        if (able(a)) names.push_back(a.name);
    return fmt::format("{}", fmt::join(names, ", "));
}

template <provider By, action Stage>
void run_by_provider(builder& out, const group& g) {
    out.next_step();
    out.run_by_provider(By, Stage, g);
}

template <provider By>
algorithm collective_of(std::string_view summary) {
    return {
        .name = to_string(By),
        .summary = summary,
        .reduce_scatter = run_by_provider<By, action::stage_reduce_scatter>,
        .allgather = run_by_provider<By, action::stage_allgather>,
        .reduce = run_by_provider<By, action::stage_reduce>,
        .broadcast = run_by_provider<By, action::stage_broadcast>,
        .allreduce = run_by_provider<By, action::stage_allreduce>,
        .scatter = run_by_provider<By, action::stage_scatter>,
        .gather = run_by_provider<By, action::stage_gather>,
        .provider = By,
    };
}

// Leaves allreduce out: MPI decides there which rank reduces which element, so ranks might get different bits.
algorithm mpi_collective() {
    algorithm made = collective_of<provider::mpi>("MPI's own nonblocking collective; direct without MPI");
    made.allreduce = nullptr;
    return made;
}

}  // namespace

std::string algorithm_names(mode m) {
    return names_of_those([m](const algorithm& a) { return a.supports(m); });
}

std::string exchanger_names() {
    return names_of_those([](const algorithm& a) { return a.exchange != nullptr; });
}

std::span<const algorithm> provider_collectives() noexcept {
    static const auto& rows = kept_for_ever(std::array{
        collective_of<provider::shared_memory>("memory that the ranks of a node share; direct where they share none"),
        collective_of<provider::nccl>("NCCL's own collective of device buffers; host buffers use shared_memory"),
        mpi_collective(),
    });
    return rows;
}

}  // namespace terrace::detail
