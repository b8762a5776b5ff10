#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace terrace::detail {

/// A part of one node and what is below it, as a reader found it. Ranks will run on some of the parts.
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
    std::vector<int> processors = {};  ///< cores: their hardware threads, as the system numbers them (of this machine)
    int order = 0;                     ///< GPUs: where it comes in the driver's, else the bus's order
    double link = 0;               ///< PCIe link to the part above, per direction [B/s]; 0 where the file does not say
    double rate = 0;               ///< NICs: what the network port carries, per direction [B/s]; 0 as above
    bool infiniband = false;       ///< NICs: rather than Ethernet
    bool rdma = false;             ///< NICs: ranks would use this one
    bool used = false;             ///< NICs: some rank's nearest (from place_ranks on)
    int rank = -1;                 ///< the rank of this node that runs here (from place_ranks on)
    std::string nearest_nic = {};  ///< ranks: the NIC it uses; empty where there is none (from place_ranks on)
    int nic_number = -1;           ///< ranks: of that NIC among those in use, in the order of the tree
    kind nic_within = kind::machine;  ///< ranks: the smallest part that holds both
    std::uint32_t pci = 0;            ///< GPUs, NICs: vendor and device, 16 bits each; 0 where the file does not say
    std::vector<part> children = {};
};

std::string_view to_string(part::kind k) noexcept;

/// A list of one part, which an initializer list would copy.
inline std::vector<part> list_of(part p) {
    std::vector<part> list;
    list.push_back(std::move(p));
    return list;
}

/// The rate of two links, one behind the other [B/s]; 0 where a rate is not known.
constexpr double slower_of(double a, double b) { return a > 0 && b > 0 ? std::min(a, b) : std::max(a, b); }

/// One node as a file describes it.
struct hardware {
    /// Wires between GPUs, numbered as they come in the tree (preorder); every switch between GPUs is `to` == -1.
    struct wire {
        int from;
        int to;
        double rate;  ///< [B/s], this direction
    };
    part machine;
    std::string wire_name = "nvlink";  ///< what the wires are called
    std::vector<wire> wires;
    bool wires_known = false;             ///< what the file does not list is not there
    std::string wires_assumed = {};       ///< why the rates of wires are what they are; empty: the file has them
    std::vector<std::string> notes = {};  ///< for a person
};

/// The same as a line of JSON, and back: what the importing child process tells its parent.
std::string write_hardware(const hardware& h);
hardware read_hardware(std::string_view text);

}  // namespace terrace::detail
