#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <terrace/error.hpp>

#include "topology/network.hpp"

namespace terrace::detail {

/// An InfiniBand fabric as the ports of its switches, as ibnetdiscover and iblinkinfo print it.
struct infiniband_fabric {
    struct port {
        std::string peer;         ///< the id of a switch, or of a channel adapter (of one of its ports, in iblinkinfo)
        std::string description;  ///< of the peer: "node01 HCA-1"; empty if the file has none
        double rate = 0;          ///< per direction [B/s]; 0: not known
    };
    struct fabric_switch {
        text_position where;
        std::string id;
        std::string description;
        std::vector<port> ports = {};  ///< only ports with a link
    };
    std::string source;
    std::vector<fabric_switch> switches = {};
};

/// Returns the data rate of one lane after its encoding [B/s]; nothing for an unknown speed. The speed is given by its
/// name ("NDR") or by its signalling rate as the tools print it [Gbit/s].
std::optional<double> infiniband_lane(std::string_view speed) noexcept;
std::optional<double> infiniband_lane(double gbit) noexcept;

/// Returns the rate of a link from its width, "4x" or "4X", and the name of its speed [B/s]; 0 if either is unknown.
double infiniband_rate(std::string_view width, std::string_view speed) noexcept;

/// Makes trees of a fabric. The innermost switches have nodes; switches one hop, two hops ... further away join them.
/// Leaf switches that share a node (rails) become one. A link has the rates of all its cables together.
/// @throws input_error if no switch has a node
switch_network network_of(const infiniband_fabric& f);

/// Reads a fabric from the output of a tool, line by line.
class fabric_reader {
public:
    virtual ~fabric_reader() = default;
    /// @throws input_error
    switch_network read(const std::string& file);

protected:
    [[noreturn]] void fail(int line, const std::string& message) const {
        throw input_error(fabric_.source, line, 1, message);
    }

    infiniband_fabric fabric_;
    bool in_switch_ = false;  ///< true while the lines describe the last switch

private:
    /// @param text a line without blanks at its ends
    virtual void read_line(std::string_view text, int line) = 0;
};

}  // namespace terrace::detail
