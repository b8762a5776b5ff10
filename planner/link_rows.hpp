#pragma once

#include <string>
#include <vector>

#include "machine/hierarchy.hpp"

namespace terrace::detail {

/// The links of a machine in rows: those of the children of each level, then its NICs, then the links of rails to the
/// spine, as far as there are any. Rows are numbered from the innermost level on; the first depth() are levels.
class link_rows {
public:
    explicit link_rows(const hierarchy& machine);

    int count() const noexcept { return spine_row() + (machine_.nics.spine > 0 ? 1 : 0); }
    int nic_row() const noexcept { return machine_.depth(); }
    int spine_row() const noexcept { return machine_.depth() + (machine_.nics.empty() ? 0 : 1); }
    bool is_level(int row) const noexcept { return row < machine_.depth(); }
    /// The level into which the links of a row lead: for NICs and the spine, that between nodes.
    int level(int row) const noexcept { return is_level(row) ? row : nodes_; }

    int members(int row) const noexcept;
    /// Of one link, per direction [B/s].
    double rate(int row, int member) const noexcept;
    /// The link of a row by which a rank's messages leave.
    int member_of(int row, int rank) const noexcept;
    /// "cluster", "NICs of cluster", "spine of cluster".
    std::string name(int row) const;
    /// The same, of a level "links into cluster".
    std::string text(int row) const { return (is_level(row) ? "links into " : "") + name(row); }

    /// True if a message whose ends meet at this level leaves its node by a NIC.
    bool passes_nic(int level) const noexcept { return !machine_.nics.empty() && level >= nodes_; }
    /// True if such a message between two ranks goes over the spine.
    bool passes_spine(int from, int to) const noexcept { return machine_.nics.spine > 0 && rail(from) != rail(to); }

private:
    int rail(int rank) const noexcept { return rails_[static_cast<std::size_t>(rank)]; }

    const hierarchy& machine_;
    int nodes_;               // the level whose children are nodes
    std::vector<int> rails_;  // by rank; empty where there is no spine
};

}  // namespace terrace::detail
