#include "topology/formats/json_file.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/document.hpp"
#include "base/text_check.hpp"

namespace terrace::detail {

namespace {

constexpr std::size_t max_json = 64 << 20;
constexpr std::size_t max_json_values = 500'000;
constexpr std::size_t max_json_depth = 64;

// Iterates over a text, and records line and column of the last character that the parser has read.
class counting_iterator {
public:
    using value_type = char;
    using difference_type = std::ptrdiff_t;
    using pointer = const char*;
    using reference = const char&;
    using iterator_category = std::input_iterator_tag;

    counting_iterator(const char* at, text_position* where) : at_(at), where_(where) {}
    reference operator*() const { return *at_; }
    counting_iterator& operator++() {
        if (*at_ == '\n') *where_ = {where_->line + 1, 0};
        else ++where_->column;
        ++at_;
        return *this;
    }
    bool operator==(const counting_iterator& other) const { return at_ == other.at_; }

private:
    const char* at_;
    text_position* where_;
};

}  // namespace

// Builds the kept values from the parser's events. Only events give the place of a value, and let an excess of depth or
// values stop the parser.
struct json_events final : nlohmann::json_sax<nlohmann::json> {
    json_events(json_file& f, json_file::filter k, const text_position& w, std::size_t most)
        : file(f), keep(k), where(w), most_values(most) {}

    bool null() override { return add({where}); }
    bool boolean(bool value) override { return add({where, json_value::kind::flag, value ? "true" : "false"}); }
    bool number_integer(number_integer_t n) override { return number(fmt::to_string(n)); }
    bool number_unsigned(number_unsigned_t n) override { return number(fmt::to_string(n)); }
    bool number_float(number_float_t, const string_t& text) override { return number(text); }
    bool string(string_t& text) override { return add({where, json_value::kind::text, kept() ? std::move(text) : ""}); }
    bool binary(binary_t&) override { return add({where}); }
    bool start_object(std::size_t) override { return open(json_value::kind::map); }
    bool start_array(std::size_t) override { return open(json_value::kind::list); }
    bool end_object() override { return close(); }
    bool end_array() override { return close(); }

    bool key(string_t& name) override {
        frame& top = stack.back();
        top.keep_next = top.kept && (keep == nullptr || keep(top.of, name));
        if (top.keep_next) {
            if (top.value.find(name)) fail(fmt::format("key \"{}\" is there twice; remove one", name));
            top.next = std::move(name);
        }
        return true;
    }

    bool parse_error(std::size_t, const std::string& token, const nlohmann::json::exception&) override {
        if (std::ranges::any_of(token, [](char c) { return static_cast<unsigned char>(c) >= 0x80; }))
            fail("not JSON here; look for a missing quote, comma or bracket");
        fail(fmt::format("not JSON at \"{}\"; look for a missing quote, comma or bracket",
                         token.substr(token.size() - std::min<std::size_t>(token.size(), 40))));
    }

private:
    // A map or list that is being read.
    struct frame {
        json_value value;
        std::string of;  // key of this value, or of the list around it
        bool kept;
        bool keep_next;    // true if the next value is kept
        std::string next;  // key of the next value
    };

    [[noreturn]] void fail(const std::string& message) const {
        throw input_error(file.path_, where.line, where.column, message);
    }

    bool kept() const { return stack.empty() || stack.back().keep_next; }

    bool open(json_value::kind what) {
        if (stack.size() == max_json_depth) fail(fmt::format("nested deeper than {}", max_json_depth));
        const bool keeps = kept(), is_list = what == json_value::kind::list;
        std::string of;
        if (keeps && !stack.empty())
            of = stack.back().value.what == json_value::kind::map ? stack.back().next : stack.back().of;
        stack.push_back({{where, what}, std::move(of), keeps, keeps && is_list, {}});
        return true;
    }

    bool number(const std::string& digits) { return add({where, json_value::kind::number, digits}); }

    bool close() {
        frame done = std::move(stack.back());
        stack.pop_back();
        return add(std::move(done.value));
    }

    bool add(json_value v) {
        if (!kept()) return true;
        if (++values > most_values) fail(fmt::format("more than {} values", most_values));
        if (stack.empty()) file.root_ = std::move(v);
        else if (stack.back().value.what == json_value::kind::list) stack.back().value.items.push_back(std::move(v));
        else stack.back().value.entries.emplace_back(std::move(stack.back().next), std::move(v));
        return true;
    }

    json_file& file;
    json_file::filter keep;
    const text_position& where;
    std::size_t most_values;
    std::vector<frame> stack = {};
    std::size_t values = 0;
};

json_file::json_file(const std::string& path, filter keep)
    : json_file(path, read_text(path, max_json), keep, max_json_values) {}

json_file::json_file(const std::string& path, const std::string& text, filter keep, std::size_t most_values)
    : path_(path) {
    check_text(text, path);
    text_position where{1, 0};
    json_events events(*this, keep, where, most_values);
    nlohmann::json::sax_parse(counting_iterator(text.data(), &where),
                              counting_iterator(text.data() + text.size(), &where), &events);
}

const json_value& json_file::at(const json_value& map, std::string_view key, json_value::kind what) const {
    if (map.what != json_value::kind::map) fail(map, fmt::format("a map with \"{}\" expected here", key));
    const json_value* found = map.find(key);
    if (!found) fail(map, fmt::format("\"{}\" is missing here", key));
    constexpr std::string_view names[] = {"a map", "a list", "a text", "a number", "true or false", "null"};
    if (found->what != what) fail(*found, fmt::format("\"{}\" is not {}", key, names[static_cast<int>(what)]));
    return *found;
}

}  // namespace terrace::detail
