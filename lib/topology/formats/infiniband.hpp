#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <terrace/error.hpp>

#include "topology/network.hpp"

namespace terrace::detail {

/// An InfiniBand fabric as its switches' ports: what ibnetdiscover and iblinkinfo print.
struct infiniband_fabric {
    struct port {
        std::string peer;         ///< the id of a switch, or of a channel adapter (of one of its ports, in iblinkinfo)
        std::string description;  ///< of the peer: "node01 HCA-1"; empty where the file has none
        double rate = 0;          ///< per direction [B/s]; 0: not known
    };
    struct fabric_switch {
        text_position where;
        std::string id;
        std::string description;
        std::vector<port> ports = {};  ///< those with a link
    };
    std::string source;
    std::vector<fabric_switch> switches = {};
};

/// The data rate of one lane, after its encoding, by the name of its speed ("NDR") or its signalling rate [Gbit/s], as
/// the tools print them [B/s]. Nothing if there is no such speed.
std::optional<double> infiniband_lane(std::string_view speed) noexcept;
std::optional<double> infiniband_lane(double gbit) noexcept;

/// The rate of a link by its width, "4x" or "4X", and the name of its speed [B/s]; 0 where either is not known.
double infiniband_rate(std::string_view width, std::string_view speed) noexcept;

/// Makes trees of a fabric: switches that nodes hang on, then what the switches one hop, two hops ... further away
/// connect. Leaf switches that share a node (rails) are one. Links have the rates of all their cables together.
/// @throws input_error if no switch has a node
switch_network network_of(const infiniband_fabric& f);

/// Reads a fabric from what a tool prints, line by line.
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
    bool in_switch_ = false;  ///< the lines that follow are about the last switch

private:
    /// @param text has no blanks at its ends
    virtual void read_line(std::string_view text, int line) = 0;
};

}  // namespace terrace::detail
