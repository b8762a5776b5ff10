#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "topology/gpu_links.hpp"
#include "topology/hardware.hpp"
#include "topology/model.hpp"
#include "topology/network.hpp"

namespace terrace::detail {

struct topology_format;

/// Reads one node. `source` is the path of a file, or the line itself if the format is a line. @throws input_error
using node_reader = std::function<hardware(const topology_format& format, const std::string& source)>;

/// The unit of LinkSpeed in Slurm's files, which Slurm does not define.
enum class link_unit { gbit, mbit };
std::optional<link_unit> parse_link_unit(std::string_view text) noexcept;

/// Settings that the reader of a whole machine or of a network may need besides the source.
struct read_options {
    node_reader read_node = {};           ///< reads the descriptions of nodes that a cluster file names
    std::vector<std::string> hosts = {};  ///< the nodes of the job; empty: all
    std::optional<link_unit> unit = {};
    std::optional<gpu_fabric> gpus = {};  ///< links between the GPUs of a node, if its file has none
    /// Labels of Kubernetes nodes that give their places, outermost first; empty: the labels that Terrace knows.
    std::vector<std::string> labels = {};
    std::string network_name = {};  ///< name of the network to read, if the file has several; empty: its default
};

/// The beginning of a source, by which formats recognise it.
struct source_start {
    bool is_file;
    std::string_view text;  ///< start of the file (at most 64 KiB, without leading blanks), or the line
    std::string_view root;  ///< the name of the root element of an XML file; empty in other files
};

/// One format of topology sources: a row of the table in formats.cpp. formats/NAME.cpp defines it.
struct topology_format {
    using of_node = hardware (*)(const std::string& source);
    using of_machine = topology (*)(const std::string& source, const read_options& options);
    using of_network = switch_network (*)(const std::string& source, const read_options& options);

    std::string_view name;  ///< also the key under `node:` in a cluster file, if the format describes one node
    std::string_view description;
    bool (*sniff)(const source_start& start);
    /// Reads the source. @throws input_error
    std::variant<of_node, of_machine, of_network> read;
    std::string_view line = {};  ///< an example, if a source is one line of text and not a file
    bool may_crash = false;      ///< bad input may end the process: untrusted sources are read in a child process

    bool describes_node() const noexcept { return std::holds_alternative<of_node>(read); }
    bool describes_network() const noexcept { return std::holds_alternative<of_network>(read); }
};

/// Returns all formats, in the order in which format_of tries them.
std::span<const topology_format> topology_formats();
/// Returns the format of this name; null if there is none.
const topology_format* find_format(std::string_view name);
/// Returns the descriptions of all formats, for help and messages: "a node's hwloc XML, ...".
std::string format_descriptions();
/// Returns the descriptions of the formats that describe how nodes are connected.
std::string network_descriptions();
/// Returns the first format that recognises the source: a file, or a line if there is no such file.
/// @throws input_error if the file cannot be read, or if no format recognises it
const topology_format& format_of(const std::string& source);

/// Reads a node in this process. @throws input_error
hardware read_node(const topology_format& format, const std::string& source);
/// Reads how nodes are connected. @throws input_error; usage_error if the format describes something else
switch_network read_network(const topology_format& format, const std::string& source, const read_options& options);
/// Reads a machine. If the source describes one node, place_ranks puts its ranks on GPUs, cores ... by `ranks`. If it
/// describes how nodes are connected, each node is one rank. @throws input_error, usage_error
topology read_machine(const topology_format& format, const std::string& source, std::optional<rank_unit> ranks,
                      const read_options& options);

/// Returns the last part of the path without its extension: the name of a machine whose file has none.
std::string name_of_source(const std::string& source);

}  // namespace terrace::detail
