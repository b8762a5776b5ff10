#include "bench/measure/partners.hpp"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "bench/measure/mpi_world.hpp"

namespace terrace::detail::bench {

namespace {

int ranks_in(const tree& shape, int l, int child) {
    return shape.first_rank(l - 1, child + 1) - shape.first_rank(l - 1, child);
}

}  // namespace

partners all_pairs(const tree& shape, int l, const std::vector<int>& ranks) {
    partners found(shape, l, ranks);
    for (int d = 0; d < shape.domains(l); ++d) {
        const int first = shape.first_child(l, d), n = shape.children(l, d);
        if (n < 2) continue;
        for (int c = 0; c < n; ++c) {
            const int from = first + c, to = first + (c + 1) % n;
            const int senders = shape.first_rank(l - 1, from), receivers = shape.first_rank(l - 1, to);
            const int pairs = std::min(ranks_in(shape, l, from), ranks_in(shape, l, to));
            for (int i = 0; i < pairs; ++i) found.add(ranks[at(senders + i)], ranks[at(receivers + i)]);
        }
    }
    return found;
}

partners one_pair(const tree& shape, int l, const std::vector<int>& ranks) {
    partners found(shape, l, ranks);
    for (int d = 0; d < shape.domains(l) && !found.any; ++d) {
        if (shape.children(l, d) < 2) continue;
        const int child = shape.first_child(l, d);
        const int a = ranks[at(shape.first_rank(l - 1, child))], b = ranks[at(shape.first_rank(l - 1, child + 1))];
        found.add(a, b);
        found.add(b, a);
    }
    return found;
}

std::vector<std::vector<int>> fellows(const tree& shape, int l, const std::vector<int>& ranks) {
    std::vector<std::vector<int>> all;
    for (int d = 0; d < shape.domains(l); ++d) {
        const int first = shape.first_child(l, d), n = shape.children(l, d);
        if (n < 2) continue;
        int fewest = std::numeric_limits<int>::max();
        for (int c = first; c < first + n; ++c) fewest = std::min(fewest, ranks_in(shape, l, c));
        for (int i = 0; i < fewest; ++i) {
            std::vector<int>& group = all.emplace_back();
            for (int c = first; c < first + n; ++c) group.push_back(ranks[at(shape.first_rank(l - 1, c) + i)]);
        }
    }
    return all;
}

std::vector<double> rates_of(const hierarchy& machine, int l) {
    std::vector<double> rates;
    for (int c = 0; c < machine.shape.members(l); ++c) rates.push_back(machine.rate(l, c));
    return rates;
}

double largest_part(const world& w, const partners& p, const std::vector<double>& rates, double arrives_here) {
    std::vector<double> arrived(rates.size());
    const int child = p.child[at(w.rank())];
    arrived[at(child)] = arrives_here / rates[at(child)];
    check(
        MPI_Allreduce(MPI_IN_PLACE, arrived.data(), static_cast<int>(arrived.size()), MPI_DOUBLE, MPI_SUM, comm_of(w)),
        "MPI_Allreduce");
    return *std::max_element(arrived.begin(), arrived.end());
}

std::string name_of(const hierarchy& machine, int l) {
    return fmt::format("level {} of {}, {}", l + 1, machine.depth(), machine.levels[at(l)].name);
}

}  // namespace terrace::detail::bench
