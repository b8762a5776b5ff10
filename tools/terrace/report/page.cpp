#include "tools/terrace/report/parts.hpp"

#include <fmt/format.h>

#include <terrace/version.hpp>

#include "report_files.hpp"

namespace terrace::detail {

namespace {

// Inside <script> no "</" may stand: JSON may write the stroke with a backslash before it.
std::string inside_script(std::string text) {
    for (std::size_t i = text.find("</"); i != text.npos; i = text.find("</", i + 3)) text.insert(i + 1, "\\");
    for (std::size_t i = text.find("<!"); i != text.npos; i = text.find("<!", i)) text.replace(i, 1, "\\u003c");
    return text;
}

std::string escaped(const std::string& text) {
    std::string out;
    for (const char c : text) {
        if (c == '<') out += "&lt;";
        else if (c == '&') out += "&amp;";
        else if (c == '"') out += "&quot;";
        else out += c;
    }
    return out;
}

}  // namespace

std::string page_of_parts(const nlohmann::ordered_json& parts) {
    std::string title;
    for (const auto& part : parts) title += (title.empty() ? "" : ", ") + part.value("name", std::string());
    return fmt::format(
        "<!DOCTYPE html>\n<!-- made by terrace {0} -->\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        "script-src 'unsafe-inline'; img-src data:\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Terrace: {1}</title>\n"
        "<style>\n{2}</style>\n</head>\n{3}"
        "<script type=\"application/json\" id=\"parts\">{4}</script>\n<script>\n{5}</script>\n</body>\n</html>\n",
        version(), escaped(title), report_css, report_html, inside_script(parts.dump()), report_js);
}

}  // namespace terrace::detail
