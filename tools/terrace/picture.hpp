#pragma once

#include <string>
#include <vector>

#include "machine/hierarchy.hpp"
#include "topology/hardware.hpp"

namespace terrace::detail {

/// A machine as a tree of domains, its links' rates beside it; perhaps stages over the levels that they cover, how busy
/// links are, and the inside of a node. Of many equal children some are drawn.
struct picture {
    struct load {
        std::string text;
        double part = 0;  ///< of the time that the link is busy
    };
    struct stage {
        int first = 0, last = 0;         ///< levels
        std::vector<std::string> lines;  ///< the first one in bold
    };

    const hierarchy& machine;
    std::string title, subtitle;
    std::vector<stage> stages = {};  ///< innermost first; all levels or none
    std::vector<load> loads = {};    ///< by level, or none
    struct inside {
        std::string title;
        const part* node;
    };
    std::vector<inside> nodes = {};
};

std::string draw_svg(const picture& p);

}  // namespace terrace::detail
