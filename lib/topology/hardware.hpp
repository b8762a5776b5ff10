#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace terrace::detail {

/// A part of one node with the parts below it, as a reader found them. Ranks will run on some of the parts.
struct part {
    enum class kind {
        machine,
        package,
        numa,
        cache,       ///< a last-level cache that cores share
        root,        ///< a PCIe root complex (host bridge)
        bus_switch,  ///< a PCIe switch
        slot,        ///< devices that share one PCIe slot
        gpu,
        nic,
        core
    };
    kind what = kind::machine;
    std::string name = {};
    std::vector<int> processors = {};  ///< cores: hardware threads in the system's numbers; write_hardware omits them
    int order = 0;                     ///< GPUs: position in the driver's order, else in the order on the bus
    double link = 0;                   ///< PCIe link to the part above, per direction [B/s]; 0: not in the file
    double rate = 0;                   ///< NICs: rate of the network port, per direction [B/s]; 0: not in the file
    bool infiniband = false;           ///< NICs: true for InfiniBand, false for Ethernet
    bool rdma = false;                 ///< NICs: has RDMA, so ranks prefer it
    bool used = false;                 ///< NICs: nearest to some rank (set by place_ranks)
    int rank = -1;                     ///< rank of this node that runs here; -1: none (set by place_ranks)
    std::string nearest_nic = {};      ///< ranks: name of the NIC in use; empty: none (set by place_ranks)
    int nic_number = -1;               ///< ranks: number of this NIC among those in use, in the order of the tree
    kind nic_within = kind::machine;   ///< ranks: kind of the smallest part that holds rank and NIC
    std::uint32_t pci = 0;             ///< GPUs, NICs: vendor and device, 16 bits each; 0: not in the file
    std::vector<part> children = {};
};

std::string_view to_string(part::kind k) noexcept;

/// Returns a list of one part without the copy that an initializer list makes.
inline std::vector<part> list_of(part p) {
    std::vector<part> list;
    list.push_back(std::move(p));
    return list;
}

/// Returns the rate of two links in series [B/s]. 0 is an unknown rate: the other rate then counts alone.
constexpr double rate_in_series(double a, double b) { return a > 0 && b > 0 ? std::min(a, b) : std::max(a, b); }

/// One node as a file describes it.
struct hardware {
    /// A wire from a GPU to another GPU, or to any switch (`to` == -1). GPUs are numbered in the tree's preorder.
    struct wire {
        int from;
        int to;
        double rate;  ///< [B/s], this direction
    };
    part machine;
    std::string wire_name = "nvlink";  ///< kind of the wires
    std::vector<wire> wires;
    bool wires_known = false;             ///< true if wires that the file does not list do not exist
    std::string wires_assumed = {};       ///< reason for the assumed rates of wires; empty: the file has the rates
    std::vector<std::string> notes = {};  ///< for the user
};

/// Writes hardware as a line of JSON, and reads it back. An importing child process sends this line to its parent.
std::string write_hardware(const hardware& h);
hardware read_hardware(std::string_view text);

}  // namespace terrace::detail
