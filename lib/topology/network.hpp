#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <terrace/error.hpp>

#include "base/hosts.hpp"
#include "machine/hierarchy.hpp"
#include "topology/node_nics.hpp"

namespace terrace::detail {

/// A position in a file, counted from 1. Line 0: the file as a whole.
struct text_position {
    int line = 0;
    int column = 0;
};

/// A switch, or another unit that joins nodes (a block, a rack), as a file describes it.
struct network_switch {
    text_position where;
    std::string name;
    std::vector<std::string> nodes = {};     ///< nodes on this switch; empty if it has `switches`
    std::vector<std::string> switches = {};  ///< names of the switches below it
    std::optional<double> speed = {};        ///< of one link downwards, per direction [B/s]
    bool speed_assumed = false;
    std::vector<double> node_links = {};  ///< by node: all its links together [B/s]; 0, or empty: not known
    double link_up = 0;                   ///< all links upwards together, per direction [B/s]; 0: not known
};

/// The network above nodes, as a reader found it: switches that must form trees.
struct switch_network {
    std::string source;  ///< the file, for messages
    std::vector<network_switch> switches = {};
    std::vector<std::string> levels = {"leaf", "spine", "core"};  ///< names, innermost first; more levels are numbered
    std::vector<std::string> notes = {};
    std::unordered_map<std::string, std::vector<double>> nics = {};  ///< by node: its port rates [B/s]; 0: not known
    bool rails = false;                                              ///< port i of all nodes is on a switch of its own
    double spine = 0;  ///< with rails: all uplinks of one rail's switch together [B/s]; 0: not known
    std::string join_advice = "add a switch above both";  ///< advice if the switches form several trees
    std::string slow_advice = {};                         ///< advice if links seem slower than the links below them

    /// Returns the name of level l, 0 the innermost.
    std::string level_name(int l) const;
    [[noreturn]] void fail(text_position where, const std::string& message) const {
        throw input_error(source, where.line, where.column, message);
    }
    /// Fails if a node cannot have this name.
    void expect_host_name(const std::string& name, text_position where) const;
};

/// Expands the lists of names in one file, which may have 500,000 names in all. @throws usage_error
class name_lists {
public:
    std::vector<std::string> expand(std::string_view list);

private:
    std::size_t left_ = 2 * max_hosts;
};

/// Switches as levels, and notes for a person.
struct network_levels {
    hierarchy machine;
    std::vector<std::string> notes;
};

/// Makes levels of switches. The ranks of the result are nodes, with their names. Levels that join nothing are left
/// out. If `hosts` is not empty, trees without any of these hosts (found by host_index) are left out; the rest must be
/// one tree.
///
/// A node has as many links into its switch as it has NICs (`nodes`). If the file gives no speed, a node's link has the
/// rate of `nodes`, or the default rate of InfiniBand; switches are then assumed not to block.
/// @throws input_error with line and column, usage_error that names a missing host
network_levels levels_of(const switch_network& n, const std::optional<uplink>& nodes,
                         const std::vector<std::string>& hosts);

/// Returns true if a text is the name of one host.
bool is_host_name(const std::string& text);
/// Returns true if all hosts are nodes of the network.
bool has_all(const switch_network& n, const std::vector<std::string>& hosts);

}  // namespace terrace::detail
