#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace terrace::detail {

/// The collectives, one for each row of collectives.def.
enum class collective {
#define TERRACE_COLLECTIVE(name, up, down, blocks, root, exchange, own, mpi, nccl) name,
#include "base/collectives.def"
};

inline constexpr std::array all_collectives{
#define TERRACE_COLLECTIVE(name, up, down, blocks, root, exchange, own, mpi, nccl) collective::name,
#include "base/collectives.def"
};

/// One of the caller's buffers, or neither.
enum class side { neither, send, recv };

/// A row of collectives.def.
struct collective_row {
    std::string_view name;
    bool up, down, blocks;
    side root;
    bool exchange;
    side own;
    const char *mpi, *nccl;

    constexpr bool has_root() const noexcept { return root != side::neither; }
    /// Returns true if a rank passes in only its own block.
    constexpr bool gives_own_block() const noexcept { return own == side::send; }
    /// Returns true if a rank receives only its own block.
    constexpr bool gets_own_block() const noexcept { return own == side::recv; }
    /// Returns true if the rank passes in nothing. Its send buffer is then unused.
    constexpr bool gives_nothing(bool is_root) const noexcept { return root == side::send && !is_root; }
    /// Returns true if the rank receives nothing. Its receive buffer is then unused.
    constexpr bool gets_nothing(bool is_root) const noexcept { return root == side::recv && !is_root; }
    /// Returns the number of blocks that a rank passes in; a vector counts as one.
    constexpr int blocks_given(bool is_root, int ranks) const noexcept {
        return gives_nothing(is_root) ? 0 : blocks && !gives_own_block() ? ranks : 1;
    }
    /// Returns the number of blocks that a rank receives.
    constexpr int blocks_got(bool is_root, int ranks) const noexcept {
        return gets_nothing(is_root) ? 0 : blocks && !gets_own_block() ? ranks : 1;
    }
};
inline constexpr collective_row collective_rows[] = {
#define TERRACE_COLLECTIVE(name, up, down, blocks, root, exchange, own, mpi, nccl) \
    {#name, up, down, blocks, side::root, exchange, side::own, mpi, nccl},
#include "base/collectives.def"
};
constexpr const collective_row& row_of(collective c) noexcept { return collective_rows[static_cast<std::size_t>(c)]; }

/// Returns the name that the API, YAML and JSON use.
constexpr std::string_view to_string(collective c) noexcept { return row_of(c).name; }
/// Returns the collective of a name; nothing for an unknown name.
constexpr std::optional<collective> parse_collective(std::string_view text) noexcept {
    for (const collective c : all_collectives)
        if (to_string(c) == text) return c;
    return {};
}

}  // namespace terrace::detail
