#pragma once

#include <memory>

namespace CLI {
class App;
}

namespace terrace::detail::bench {

/// The command lines of --links and --detect as modes of another one's page.
std::shared_ptr<CLI::App> links_page();
std::shared_ptr<CLI::App> detect_page();

}  // namespace terrace::detail::bench
