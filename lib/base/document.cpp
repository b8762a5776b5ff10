#include "base/document.hpp"

#include <algorithm>
#include <limits>
#include <sstream>
#include <unordered_set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <terrace/error.hpp>
#include <terrace/version.hpp>

#include "base/edit_distance.hpp"
#include "base/letters.hpp"
#include "base/text_check.hpp"
#include "base/text_parts.hpp"
#include "base/units.hpp"

namespace terrace::detail {

namespace {

// Returns advice on an error of yaml-cpp, whose message only describes the error.
std::string_view advice_on(std::string_view message) {
    struct row {
        std::string_view part, advice;
    };
    constexpr row table[] = {
        {"sequence flow", "close the list with ]"},
        {"map flow", "close the map with }"},
        {"flow end", "a ] or } closes what is not open; remove it, or open it before"},
        {"EOF in scalar", "close the quotes"},
        {"illegal map value", "put a text that holds \": \" in quotes, and indent keys of one map alike"},
        {"block entry", "indent with spaces, and items of one list alike"},
        {"unknown token", "put a text that begins with @ ` or % in quotes"},
        {"escape character", "write \\\\ for a backslash, or use single quotes"},
    };
    for (const row& r : table)
        if (message.find(r.part) != message.npos) return r.advice;
    return "this is not YAML; look for missing quotes, brackets and spaces here";
}

// Returns true if this line of `text`, counted from 0, has a host list in the format of Slurm without quotes: YAML ends
// a value in a list or map at '['.
bool has_bare_host_list(std::string_view text, int line) {
    for (; line > 0 && !text.empty(); --line) text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
    text = text.substr(0, text.find('\n'));
    for (std::size_t i = 1; i + 1 < text.size(); ++i)
        if (text[i] == '[' && is_digit(text[i + 1]) &&
            (is_letter(text[i - 1]) || is_digit(text[i - 1]) || text[i - 1] == '-'))
            return std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(i), '"') % 2 == 0;
    return false;
}

constexpr std::size_t max_depth = 64;
constexpr std::size_t max_values = 500'000;  // the worst case uses 150 MiB and 1.2 s

struct place {
    int line = 0;
    int column = 0;
};

place place_of(const YAML::Mark& mark) { return mark.is_null() ? place{} : place{mark.line + 1, mark.column + 1}; }

// If a line begins with a flow list, yaml-cpp holds all tokens of the line at once, at some 200 bytes each. Tokens are
// separated by indicators, so a limit on indicators bounds the memory.
void check_indicators(std::string_view text, const std::string& file) {
    constexpr std::string_view indicators = "[]{},:?\"'&*!";
    const auto is_indicator = [&](char c) { return indicators.find(c) != indicators.npos; };
    if (std::count_if(text.begin(), text.end(), is_indicator) > static_cast<std::ptrdiff_t>(max_values))
        throw input_error(file, 0, 0,
                          fmt::format("more than {} characters that structure YAML ({})", max_values, indicators));
}

std::string_view name_of(document::kind k) {
    constexpr std::string_view kind_names[] = {"a single value", "a list", "a map"};
    return kind_names[static_cast<std::size_t>(k)];
}

}  // namespace

struct document::value {
    struct entry {
        std::string key;
        place at;
        document content;
    };

    kind what;
    place at;
    std::shared_ptr<const std::string> file;
    std::string text;
    std::vector<document> items;
    std::vector<entry> entries;

    [[noreturn]] void fail(place where, const std::string& message) const {
        throw input_error(*file, where.line, where.column, message);
    }
    void expect(kind wanted) const {
        if (what != wanted) fail(at, fmt::format("expected {}, found {}", name_of(wanted), name_of(what)));
    }
    const entry* find(std::string_view key) const {
        expect(kind::map);
        const auto found = std::find_if(entries.begin(), entries.end(), [&](const entry& e) { return e.key == key; });
        return found == entries.end() ? nullptr : &*found;
    }
};

// Builds the document from yaml-cpp's events, since its tree hides duplicate keys. An excess of depth or values then
// stops the parser before the stack or the memory is exhausted.
struct document_builder final : YAML::EventHandler {
    using value = document::value;
    using kind = document::kind;

    explicit document_builder(const std::string& name) : file(std::make_shared<const std::string>(name)) {}

    static document parse(std::string_view text, const std::string& name) {
        document_builder builder(name);
        std::istringstream stream{std::string(text)};
        try {
            YAML::Parser parser(stream);
            while (parser.HandleNextDocument(builder)) {}
        } catch (const YAML::Exception& e) {
            if (has_bare_host_list(text, e.mark.line))
                builder.fail(e.mark, "a list of hosts must stand in quotes here, as in hosts: \"node[01-32]\"");
            builder.fail(e.mark, fmt::format("{}: {}", e.msg, advice_on(e.msg)));
        }
        if (!builder.root) throw input_error(name, 0, 0, "the file is empty");
        return document(std::move(builder.root));
    }

    void OnDocumentStart(const YAML::Mark& mark) override {
        if (root) fail(mark, "a second document begins here; give one document per file");
    }
    void OnDocumentEnd() override {}
    void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
        fail(mark, "a value is missing here; write one, in quotes if the word null is meant");
    }
    void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
        fail(mark, "aliases (*name) are not read; write the value out");
    }
    void OnAnchor(const YAML::Mark& mark, const std::string&) override {
        fail(mark, "anchors (&name) are not read; remove it");
    }
    void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t, const std::string& text) override {
        if (std::any_of(text.begin(), text.end(), is_control)) fail(mark, "an escaped control character; remove it");
        std::shared_ptr<value> scalar = make(kind::scalar, mark, tag);
        scalar->text = text;
        add(std::move(scalar));
    }
    void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                         YAML::EmitterStyle::value) override {
        open_frame(make(kind::sequence, mark, tag));
    }
    void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                    YAML::EmitterStyle::value) override {
        open_frame(make(kind::map, mark, tag));
    }
    void OnSequenceEnd() override { close_frame(); }
    void OnMapEnd() override { close_frame(); }

private:
    // A sequence or map that is being read.
    struct frame {
        std::shared_ptr<value> content;
        std::shared_ptr<const value> key = nullptr;  // a map's key that waits for its value
        std::unordered_set<std::string> keys = {};
    };

    [[noreturn]] void fail(const YAML::Mark& mark, const std::string& message) const {
        const place at = place_of(mark);
        throw input_error(*file, at.line, at.column, message);
    }

    std::shared_ptr<value> make(kind what, const YAML::Mark& mark, const std::string& tag) {
        // yaml-cpp uses "?" for a value without a tag, and "!" for a quoted scalar.
        if (!tag.empty() && tag != "?" && tag != "!") fail(mark, fmt::format("tags ({}) are not read; remove it", tag));
        if (++values > max_values) fail(mark, fmt::format("more than {} values", max_values));
        auto v = std::make_shared<value>();
        v->what = what;
        v->at = place_of(mark);
        v->file = file;
        return v;
    }

    void open_frame(std::shared_ptr<value> content) {
        if (stack.size() == max_depth) content->fail(content->at, fmt::format("nested deeper than {}", max_depth));
        stack.push_back({std::move(content)});
    }

    void close_frame() {
        std::shared_ptr<value> done = std::move(stack.back().content);
        stack.pop_back();
        add(std::move(done));
    }

    void add(std::shared_ptr<value> v) {
        if (stack.empty()) {
            root = std::move(v);
            return;
        }
        frame& top = stack.back();
        if (top.content->what == kind::sequence) {
            top.content->items.push_back(document(std::move(v)));
        } else if (!top.key) {
            if (v->what != kind::scalar) v->fail(v->at, "a key must be a single value");
            if (!top.keys.insert(v->text).second) v->fail(v->at, fmt::format("key \"{}\" is there twice", v->text));
            top.key = std::move(v);
        } else {
            top.content->entries.push_back({top.key->text, top.key->at, document(std::move(v))});
            top.key = nullptr;
        }
    }

    std::shared_ptr<const std::string> file;
    std::vector<frame> stack;
    std::shared_ptr<const value> root;
    std::size_t values = 0;
};

document document::parse(std::string_view text, const std::string& file_name) {
    if (text.size() > max_bytes)
        throw input_error(file_name, 0, 0, fmt::format("larger than {}", format_bytes(max_bytes)));
    check_text(text, file_name);
    check_indicators(text, file_name);
    return document_builder::parse(text, file_name);
}

document::kind document::what() const noexcept { return value_->what; }

const std::string& document::text() const {
    value_->expect(kind::scalar);
    return value_->text;
}

std::int64_t document::integer(std::int64_t low, std::int64_t high) const {
    const std::string& digits = text();
    const auto number = as_number<std::int64_t>(digits);
    if (!number || *number < low || *number > high)
        fail(fmt::format("\"{}\" is not an integer from {} to {}", digits, low, high));
    return *number;
}

double document::bandwidth() const {
    const auto rate = parse_bandwidth(text());
    if (!rate)
        fail(fmt::format(
            "\"{}\" is not a bandwidth; write a positive number and a unit as in \"10 GB/s\": B/s or bit/s, "
            "with k M G T or Ki Mi Gi Ti before it",
            text()));
    return *rate;
}

double document::duration() const {
    const auto seconds = parse_duration(text());
    if (!seconds)
        fail(fmt::format("\"{}\" is not a duration; write a number and a unit as in \"30 us\": ns, us, ms or s",
                         text()));
    return *seconds;
}

std::int64_t document::bytes() const {
    const auto count = parse_bytes(text());
    if (!count)
        fail(
            fmt::format("\"{}\" is not a number of bytes; write a whole number, and a unit as in \"32 KiB\": B with "
                        "k M G T or Ki Mi Gi Ti before it",
                        text()));
    return *count;
}

std::vector<document> document::items() const {
    value_->expect(kind::sequence);
    return value_->items;
}

bool document::has(std::string_view key) const { return value_->find(key) != nullptr; }

document document::at(std::string_view key) const {
    const value::entry* found = value_->find(key);
    if (!found) fail(fmt::format("\"{}\" is missing here", key));
    return found->content;
}

std::vector<std::pair<std::string, document>> document::entries() const {
    value_->expect(kind::map);
    std::vector<std::pair<std::string, document>> result;
    for (const value::entry& e : value_->entries) result.emplace_back(e.key, e.content);
    return result;
}

void document::allow_only(std::span<const std::string_view> known) const {
    value_->expect(kind::map);
    for (const value::entry& e : value_->entries)
        if (std::find(known.begin(), known.end(), e.key) == known.end())
            value_->fail(e.at, fmt::format("unknown key \"{}\"{}; known here: {}", e.key, did_you_mean(e.key, known),
                                           fmt::join(known, ", ")));
}

void document::fail(const std::string& message) const { value_->fail(value_->at, message); }

const std::string& document::file() const noexcept { return *value_->file; }

int document::line() const noexcept { return value_->at.line; }
int document::column() const noexcept { return value_->at.column; }

void expect_format(const document& number, int newest, std::string_view advice) {
    const std::string& text = number.text();
    const bool large = text.size() > 9 && text.find_first_not_of("0123456789") == text.npos;
    if (large || number.integer(1, std::numeric_limits<int>::max()) > newest)
        number.fail(fmt::format("format {} of a newer version; Terrace {} reads formats up to {}: {}", text, version(),
                                newest, advice));
}

}  // namespace terrace::detail
