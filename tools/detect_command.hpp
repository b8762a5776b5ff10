#pragma once

#include <string>

namespace terrace {

/// `terrace detect [-o FILE] [--node-file FILE] [--ranks UNIT]`: describes the machine it runs on as a cluster file.
struct detect_command {
    std::string output;
    std::string node_file;
    std::string ranks;

    /// @returns the exit code: 0
    int run() const;
};

}  // namespace terrace
