// Files of rules for Open MPI's components `tuned` and `han`. They consist of numbers; a count precedes each list. `#`
// begins a comment.

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <terrace/error.hpp>

#include "base/text_parts.hpp"
#include "tools/terrace/exports/formats.hpp"
#include "tools/terrace/exports/library_algorithms.hpp"

namespace terrace::detail {

namespace {

constexpr std::array rule_collectives{library_collective{collective::allgather, 0, "ALLGATHER", "Allgather"},
                                      library_collective{collective::allreduce, 2, "ALLREDUCE", "Allreduce"},
                                      library_collective{collective::broadcast, 7, "BCAST", "Bcast"},
                                      library_collective{collective::reduce, 11, "REDUCE", "Reduce"}};

constexpr std::int64_t any_int = std::numeric_limits<int>::max(), any_size = std::numeric_limits<std::int64_t>::max();

// A kind of number in a file. Each number of a list is followed by a list of the next kind.
struct number_kind {
    std::string_view name;
    std::int64_t most;
    bool rises = false;  // in ascending order
};
constexpr std::array kinds{number_kind{"collective", 21}, number_kind{"ranks", any_int, true},
                           number_kind{"message size", any_size, true}};
constexpr std::array kinds_of_han{number_kind{"collective", 21}, number_kind{"topological level", 2},
                                  number_kind{"ranks", any_int, true}, number_kind{"message size", any_size, true}};
constexpr std::array<std::string_view, 7> components{"self", "basic", "libnbc", "tuned", "sm", "adapt", "han"};

// By collective: number of algorithms of the component `tuned` in Open MPI 4.1.
constexpr std::array<int, 22> most_algorithm{6, 5, 6, 5, 2, 0, 6, 9, 2, 3, 0, 7, 4, 4, 2, 3};

class rules_reader {
public:
    rules_reader(const named_text& file, std::string_view component) : file_(file), component_(component) {}

    plan_facts read() {
        if (of_han()) read_set(kinds_of_han);
        else read_set(kinds);
        if (find_next()) fail("more numbers than the counts before them say");
        return {fmt::format("{} rules for Open MPI's component {}", rules_, component_), std::move(numbers_), {}};
    }

private:
    bool of_han() const { return component_ == "han"; }

    void read_set(std::span<const number_kind> left) {
        const number_kind& kind = left[0];
        const std::int64_t count = next(fmt::format("count of: {}", kind.name), 1, any_size);
        std::int64_t before = -1;
        for (std::int64_t n = 0; n < count; ++n) {
            const std::int64_t key = next(kind.name, 0, kind.most);
            if (kind.rises && key <= before)
                fail(fmt::format("{} {} behind {}: they must rise", kind.name, key, before));
            if (of_han() && kind.name == "ranks" && n == 0 && key != 1) fail("the first number of ranks must be 1");
            before = key;
            if (left.size() == kinds.size()) collective_ = static_cast<std::size_t>(key);
            if (left.size() > 1) read_set(left.subspan(1));
            else read_rule(n, key);
        }
    }

    void read_rule(std::int64_t n, std::int64_t bytes) {
        if (n == 0 && bytes != 0) fail("the first message size must be 0");
        ++rules_;
        if (of_han()) return read_component();
        next("algorithm", 0, most_algorithm[collective_]);
        next("fan", 0, any_int);
        next("segment", 0, any_int);
    }

    void read_component() {
        find_next();
        next_ = std::min(file_.text.size(), file_.text.find_first_of(" \t\r\n#", next_));
        numbers_.push_back(file_.text.substr(number_, next_ - number_));
        if (std::ranges::find(components, numbers_.back()) == components.end())
            fail(fmt::format("no component of {}", fmt::join(components, ", ")));
    }

    // Advances to the next number, and sets `number_` to its position. Returns false at the end.
    bool find_next() {
        for (bool in_comment = false; next_ < file_.text.size(); ++next_) {
            const char c = file_.text[next_];
            if (c == '\n') {
                in_comment = false;
                ++line_;
                line_begin_ = next_ + 1;
            } else if (c == '#') {
                in_comment = true;
            } else if (!in_comment && c != ' ' && c != '\t' && c != '\r') {
                break;
            }
        }
        number_ = next_;
        return next_ < file_.text.size();
    }

    std::int64_t next(std::string_view name, std::int64_t least, std::int64_t most) {
        find_next();
        std::string_view rest = std::string_view(file_.text).substr(next_);
        const auto value = leading_number<std::int64_t>(rest, &rest);
        if (!value || *value < least || *value > most) fail(fmt::format("no {} from {} to {}", name, least, most));
        next_ = file_.text.size() - rest.size();
        numbers_.push_back(fmt::format("{} {}", name, *value));
        return *value;
    }

    [[noreturn]] void fail(const std::string& why) const {
        throw input_error(file_.name, line_, static_cast<int>(number_ - line_begin_) + 1, why);
    }

    const named_text& file_;
    std::string_view component_;
    std::size_t next_ = 0, number_ = 0, line_begin_ = 0, collective_ = 0;
    int line_ = 1, rules_ = 0;
    std::vector<std::string> numbers_;  // with their names
};

}  // namespace

std::span<const library_collective> library_collectives() noexcept { return rule_collectives; }

std::string openmpi_rules_text(int ranks, const library_choices& choices) {
    std::string out = fmt::format("{} # collectives\n", choices.size());
    for (const library_collective& c : rule_collectives) {
        const auto found = choices.find(c.what);
        if (found == choices.end()) continue;
        out += fmt::format("{} # {}\n3 # sizes of communicators\n1 1\n0 0 0 0\n{} # ranks\n{} # message sizes\n",
                           c.openmpi, to_string(c.what), ranks, found->second.size());
        for (const auto& [from, how] : found->second)
            out += how == nullptr ? fmt::format("{} 0 0 0 # Open MPI's own choice\n", from)
                                  : fmt::format("{} {} 0 {} # {}\n", from, how->openmpi, how->segment, how->name);
        out += fmt::format("{} 1\n0 0 0 0\n", ranks + 1);
    }
    return out;
}

plan_facts read_openmpi_rules(const named_text& file) { return rules_reader(file, "tuned").read(); }

plan_facts read_openmpi_han(const named_text& file) { return rules_reader(file, "han").read(); }

}  // namespace terrace::detail
