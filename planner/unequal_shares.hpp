#pragma once

#include <vector>

#include "machine/hierarchy.hpp"

namespace terrace::detail {

/// Computes the part of a vector that each member of a stage owns in an allreduce (stage::shares), so the busiest link
/// is busy for the shortest time. Shares are equal if links are alike, and on a torus.
///
/// After each domain d of n children has exchanged its vector, N bytes, child c owns the part f_c. Its link has passed
/// (1 + (n - 2) f_c) N each way, and passes f_c of the data that the domain's own link will pass. In vectors:
///
///     X_c = 1 + f_c (n - 2 + X_d),  X = 0 outside of all ranks;  summed up over children: 2 (n - 1) + X_d
///
/// In the time T, a child of rate U passes at most M_c = min(T U_c / N, sum of M inside - 2 (n - 1)). T is long enough
/// if M >= 1 everywhere and the outermost sum is at least 2 (n - 1). In the least such time f_c ~ M_c - 1 meets all
/// bounds. A rank's NIC of rate R passes f_c X_d of its node's messages: f_c <= T R / (N X_d).
///
/// In a ring of all children, each of which forwards its data, the link from one child to the next passes
///
///     2 - f_c - f_next
///
/// so a child with a slow link owns more. If it owns all, sums end and results begin there, and its link passes 1.
class unequal_shares {
public:
    explicit unequal_shares(const hierarchy& machine);

    /// Returns the shares of a stage of whole levels, in mode scatter; empty if all are equal.
    std::vector<int> of(const std::vector<int>& levels) const;
    /// Returns the shares of the outermost stage as a ring. @param level first level of the stage
    std::vector<int> around(int level) const;

private:
    bool is_enough(double time);
    std::vector<int> of_domain(const std::vector<int>& levels, int domain) const;

    const hierarchy& machine_;
    double limit_ = 0;  // limit of the machine, and T / N [s/B]
    double time_ = 0;
    std::vector<std::vector<double>> most_;  // M, by level and child; empty if links are alike
    std::vector<double> nics_;               // R, by rank; empty if nodes have no NICs [B/s]
};

}  // namespace terrace::detail
