#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace terrace::detail {

/// The collectives. Every row of collectives.def is one.
enum class collective {
#define TERRACE_COLLECTIVE(name, up, down, blocks, root, exchange, mpi, nccl) name,
#include "base/collectives.def"
};

inline constexpr std::array all_collectives{
#define TERRACE_COLLECTIVE(name, up, down, blocks, root, exchange, mpi, nccl) collective::name,
#include "base/collectives.def"
};

/// A row of collectives.def.
struct collective_row {
    std::string_view name;
    bool up, down, blocks, root, exchange;
    const char *mpi, *nccl;
};
inline constexpr collective_row collective_rows[] = {
#define TERRACE_COLLECTIVE(name, up, down, blocks, root, exchange, mpi, nccl) \
    {#name, up, down, blocks, root, exchange, mpi, nccl},
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

/// True if the collective reduces: its stages run up, from the innermost to the outermost.
constexpr bool goes_up(collective c) noexcept { return row_of(c).up; }
/// True if the collective spreads data: its stages run down, from the outermost to the innermost.
constexpr bool goes_down(collective c) noexcept { return row_of(c).down; }
/// True if the caller's buffers consist of a block for each rank.
constexpr bool has_blocks(collective c) noexcept { return row_of(c).blocks; }
/// True if one rank is the root.
constexpr bool has_root(collective c) noexcept { return row_of(c).root; }
/// True if each block goes from one rank to one other as it is.
constexpr bool exchanges(collective c) noexcept { return row_of(c).exchange; }
/// True if a rank gives its own block alone, of those that the longer buffer holds.
constexpr bool gives_own_block(collective c) noexcept { return c == collective::allgather || c == collective::gather; }
/// True if a rank gets its own block alone.
constexpr bool gets_own_block(collective c) noexcept {
    return c == collective::reduce_scatter || c == collective::scatter;
}
/// True if the rank passes nothing in, whose send buffer is then unused.
constexpr bool gives_nothing(collective c, bool is_root) noexcept {
    return !is_root && (c == collective::broadcast || c == collective::scatter);
}
/// True if the rank gets nothing, whose receive buffer is then unused.
constexpr bool gets_nothing(collective c, bool is_root) noexcept {
    return !is_root && (c == collective::reduce || c == collective::gather);
}

}  // namespace terrace::detail
