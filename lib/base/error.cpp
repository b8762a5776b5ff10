#include <terrace/error.hpp>

#include <fmt/format.h>

namespace terrace {

namespace {

std::string located(const std::string& file, int line, int column, const std::string& message) {
    return line > 0 ? fmt::format("{}:{}:{}: {}", file, line, column, message) : fmt::format("{}: {}", file, message);
}

}  // namespace

input_error::input_error(std::string file, int line, int column, const std::string& message)
    : error(located(file, line, column, message)), file_(std::move(file)), line_(line), column_(column) {}

transport_error::transport_error(std::string library, std::string call, int code, const std::string& message)
    : error(fmt::format("{}: {} failed with code {}: {}", library, call, code, message)),
      library_(std::move(library)),
      call_(std::move(call)),
      code_(code) {}

}  // namespace terrace
