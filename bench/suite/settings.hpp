#pragma once

#include <memory>

namespace CLI {
class App;
}

namespace terrace::detail::bench {

/// The command line of --suite as a mode of another one's page, for which alone it is here: tools/bench-suite reads its
/// own.
std::shared_ptr<CLI::App> suite_page();

}  // namespace terrace::detail::bench
